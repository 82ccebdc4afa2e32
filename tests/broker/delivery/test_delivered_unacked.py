"""Limits of unsettled messages: for one flow over its partitions, and for all consumers of the node."""

import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.operations.node import NodeOperations
from support.broker.running_broker import RunningBroker


async def create(broker: RunningBroker, name: str, **attributes: object) -> None:
    await NodeOperations(broker.node).create_queue({"name": name, **attributes})


async def test_a_flow_over_many_partitions_stops_at_its_maximum_and_goes_on(broker: RunningBroker) -> None:
    """Solace 6.4."""
    shape = {"access_type": "non-exclusive", "partition_count": 4, "max_delivered_unacked_msgs_per_flow": 5}
    await create(broker, "orders", subscriptions=["t"], **shape)
    client = await broker.connect(level=5)
    for number in range(40):
        await client.publish("t", b"%d" % number, properties=mqtt.user_property("JMSXGroupID", f"k{number}"))
    worker = await broker.connect("worker", level=5)
    await worker.subscribe("$queue/orders", qos=1)
    held = [await worker.message() for _ in range(5)]
    await worker.is_quiet()

    seen = {each.payload for each in held}
    while len(seen) < 40:
        worker.acknowledge(held.pop(0))
        held.append(await worker.message())
        seen.add(held[-1].payload)
    assert len(seen) == 40


@pytest.mark.settings("limits.delivered_unacked_max=3")
async def test_at_the_maximum_of_the_node_no_consumer_gets_more_until_a_settlement(broker: RunningBroker) -> None:
    """Solace 6.4 and 13.5, with the events of the maximum."""
    await create(broker, "a", subscriptions=["a"])
    await create(broker, "b", subscriptions=["b"])
    client = await broker.connect(level=5)
    for topic in ("a", "b"):
        for _ in range(3):
            await client.publish(topic, topic.encode())
    first = await broker.connect("first", level=5)
    await first.subscribe("$queue/a", qos=1)
    held = [await first.message() for _ in range(3)]
    second = await broker.connect("second", level=5)
    await second.subscribe("$queue/b", qos=1)
    await second.is_quiet()

    first.acknowledge(held[0])
    await second.message()
    await second.is_quiet()
    await first.vanish()  # gives back the other two
    assert [(await second.message()).payload for _ in range(2)] == [b"b", b"b"]

    view = NodeOperations(broker.node)
    names = [each.event for each in await view.events(after=0, limit=1000)]
    assert names.count("SYSTEM_AD_DELIVERED_UNACKED_MSGS_HIGH") >= 1
    assert names.count("SYSTEM_AD_DELIVERED_UNACKED_MSGS_EXCEED") >= 1
    await second.vanish()
