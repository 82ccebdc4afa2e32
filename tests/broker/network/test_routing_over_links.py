"""Clients of three linked brokers: who gets what is published at one of them."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import support.mqtt.packets as mqtt
from support.amqp.client import AmqpClient
from support.broker.linked_brokers import Brokers, until
from support.broker.operator_views import explained
from support.mqtt.raw_client import RawClient

NO_MATCHING_SUBSCRIBERS = 0x10
MESSAGE_EXPIRY = 2  # the property
TO_ONE = mqtt.user_property("deliver-to-one", "true")


@pytest.fixture
def network(runner: asyncio.Runner, tmp_path: Path) -> Iterator[Brokers]:
    """Three brokers, a, b and c, all linked."""
    brokers = Brokers(tmp_path)

    async def start() -> None:
        await brokers.__aenter__()
        for name in "bca":
            await brokers.add(name, *[f"links.{each}.url={_url(brokers, each)}" for each in "abc" if each != name])
        await brokers.are_linked("a", "b", "c")

    runner.run(start())
    yield brokers
    runner.run(brokers.__aexit__(None, None, None))


def _url(brokers: Brokers, name: str) -> str:
    """Return where a broker listens; empty before it has started: then it connects to those that have."""
    return f"flow://127.0.0.1:{brokers[name].flow_port}" if name in brokers.by_name else ""


async def subscribed(network: Brokers, at: str, name: str, *filters: str, priority: str = "") -> RawClient:
    """Return a client whose subscriptions are known in the whole network."""
    client = await network[at].connect(name, 5)
    properties = mqtt.user_property("dto-priority", priority) if priority else b""
    await client.subscribe(*filters, properties=properties)
    await known(network, at)
    return client


async def known(network: Brokers, at: str) -> None:
    """Wait until the neighbors of a broker know what it wants."""
    neighbors = network[at].node.links.links.neighbors.values()
    links = [link.interests for neighbor in neighbors for link in neighbor.linked.values()]
    await until(
        lambda: all(each.sender.acknowledged_number == each.sender.sent_number for each in links),
        f"the interest of {at} is known",
    )


async def test_each_client_of_the_network_gets_a_message_once(network: Brokers) -> None:
    clients = [await subscribed(network, at, f"{at}{number}", "plant/#", "plant/+") for at in "abc" for number in "12"]
    for at in "abc":
        publisher = await network[at].connect("publisher")
        for qos in (0, 1, 2):
            await publisher.publish(f"plant/{at}", b"%d from %s" % (qos, at.encode()), qos=qos)
    expected = sorted(b"%d from %s" % (qos, at) for qos in (0, 1, 2) for at in (b"a", b"b", b"c"))
    for client in clients:
        assert sorted(await client.payloads(9)) == expected
    for client in clients:
        await client.is_quiet()


async def test_a_broker_without_a_match_is_sent_nothing(network: Brokers) -> None:
    subscriber = await subscribed(network, "b", "subscriber", "t")
    publisher = await network["a"].connect("publisher")
    await publisher.publish("t", b"m", qos=0)
    assert await subscriber.payloads(1) == [b"m"]
    assert network["b"].neighbor("a").vpns[0].received_count == 1
    assert network["c"].neighbor("a").vpns[0].received_count == 0


async def test_a_publisher_hears_whether_anybody_in_the_network_subscribes(network: Brokers) -> None:
    """Reason code 0x10 of PUBACK [MQTT 3.4.2.1]."""
    publisher = await network["a"].connect("publisher", 5)
    assert await publisher.publish("t") == NO_MATCHING_SUBSCRIBERS
    subscriber = await subscribed(network, "c", "subscriber", "t")
    assert await publisher.publish("t") == 0
    assert await subscriber.unsubscribe("t") == [0]
    await known(network, "c")
    assert await publisher.publish("t") == NO_MATCHING_SUBSCRIBERS


async def test_a_session_that_is_away_keeps_guaranteed_messages_of_other_brokers(network: Brokers) -> None:
    session = await network["b"].connect_durable("session")
    await session.subscribe("t", qos=1)
    await known(network, "b")
    await session.leave()
    publisher = await network["a"].connect("publisher")
    assert await publisher.publish("t", b"kept") == 0
    await publisher.publish("t", b"not kept", qos=0)
    link = network["b"].neighbor("a").vpns[0]
    await until(lambda: (link.arrivals.received_count, link.received_count) == (1, 1), "both have crossed")

    back = await network["b"].connect_durable("session")
    [message] = await back.messages(1)
    assert (message.payload, message.qos) == (b"kept", 1)
    assert network["a"].node.default.space.sent_at_most_once_count == 0


async def test_a_message_for_one_goes_to_one_client_of_the_network(network: Brokers) -> None:
    """Solace 3.2: local clients first; else one neighbor, whose clients take turns."""
    away = {name: await subscribed(network, name[0], name, "jobs", priority="P2") for name in ("b1", "b2", "c1", "c2")}
    audit = await subscribed(network, "c", "audit", "#")
    publisher = await network["a"].connect("publisher", 5)
    for number in range(8):
        await publisher.publish("jobs", b"%d" % number, qos=0, properties=TO_ONE)
    got = [payload for client in away.values() for payload in await client.payloads(2)]
    assert sorted(got) == [b"%d" % number for number in range(8)]
    assert await audit.payloads(8) == [b"%d" % number for number in range(8)]

    local = await subscribed(network, "a", "local", "jobs", priority="P4")
    await publisher.publish("jobs", b"near", qos=0, properties=TO_ONE)
    assert await local.payloads(1) == [b"near"]
    assert await audit.payloads(1) == [b"near"]
    for client in away.values():
        await client.is_quiet()


async def test_a_shared_subscription_has_one_member_in_the_network_for_each_message(network: Brokers) -> None:
    members = [await subscribed(network, at, f"{at} member", "$share/crew/t") for at in "bc"]
    other = await subscribed(network, "b", "other", "$share/others/t")
    publisher = await network["a"].connect("publisher")
    numbers = [b"%d" % number for number in range(10)]
    for number in numbers:
        await publisher.publish("t", number, qos=0)
    got = [await member.payloads(5) for member in members]
    assert sorted(got[0] + got[1]) == numbers
    assert await other.payloads(10) == numbers

    local = await subscribed(network, "a", "a member", "$share/crew/t")
    await publisher.publish("t", b"near", qos=0)
    assert await local.payloads(1) == [b"near"]
    assert await other.payloads(1) == [b"near"]
    for member in members:
        await member.is_quiet()


async def test_a_message_is_as_old_at_the_neighbor_as_it_is(network: Brokers) -> None:
    """The clock of b is an hour ahead: what is left of a minute is a minute [MQTT 3.3.2.3.3]."""
    network["b"].clock.forward(3_600)
    subscriber = await subscribed(network, "b", "subscriber", "t")
    publisher = await network["a"].connect("publisher", 5)
    await publisher.publish("t", b"m", qos=0, properties=mqtt.message_expiry(60))
    [message] = await subscriber.messages(1)
    assert dict(message.properties)[MESSAGE_EXPIRY] == 60


async def test_a_retained_message_crosses_as_a_live_one(network: Brokers) -> None:
    """A subscriber that asked for Retain As Published sees the flag, and gets the message once."""
    subscriber = await network["b"].connect("subscriber", 5)
    await subscriber.subscribe(("t", 0x08))
    await known(network, "b")
    publisher = await network["a"].connect("publisher", 5)
    await publisher.publish("t", b"m", retain=True)
    [message] = await subscriber.messages(1)
    assert message.retain
    await until(lambda: network["b"].node.default.space.retained.count == 1, "it is retained there, too")
    await subscriber.is_quiet()


async def test_an_amqp_receiver_gets_what_an_mqtt_client_of_another_broker_publishes(network: Brokers) -> None:
    receiver = await AmqpClient.open(network["c"].amqp_port, "receiver")
    await receiver.receiver("link", "topic://plant/*", credit=10)
    await known(network, "c")
    publisher = await network["a"].connect("publisher", 5)
    for qos in (0, 1):
        await publisher.publish("plant/1", b"%d" % qos, qos=qos)
    assert [each.payload for each in await receiver.deliveries(2)] == [b"0", b"1"]
    await receiver.ends()


async def test_explain_names_the_neighbors_that_would_get_a_message(network: Brokers) -> None:
    await subscribed(network, "b", "b1", "t")
    await subscribed(network, "c", "c1", "+")
    await subscribed(network, "c", "member", "$share/crew/t")
    answer = await explained(network["a"], "t", qos=0)
    assert answer.verdict == "accepted"
    assert [(each.kind, each.name, each.filter, each.verdict) for each in answer.destinations] == [
        ("neighbor", "b", "t", "delivered"),
        ("neighbor", "c", "+", "delivered"),
        ("shared-group", "crew", "t", "delivered"),
    ]
    turns = Counter(
        each.verdict for each in (await explained(network["a"], "t", qos=0, deliver_to_one=True)).destinations
    )
    assert turns == {"delivered": 2, "not-its-turn": 1}
