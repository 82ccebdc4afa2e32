"""Subscriptions that begin with `#noexport/`: they get what is published at their own broker, and no neighbor hears."""

import pytest

from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.clients.subscriptions import SmrpQuery
from support.amqp.client import AmqpClient
from support.broker.linked_brokers import Brokers
from support.broker.named_queues import create, shows
from support.flow.client import FlowClient, subscribes
from support.mqtt.raw_client import RawClient

NO_MATCHING_SUBSCRIBERS = 0x10


async def publisher(network: Brokers, at: str) -> RawClient:
    return await network[at].connect(f"publisher at {at}", 5)


async def is_wanted_at_home_only(network: Brokers, topic: str, payload: bytes = b"m") -> None:
    """Check that a publish at a matches nobody, and publish at b."""
    await network.are_linked()
    assert network["a"].wants("b") == set()
    assert await (await publisher(network, "a")).publish(topic, b"elsewhere", qos=1) == NO_MATCHING_SUBSCRIBERS
    assert await (await publisher(network, "b")).publish(topic, payload, qos=1) == 0


@pytest.mark.parametrize("form", ["#noexport/", "$noexport/"])
@pytest.mark.parametrize("level", [4, 5])
async def test_an_mqtt_client_hears_its_own_broker_only(network: Brokers, form: str, level: int) -> None:
    client = await network["b"].connect("client", level)
    assert await client.subscribe((f"{form}plant/+", 1)) == [1]
    await is_wanted_at_home_only(network, "plant/1")
    assert await client.payloads(1) == [b"m"]
    await client.unsubscribe(f"{form}plant/+")
    assert await (await publisher(network, "b")).publish("plant/1", b"x", qos=1) == NO_MATCHING_SUBSCRIBERS
    await client.is_quiet()


async def test_both_forms_of_a_subscription_are_two(network: Brokers) -> None:
    """Each ends by itself; a message that matches both comes once."""
    client = await network["b"].connect("client", 5)
    await client.subscribe(("plant/1", 1))
    await client.subscribe(("#noexport/plant/1", 1))
    await network.are_linked()
    assert await (await publisher(network, "a")).publish("plant/1", b"from a", qos=1) == 0
    assert await client.payloads(1) == [b"from a"]
    await client.is_quiet()
    await client.unsubscribe("plant/1")
    await is_wanted_at_home_only(network, "plant/1")
    assert await client.payloads(1) == [b"m"]


async def test_a_kept_session_has_it_after_a_restart(network: Brokers) -> None:
    client = await network["b"].connect_durable("client")
    await client.subscribe(("#noexport/plant/#", 1))
    await client.vanish()
    await network["b"].restart()
    await network.proxy("a", "b")  # it listens at another port now
    await is_wanted_at_home_only(network, "plant/1")
    client = await network["b"].connect_durable("client")
    assert await client.payloads(1) == [b"m"]


async def test_a_shared_group_is_of_one_broker_and_another_than_that_of_the_network(network: Brokers) -> None:
    exported = await network["a"].connect("exported", 5)
    assert await exported.subscribe(("$share/g/plant/1", 1)) == [1]
    client = await network["b"].connect("client", 5)
    assert await client.subscribe(("#noexport/$share/g/plant/1", 1)) == [1]
    await network.are_linked()
    assert network["a"].wants("b") == set()
    await (await publisher(network, "a")).publish("plant/1", b"from a", qos=1)
    await (await publisher(network, "b")).publish("plant/1", b"from b", qos=1)
    assert await exported.payloads(2) == [b"from a", b"from b"]
    assert await client.payloads(1) == [b"from b"]
    await client.is_quiet()
    assert await client.unsubscribe("#noexport/$share/g/plant/1") == [0]


async def test_a_flow_client_hears_its_own_broker_only(network: Brokers) -> None:
    async with FlowClient(network["b"].flow_port) as client:
        await subscribes(client, "#noexport/plant/>")
        await subscribes(client, "#noexport/#share/g/office/*")
        await is_wanted_at_home_only(network, "plant/1")
        await is_wanted_at_home_only(network, "office/1")
        assert [each.payload for each in await client.receives_in_all(2, 0)] == [b"m", b"m"]


@pytest.mark.parametrize("address", ["topic://#noexport/plant/*", "#noexport/plant/*", "#noexport/#share/g/plant/*"])
async def test_an_amqp_receiver_hears_its_own_broker_only(network: Brokers, address: str) -> None:
    client = await AmqpClient.open(network["b"].amqp_port)
    answer = await client.receiver("r", address, handle=1, credit=10)
    assert answer.source is not None
    await is_wanted_at_home_only(network, "plant/1")
    (delivery,) = await client.deliveries(1)
    assert delivery.payload == b"m"
    await client.close()


async def test_a_queue_collects_at_its_own_broker_only(network: Brokers) -> None:
    await create(network["b"], "q", subscriptions=["#noexport/plant/>"])
    await is_wanted_at_home_only(network, "plant/1")
    await shows(network["b"], lambda view: view.spooled_count == 1)


async def test_operators_see_which_subscriptions_are_not_exported(network: Brokers) -> None:
    client = await network["b"].connect("client", 5)
    await client.subscribe("#noexport/plant/+", "#noexport/$share/g/plant/#", "plant/+", "#noexport/plant/1")
    for query in (SmrpQuery(), SmrpQuery(topic="plant/1")):
        view = await NodeOperations(network["b"].node).smrp_subscriptions(query)
        found = [each.subscription for each in view.subscriptions if each.destination_name == "client"]
        assert sorted(found) == ["#noexport/#share/g/plant/#", "#noexport/plant/+", "#noexport/plant/1", "plant/+"]


async def test_a_link_that_begins_later_does_not_export_it(brokers: Brokers) -> None:
    broker = await brokers.add("b", "links.a.url=")
    client = await broker.connect("client", 5)
    await client.subscribe("#noexport/plant/1", "#noexport/plant/+", "office/1")
    await brokers.add("a", f"links.b.url=flow://127.0.0.1:{broker.flow_port}")
    await brokers.are_linked()
    assert brokers["a"].wants("b") == {"office/1"}
