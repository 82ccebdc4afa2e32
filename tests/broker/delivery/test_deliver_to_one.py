"""Deliver-To-One over every protocol: who asks for it, who is chosen, and who always gets it."""

import pytest

import support.mqtt.packets as mqtt
from sluicegate.messaging.message.headers import Headers
from sluicegate.protocols.amqp.codec.performatives import Detach
from sluicegate.protocols.amqp.codec.termini import Source
from sluicegate.protocols.amqp.messages.decode import BODY_DATA, body_bytes_of
from sluicegate.protocols.amqp.types.encoding import encode
from sluicegate.protocols.amqp.types.values import AmqpMap, Symbol
from support.amqp.client import AmqpClient
from support.broker.running_broker import RunningBroker
from support.flow.client import FlowClient
from support.http.plain import plain_async_client
from support.mqtt.raw_client import DEADLINE_S, RawClient

REASON_STRING = 31
TO_ONE = mqtt.user_property("deliver-to-one", "true")
ANNOTATED = b"\x00\x53\x72" + encode(AmqpMap([(Symbol("x-opt-deliver-to-one"), True)]))


def at(*priorities: str) -> bytes:
    return b"".join(mqtt.user_property("dto-priority", text) for text in priorities)


async def subscribed(
    broker: RunningBroker, name: str, *priorities: str, text: str = "t", **options: object
) -> RawClient:
    client = await broker.connect(name, 5, **options)
    assert await client.subscribe(text, properties=at(*priorities)) == [0]
    return client


async def test_the_best_take_turns_and_deliver_always_looks_on(broker: RunningBroker) -> None:
    """Solace 13.2."""
    best = [await subscribed(broker, name, "P1") for name in ("a", "b")]
    worse = await subscribed(broker, "c", "P3")
    audit = await subscribed(broker, "d", "DA")
    everything = await subscribed(broker, "e", text="#")
    publisher = await broker.connect("p", 5)
    for number in range(4):
        await publisher.publish("t", b"%d" % number, qos=0, properties=TO_ONE)
    await publisher.publish("t", b"all", qos=0)

    assert await best[0].payloads(3) == [b"0", b"2", b"all"]
    assert await best[1].payloads(3) == [b"1", b"3", b"all"]
    assert await worse.payloads(1) == [b"all"]
    for onlooker in (audit, everything):
        assert await onlooker.payloads(5) == [b"0", b"1", b"2", b"3", b"all"]
    for client in (*best, worse, audit, everything):
        await client.is_quiet()


async def test_the_same_topic_may_be_subscribed_to_with_a_priority_and_always(broker: RunningBroker) -> None:
    """Solace 3.2: two subscriptions, one copy."""
    both = await subscribed(broker, "a", "P1", "DA")
    other = await subscribed(broker, "b")
    publisher = await broker.connect("p", 5)
    for number in range(4):
        await publisher.publish("t", b"%d" % number, qos=0, properties=TO_ONE)
    assert await both.payloads(4) == [b"0", b"1", b"2", b"3"]
    assert await other.payloads(2) == [b"1", b"3"]
    await both.is_quiet()


async def test_an_absent_subscriber_has_no_turn_and_finds_no_message_when_it_returns(broker: RunningBroker) -> None:
    """Solace 3.2: direct messages are not kept, and another one is there."""
    away = await broker.connect_durable("a")
    await away.subscribe("t", properties=at("P1"))
    there = await subscribed(broker, "b", "P4")
    await away.leave()
    publisher = await broker.connect("p", 5)
    for number in range(3):
        await publisher.publish("t", b"%d" % number, qos=0, properties=TO_ONE)
    assert await there.payloads(3) == [b"0", b"1", b"2"]

    again = await broker.connect_durable("a")

    await again.is_quiet()
    await publisher.publish("t", b"3", qos=0, properties=TO_ONE)
    assert await again.payloads(1) == [b"3"]
    await there.is_quiet()


async def test_priorities_of_a_session_outlive_a_restart(broker: RunningBroker) -> None:
    for name, priority in (("a", "P2"), ("b", "P1")):
        client = await broker.connect_durable(name)
        await client.subscribe("t", properties=at(priority))
        await client.leave()
    await broker.restart()
    worse, best = await broker.connect_durable("a"), await broker.connect_durable("b")
    publisher = await broker.connect("p", 5)
    for number in range(2):
        await publisher.publish("t", b"%d" % number, qos=0, properties=TO_ONE)
    assert await best.payloads(2) == [b"0", b"1"]
    await worse.is_quiet()


@pytest.mark.accounts(plain="one", watch="two", publisher="three")
@pytest.mark.settings(
    "authentication.client_profiles=[{name: default, dto_local_priority: P3}, {name: audit, dto_local_priority: DA}]",
    "authentication.users.1.client_profile=audit",
)
async def test_a_client_has_the_priority_of_its_profile_where_it_asks_for_none(broker: RunningBroker) -> None:
    """Solace: the client's local priority."""
    of_profile = await subscribed(broker, "a", user_name="plain", password=b"one")
    better = await subscribed(broker, "b", "P2", user_name="plain", password=b"one")
    audit = await subscribed(broker, "c", user_name="watch", password=b"two")
    publisher = await broker.connect("p", 5, user_name="publisher", password=b"three")
    for number in range(2):
        await publisher.publish("t", b"%d" % number, qos=0, properties=TO_ONE)
    assert await better.payloads(2) == [b"0", b"1"]
    assert await audit.payloads(2) == [b"0", b"1"]
    await better.leave()
    await of_profile.round_trip()
    await publisher.publish("t", b"2", qos=0, properties=TO_ONE)
    assert await of_profile.payloads(1) == [b"2"]


