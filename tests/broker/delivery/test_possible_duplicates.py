"""A message that its publisher sends again after a crash is flagged: a consumer may have had it before."""

import shutil
from pathlib import Path

import pytest

import support.mqtt.packets as mqtt
from sluicegate.protocols.amqp.codec.termini import Target
from sluicegate.protocols.amqp.types.values import AmqpMap
from support.amqp.client import AmqpClients, body
from support.broker.named_queues import create
from support.broker.running_broker import RunningBroker
from support.flow.client import FlowClient
from support.mqtt.raw_client import RawClient


def keep(broker: RunningBroker) -> Path:
    """Keep what is in the store now."""
    data: Path = broker.config.data.path
    return Path(shutil.copytree(data, data.with_name("kept")))


async def crash_back_to(broker: RunningBroker, kept: Path) -> None:
    """Start from there, as if the power had failed then: what was given out since was not stored."""
    await broker.stop()
    shutil.rmtree(broker.config.data.path)
    kept.rename(broker.config.data.path)
    await broker.start()


async def flags(broker: RunningBroker, count: int) -> list[tuple[bytes, bool]]:
    """Consume so many messages of the queue; return which came flagged."""
    async with FlowClient(broker.flow_port, name="reader") as client:
        flow_id = await client.binds("q")
        got = await client.receives_in_all(count, flow_id)
        client.accepts_through(flow_id, count)
        await client.unbinds(flow_id)
    return [(each.payload, each.redelivered) for each in got]


async def test_a_named_publisher_that_was_cut_off_by_a_crash(broker: RunningBroker) -> None:
    """Flow: publishing. Flagged up to the window that it had, and what is new behind it is not."""
    await create(broker, subscriptions=["t"])
    async with FlowClient(broker.flow_port) as client:
        opened = await client.opens_publisher("p", window=4)
        kept = keep(broker)
        client.publishes(opened.flow_id, [1, 2, 3])
        assert await flags(broker, 3) == [(b"1", False), (b"2", False), (b"3", False)]
    await crash_back_to(broker, kept)

    async with FlowClient(broker.flow_port) as client:
        opened = await client.opens_publisher("p", window=4)
        assert opened.stored_through == 0
        client.publishes(opened.flow_id, [1, 2, 3])
        assert await flags(broker, 3) == [(b"1", True), (b"2", True), (b"3", True)]
        await client.answered(opened.flow_id, 3)
        client.publishes(opened.flow_id, [4, 5])
        assert await flags(broker, 2) == [(b"4", True), (b"5", False)]
        await client.answered(opened.flow_id, 5)
    async with FlowClient(broker.flow_port) as client:
        opened = await client.opens_publisher("p", window=4)
        client.publishes(opened.flow_id, [6])
        assert await flags(broker, 1) == [(b"6", False)]


async def test_a_named_publisher_that_asks_for_less_when_it_returns(broker: RunningBroker) -> None:
    """What it may have had in flight is what it was granted then, over another crash too."""
    await create(broker, subscriptions=["t"])
    async with FlowClient(broker.flow_port) as client:
        opened = await client.opens_publisher("p", window=8)
        kept = keep(broker)
        client.publishes(opened.flow_id, [1, 2, 3, 4, 5, 6])
        assert await flags(broker, 6) == [(b"%d" % number, False) for number in range(1, 7)]
    await crash_back_to(broker, kept)
    async with FlowClient(broker.flow_port) as client:
        await client.opens_publisher("p", window=2)
        kept = keep(broker)
    await crash_back_to(broker, kept)

    async with FlowClient(broker.flow_port) as client:
        opened = await client.opens_publisher("p", window=2)
        for number in range(1, 11):
            client.publishes(opened.flow_id, [number])
            await client.answered(opened.flow_id, number)
    assert await flags(broker, 10) == [(b"%d" % number, number <= 8) for number in range(1, 11)]


async def test_a_named_publisher_that_was_refused_much_before_a_crash(broker: RunningBroker) -> None:
    """It has heard of that, and was ahead of what is stored by more than its window."""
    await create(broker, subscriptions=["t"])
    async with FlowClient(broker.flow_port) as client:
        opened = await client.opens_publisher("p", window=4)
        kept = keep(broker)
        for first in (1, 5, 9):
            client.publishes(opened.flow_id, list(range(first, first + 4)), topic="a/#")
            assert len(await client.answered(opened.flow_id, first + 3)) == 4
        client.publishes(opened.flow_id, [13, 14])
        assert await flags(broker, 2) == [(b"13", False), (b"14", False)]
    await crash_back_to(broker, kept)

    async with FlowClient(broker.flow_port) as client:
        opened = await client.opens_publisher("p", window=4)
        for filler in (4, 8, 12):  # as clients move a window that ends before what they have to send
            client.publishes(opened.flow_id, [filler], topic="")
            await client.answered(opened.flow_id, filler)
        for number in range(13, 18):
            client.publishes(opened.flow_id, [number])
            await client.answered(opened.flow_id, number)
    assert await flags(broker, 5) == [(b"%d" % number, number <= 16) for number in range(13, 18)]


async def test_a_named_publisher_that_returns_after_an_orderly_stop(broker: RunningBroker) -> None:
    await create(broker, subscriptions=["t"])
    async with FlowClient(broker.flow_port) as client:
        opened = await client.opens_publisher("p", window=4)
        client.publishes(opened.flow_id, [1])
        await client.answered(opened.flow_id, 1)
    await broker.restart()
    async with FlowClient(broker.flow_port) as client:
        opened = await client.opens_publisher("p", window=4)
        client.publishes(opened.flow_id, [2])
        await client.answered(opened.flow_id, 2)
    assert await flags(broker, 2) == [(b"1", False), (b"2", False)]


@pytest.mark.parametrize("level", [4, 5])
@pytest.mark.parametrize("qos", [1, 2])
async def test_an_mqtt_publish_with_dup_after_a_crash(broker: RunningBroker, level: int, qos: int) -> None:
    """Also of several packets in one write only those that have it, and over another start."""
    await create(broker, subscriptions=["t"])
    client = await broker.connect_durable("sender")
    kept = keep(broker)
    first = mqtt.publish("t", b"1", level=5, qos=qos, packet_id=1)
    client.send(first)
    assert await flags(broker, 1) == [(b"1", False)]
    await crash_back_to(broker, kept)

    client = await RawClient.open(broker.port, level)
    await client.connect("other sender")
    again = bytearray(mqtt.publish("t", b"1", level=level, qos=qos, packet_id=1))
    again[0] |= 8
    client.send(bytes(again), mqtt.publish("t", b"2", level=level, qos=qos, packet_id=2))
    for packet_id in (1, 2):
        assert await client.answered(mqtt.PUBACK if qos == 1 else mqtt.PUBREC, packet_id) == 0
    await broker.restart()
    assert await flags(broker, 2) == [(b"1", True), (b"2", False)]


async def test_an_amqp_sender_that_is_unsure_of_its_deliveries(broker: RunningBroker, amqp: AmqpClients) -> None:
    """AMQP 2.6.13: what it lists as unsettled when it attaches, and sends again, is flagged; what is new is not."""
    await create(broker, subscriptions=["t"])
    peer = await amqp.connect()
    unsure = AmqpMap([(b"a", None), (b"b", None)])
    await peer.sender("out", Target("q"), handle=0, unsettled=unsure)
    sent = [peer.transfer(0, body(tag), tag=tag.encode()) for tag in ("a", "new", "b")]
    for delivery_id in sent:
        await peer.outcome(delivery_id)
    assert [flag for _, flag in await flags(broker, 3)] == [True, False, True]
