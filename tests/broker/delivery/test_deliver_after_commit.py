"""Queues with `deliver_after_commit`: everything that a consumer received is on disk."""

import shutil
from pathlib import Path

import pytest

import support.mqtt.packets as mqtt
from support.broker.named_queues import create, shown
from support.broker.running_broker import RunningBroker
from support.flow.client import FlowClient


def copied(broker: RunningBroker) -> Path:
    """Return a copy of the spool as it is now."""
    data: Path = broker.config.data.path
    return Path(shutil.copytree(data, data.with_name("copied")))


async def power_fails_at(broker: RunningBroker, copy: Path) -> None:
    """Start from a copy, as if the power had failed when it was made."""
    await broker.stop()
    shutil.rmtree(broker.config.data.path)
    copy.rename(broker.config.data.path)
    await broker.start()


async def consumed(broker: RunningBroker, count: int) -> list[tuple[bytes, bool]]:
    """Consume so many messages; return which came flagged as redelivered."""
    async with FlowClient(broker.flow_port, name="reader") as client:
        flow_id = await client.binds("q")
        got = await client.receives_in_all(count, flow_id)
        client.accepts_through(flow_id, count)
        await client.unbinds(flow_id)
    return [(each.payload, each.redelivered) for each in got]


@pytest.mark.settings("spool.commit_interval_ms=1000")  # the copy is made long before a commit that is not waited for
@pytest.mark.parametrize("after_commit", [True, False])
async def test_delivered_messages_are_stored_with_deliver_after_commit(
    broker: RunningBroker, after_commit: bool
) -> None:
    """Method: copy the spool at the moment of the delivery. Without the attribute there is nothing in it yet."""
    await create(broker, subscriptions=["t"], deliver_after_commit=after_commit)
    async with FlowClient(broker.flow_port, name="reader") as client:
        flow_id = await client.binds("q")
        publisher = await broker.connect("publisher", 5)
        publisher.send(mqtt.publish("t", b"once", qos=2, packet_id=1, level=5))
        (got,) = await client.receives_in_all(1, flow_id)
        copy = copied(broker)
        assert not got.redelivered
        client.accepts_through(flow_id, 1)
        await client.unbinds(flow_id)
        await publisher.vanish()

    await power_fails_at(broker, copy)

    assert (await shown(broker)).ready_count == (1 if after_commit else 0)
    if after_commit:
        assert await consumed(broker, 1) == [(b"once", True)]


async def test_a_named_publisher_brings_each_message_once(broker: RunningBroker) -> None:
    """Whatever a consumer had, the publisher is told that it is stored."""
    await create(broker, subscriptions=["t"], deliver_after_commit=True)
    async with FlowClient(broker.flow_port) as client:
        opened = await client.opens_publisher("p", window=4)
        client.publishes(opened.flow_id, [1, 2, 3])
        assert await consumed(broker, 3) == [(b"1", False), (b"2", False), (b"3", False)]
        copy = copied(broker)
    await power_fails_at(broker, copy)

    async with FlowClient(broker.flow_port) as client:
        assert (await client.opens_publisher("p", window=4)).stored_through == 3


async def test_queues_with_it_and_without_stand_beside_each_other(broker: RunningBroker) -> None:
    await create(broker, "q", subscriptions=["t"], deliver_after_commit=True)
    await create(broker, "early", subscriptions=["t"])
    publisher = await broker.connect("publisher", 5)
    for number in range(50):
        await publisher.publish("t", b"%d" % number, qos=1)

    assert await consumed(broker, 50) == [(b"%d" % number, False) for number in range(50)]
    reader = await broker.connect("reader", 5)
    await reader.subscribe("$queue/early", qos=1)
    assert await reader.payloads(50) == [b"%d" % number for number in range(50)]