async def test_an_invalid_priority_is_refused_with_the_allowed_ones(broker: RunningBroker) -> None:
    client = await broker.connect("c", 5)
    for given, reason in (
        (at("P5"), "'P5' is not a Deliver-To-One priority; allowed: P1 (the best) to P4, or DA (deliver always)"),
        (at("P1", "P2"), "P2, P1 on one subscription; allowed: one of P1 to P4, and DA beside it"),
    ):
        client.send(mqtt.subscribe(("t", 0), packet_id=77, level=5, properties=given))
        answer = await client.awaited(mqtt.SUBACK)
        assert mqtt.suback_codes(answer, 5) == [0x83]
        assert reason.encode() in answer.body


async def test_a_guaranteed_message_is_kept_for_all_who_want_it_so(broker: RunningBroker) -> None:
    """Solace 3.2: of a guaranteed message the flag concerns the direct copies only."""
    keeper = await broker.connect("k", 5)
    assert await keeper.subscribe("t", qos=1) == [1]
    direct = [await subscribed(broker, name) for name in ("a", "b")]
    publisher = await broker.connect("p", 5)
    for number in range(2):
        await publisher.publish("t", b"%d" % number, qos=1, properties=TO_ONE)
    assert await keeper.payloads(2) == [b"0", b"1"]
    assert [await client.payloads(1) for client in direct] == [[b"0"], [b"1"]]


async def test_every_protocol_can_ask_for_it(broker: RunningBroker) -> None:
    """An AMQP annotation, an HTTP header, a flag of the flow protocol; the consumer sees that it was asked."""
    pair = [await subscribed(broker, name) for name in ("a", "b")]
    port = broker.node.http.listeners["http"].port
    async with plain_async_client(f"http://127.0.0.1:{port}", timeout=DEADLINE_S) as http:
        fields = {"Solace-Deliver-To-One": "true", "Solace-Delivery-Mode": "Direct"}
        assert (await http.post("/TOPIC/t", content=b"http", headers=fields)).status_code == 200
        refused = await http.post("/TOPIC/t", content=b"http", headers={"Solace-Deliver-To-One": "perhaps"})
        assert refused.status_code == 400
    first = await pair[0].message()
    assert (first.payload, first.values(38)) == (b"http", [("deliver-to-one", "true")])

    amqp = await AmqpClient.open(broker.amqp_port, "publisher")
    await amqp.sender("s", "topic://t")
    amqp.transfer(9, ANNOTATED + body_bytes_of(BODY_DATA, b"amqp"), settled=True)
    second = await pair[1].message()
    assert (second.payload, second.values(38)) == (b"amqp", [("deliver-to-one", "true")])
    await amqp.close()

    async with FlowClient(broker.flow_port) as flow:
        flow.publishes(0, [0], topic="t", headers=Headers(deliver_to_one=True))
        assert await pair[0].payloads(1) == [b"0"]
    for client in pair:
        await client.is_quiet()


async def test_amqp_receivers_take_turns_where_their_links_say_so(broker: RunningBroker) -> None:
    """The link property `dto-priority`; without it a receiver's own queue gets everything."""
    client = await AmqpClient.open(broker.amqp_port, "workers")
    for handle, priority in enumerate(["P1", "P1", "P3", "DA", ""]):
        properties = AmqpMap([(Symbol("dto-priority"), priority)]) if priority else None
        await client.receiver(f"r{handle}", "topic://t", handle=handle, credit=100, properties=properties)
    device = await subscribed(broker, "device", "P1")
    publisher = await broker.connect("p", 5)
    for number in range(6):
        await publisher.publish("t", b"%d" % number, qos=0, properties=TO_ONE)
    await publisher.publish("t", b"all", qos=0)
    await publisher.publish("t", b"kept", qos=1, properties=TO_ONE)

    turns = await device.payloads(4)
    found: dict[int, list[bytes]] = {}
    for each in await client.deliveries(2 * 4 + 2 + 2 * 8):
        found.setdefault(each.handle, []).append(each.payload)

    assert turns[2:] == [b"all", b"kept"]
    assert sorted(turns[:2] + found[0][:2] + found[1][:2]) == [b"%d" % number for number in range(6)]
    assert found[0][2:] == found[1][2:] == found[2] == [b"all", b"kept"]
    everything = [b"0", b"1", b"2", b"3", b"4", b"5", b"all", b"kept"]
    assert found[3] == found[4] == everything
    await client.is_quiet()
    await client.close()


async def test_a_priority_of_a_link_that_cannot_be_is_refused(broker: RunningBroker) -> None:
    client = await AmqpClient.open(broker.amqp_port, "workers")
    for handle, (priority, capabilities) in enumerate((("P9", ["topic"]), ("P1", ["topic", "shared"]))):
        asked = AmqpMap([(Symbol("dto-priority"), priority)])
        source = Source("topic://t", capabilities=capabilities)
        answer = await client.receiver(f"r{handle}", source, handle=handle, properties=asked)
        assert answer.source is None
        detach = await client.awaited(Detach)
        assert detach.error is not None
        assert detach.error.condition == "amqp:invalid-field"
    await client.close()


async def test_an_amqp_consumer_sees_that_it_was_asked_for(broker: RunningBroker) -> None:
    """From the user property of MQTT to the annotation, and to nothing beside it."""
    consumer = await AmqpClient.open(broker.amqp_port, "consumer")
    await consumer.receiver("r", "topic://t", credit=10)
    publisher = await broker.connect("p", 5)
    await publisher.publish("t", b"m", qos=0, properties=TO_ONE)
    [received] = await consumer.deliveries(1)
    assert ANNOTATED in received.message
    assert received.message.count(b"deliver-to-one") == 1
    await consumer.close()
