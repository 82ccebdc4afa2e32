"""What was said before the node stops in good order, at once, or crashes, after a moment of quiet, has been said.

Nothing comes by afterwards that would have the store write: neither a publish nor a consumer.
"""

import asyncio
import random
from typing import Final

import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.protocols.amqp.codec.delivery_states import ACCEPTED, MODIFIED, RELEASED, DeliveryState
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec import columns as c
from sluicegate.protocols.flow.codec.frames.settle import (
    OUTCOME_ACCEPTED,
    OUTCOME_FAILED,
    OUTCOME_REJECTED,
    OUTCOME_RELEASED,
)
from support.amqp.client import AmqpClients, body
from support.broker.inside_client import InsideClient
from support.broker.named_queues import create, shown
from support.broker.running_broker import RunningBroker
from support.flow.bulk_client import ACK, DELETE, STATUS, BulkClient
from support.flow.client import FlowClient, Refused
from support.http.client import http_client, poll, settle

QUIET_S: Final = 0.5
HOUR_S: Final = 3600
ENDS: Final = ("stop", "crash")


async def ends(broker: RunningBroker, how: str) -> None:
    """Have the node end and begin again."""
    if how == "stop":
        await broker.restart()
        return
    await asyncio.sleep(QUIET_S)
    await broker.crash()


async def left_in(broker: RunningBroker, name: str = "orders") -> list[bytes]:
    """Return what a consumer gets of a queue that nobody publishes to, in order."""
    orders = InsideClient(broker, name)
    return (await orders.consume_all()).payloads()


pytestmark = pytest.mark.parametrize("how", ENDS)


async def test_mqtt_acknowledgements(broker: RunningBroker, how: str) -> None:
    await create(broker, "orders", subscriptions=["t"])
    await create(broker, "other", subscriptions=["t"])
    draw = random.Random(1)
    waiting: list[bytes] = []
    count = 0
    for _ in range(3):
        consumer, publisher = await broker.connect("consumer"), await broker.connect("publisher")
        await consumer.subscribe("$queue/orders", qos=1)
        got = [await consumer.message() for _ in waiting]
        assert [each.payload for each in got] == waiting
        numbers = range(count, count + 10)
        count += 10
        publisher.send(*[mqtt.publish("t", b"%d" % each, qos=1, packet_id=each % 1000 + 1) for each in numbers])
        for _ in numbers:
            got.append(await consumer.message())
        kept = [each for each in got if draw.random() < 0.3]
        for each in got:
            if each not in kept:
                consumer.acknowledge(each)
        await consumer.round_trip()
        waiting = [each.payload for each in kept]
        await ends(broker, how)
    assert await left_in(broker) == waiting
    assert len(await left_in(broker, "other")) == count


async def test_amqp_outcomes(broker: RunningBroker, amqp: AmqpClients, how: str) -> None:
    await create(broker, "orders")
    peer = await amqp.connect()
    await peer.sender("out", "orders")
    await peer.receiver("in", "orders", credit=5)
    for number in range(5):
        peer.transfer(9, body(number))
    await peer.confirmed()
    got = await peer.deliveries(5)
    states = [DeliveryState(ACCEPTED), DeliveryState(RELEASED), DeliveryState(MODIFIED, delivery_failed=True)]
    for each, state in zip(got, states, strict=False):
        peer.settle(each.delivery_id, each.delivery_id, state)
    peer.settle(got[4].delivery_id)
    await peer.round_trip()
    await ends(broker, how)
    again = await amqp.connect("another")
    await again.receiver("in", "orders", credit=5)
    assert [each.message[-2:] for each in await again.deliveries(3)] == [body(number)[-2:] for number in (1, 2, 3)]
    await again.is_quiet()


async def test_flow_outcomes_and_counts(broker: RunningBroker, how: str) -> None:
    await create(broker, "dead")
    await create(broker, "orders", dead_msg_queue="dead", max_redelivery_count=5)
    orders = InsideClient(broker, "orders")
    async with FlowClient(broker.flow_port) as client:
        opened = await client.opens_publisher()
        client.publishes(opened.flow_id, [1, 2, 3, 4], queue="orders")
        await client.answered(opened.flow_id, 4)
        flow_id = await client.binds("orders", credit=4)
        await client.receives_in_all(4, flow_id)
        outcomes = (OUTCOME_ACCEPTED, OUTCOME_RELEASED, OUTCOME_FAILED, OUTCOME_REJECTED)
        for delivery_id, outcome in enumerate(outcomes, 1):
            client.settles(flow_id, delivery_id, delivery_id, outcome)
        await client.unbinds(flow_id)
    await ends(broker, how)
    async with FlowClient(broker.flow_port) as client:
        flow_id = await client.binds("orders", credit=4)
        got = await client.receives_in_all(2, flow_id)
        assert [each.payload for each in got] == [b"2", b"3"]
        if how == "stop":
            assert [(each.delivery_count, each.redelivered) for each in got] == [(1, True), (2, True)]
        else:
            assert [each.redelivered for each in got] == [True, True]
        dead = await client.binds("dead", credit=4)
        assert [each.payload for each in await client.receives_in_all(1, dead)] == [b"4"]
    assert (await orders.overview()).usage_count == 2


async def test_http_settlements(broker: RunningBroker, how: str) -> None:
    await create(broker, "orders")
    async with http_client(broker) as client:
        for number in range(4):
            await client.post("/QUEUE/orders", content=b"%d" % number)
        flow, lines = await poll(client, "/QUEUE/orders")
        while len(lines) < 4:
            lines += (await poll(client, flow))[1]
        assert await settle(client, f"{flow}/2") == 204
        assert await settle(client, f"{flow}/4") == 204
        await client.delete(flow)
    await ends(broker, how)
    assert await left_in(broker) == [b"0", b"2"]


async def test_the_last_value(broker: RunningBroker, how: str) -> None:
    await create(broker, "orders", subscriptions=["t"], max_msg_spool_usage=0)
    publisher = await broker.connect("publisher")
    for number in range(5):
        await publisher.publish("t", b"%d" % number, qos=1)
    await ends(broker, how)
    assert (await shown(broker, "orders")).ready_count == 1
    assert await left_in(broker) == [b"4"]


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_retained_messages_and_their_deletion(broker: RunningBroker, how: str, qos: int) -> None:
    publisher = await broker.connect("publisher")
    for topic in ("kept", "gone", "new"):
        await publisher.publish(topic, b"first", qos=qos, retain=True)
    await publisher.publish("gone", b"", qos=qos, retain=True)
    await publisher.publish("new", b"second", qos=qos, retain=True)
    await ends(broker, how)
    reader = await broker.connect("reader")
    await reader.subscribe("#", qos=1)
    assert sorted((each.topic, each.payload) for each in await reader.messages(2)) == [
        ("kept", b"first"),
        ("new", b"second"),
    ]
    await reader.is_quiet()


async def test_subscriptions_of_a_session(broker: RunningBroker, how: str) -> None:
    client = await broker.connect_durable("client")
    await client.subscribe("a", "b", "$share/g/s", qos=1)
    await client.unsubscribe("b")
    await ends(broker, how)
    publisher = await broker.connect("publisher")
    for topic in ("a", "b", "s"):
        await publisher.publish(topic, topic.encode(), qos=1)
    client = await broker.connect_durable("client")
    assert client.accepted.session_present
    assert sorted(await client.payloads(2)) == [b"a", b"s"]
    await client.is_quiet()


async def test_purged_messages_do_not_come_back(broker: RunningBroker, how: str) -> None:
    orders = InsideClient(broker, "orders")
    await orders.create()
    for number in range(4):
        await orders.publish(b"%d" % number)
    assert await NodeOperations(broker.node).purge_queue("orders") == 4
    await ends(broker, how)
    assert await left_in(broker) == []


async def test_both_sides_of_exactly_once(broker: RunningBroker, how: str) -> None:
    client, publisher = await broker.connect_durable("client"), await broker.connect_durable("publisher")
    await client.subscribe("t", qos=2)
    publisher.send(mqtt.publish("t", b"once", level=5, qos=2, packet_id=7))
    assert await publisher.answered(mqtt.PUBREC, 7) == 0
    message = await client.message()
    client.send(mqtt.pubrec(message.packet_id))
    await client.answered(mqtt.PUBREL, message.packet_id)
    await ends(broker, how)
    publisher = await broker.connect_durable("publisher")
    publisher.send(mqtt.publish("t", b"once", level=5, qos=2, packet_id=7, dup=True))
    await publisher.answered(mqtt.PUBREC, 7)
    publisher.send(mqtt.pubrel(7))
    await publisher.answered(mqtt.PUBCOMP, 7)
    client = await broker.connect_durable("client")
    await client.answered(mqtt.PUBREL, message.packet_id)
    client.send(mqtt.pubcomp(message.packet_id))
    await client.is_quiet()


async def cursor_reads(client: BulkClient, epoch: int, first: int) -> list[bytes]:
    """Return what a cursor reads from a sequence on."""
    reading = await client.begins_to_read("orders", first, cursor="c", epoch=epoch)
    chunks = await client.rest(reading.flow_id)
    return [payload for chunk in chunks if chunk.columns.count for payload in chunk.columns.values(c.PAYLOAD)]


@pytest.mark.parametrize("mode", ["tap", "consume"])
async def test_positions_and_bindings_of_a_cursor_survive(broker: RunningBroker, how: str, mode: str) -> None:
    """Its binding goes on behind that, and in mode consume it is settled."""
    orders = InsideClient(broker, "orders")
    await orders.create()
    await orders.publish(*[b"%d" % number for number in range(1, 7)])
    async with BulkClient(broker.flow_port) as client:
        epoch = (await client.binds_cursor(queue="orders", mode=mode)).epoch
        assert await cursor_reads(client, epoch, 1) == [b"1", b"2", b"3", b"4", b"5", b"6"]
        await client.asks_cursor(ACK, epoch, {0: 3}, queue="orders", batch_ref="batch/1")
        await client.asks_cursor(ACK, epoch, {0: 5}, queue="orders", batch_ref="batch/2")
    await ends(broker, how)
    assert (await shown(broker, "orders")).ready_count == (2 if mode == "consume" else 6)
    async with BulkClient(broker.flow_port) as client:
        found = await client.asks_cursor(STATUS, 0, queue="orders")
        assert (found.epoch, found.batch_ref, found.positions[0].acked) == (epoch, "batch/2", 5)
        assert await cursor_reads(client, epoch, 5) == [b"5", b"6"]
        await client.asks_cursor(ACK, epoch, {0: 7}, queue="orders")
    await ends(broker, how)
    assert (await shown(broker, "orders")).ready_count == (0 if mode == "consume" else 6)


async def test_a_cursor_that_was_deleted(broker: RunningBroker, how: str) -> None:
    await create(broker, "orders")
    async with BulkClient(broker.flow_port) as client:
        await client.binds_cursor(queue="orders", mode="consume")
        await client.asks_cursor(DELETE, 0, queue="orders")
    await ends(broker, how)
    async with BulkClient(broker.flow_port) as client:
        with pytest.raises(Refused) as refusal:
            await client.asks_cursor(STATUS, 0, queue="orders")
        assert refusal.value.error.code == codes.NOT_FOUND
        await client.binds("orders")


@pytest.mark.parametrize("by", ["publisher", "queue"])
async def test_messages_that_are_due_later(broker: RunningBroker, how: str, by: str) -> None:
    """They are due when they were: the time that the broker was away counts."""
    delay_s = HOUR_S if by == "queue" else 0
    await create(broker, "orders", subscriptions=["t"], delivery_delay_s=delay_s)
    publisher = await broker.connect("publisher", 5)
    later = b"" if delay_s else mqtt.user_property("sluicegate-delivery-delay-ms", str(1000 * HOUR_S))
    for number in range(3):
        await publisher.publish("t", b"%d" % number, qos=1, properties=later)
    broker.clock.forward(HOUR_S // 2)
    await ends(broker, how)
    consumer = await broker.connect("consumer", 5)
    await consumer.subscribe("$queue/orders", qos=1)
    await consumer.is_quiet()
    broker.clock.forward(HOUR_S // 2)
    await shown(broker, "orders")  # gives the queue a turn
    found = await consumer.messages(3)
    assert [each.payload for each in found] == [b"0", b"1", b"2"]
    flags = [("sluicegate-redelivered", "true") in each.values(0x26) for each in found]
    assert flags == [how == "crash"] * 3  # then nobody knows that they were not delivered


async def test_a_message_that_failed_and_waits(broker: RunningBroker, amqp: AmqpClients, how: str) -> None:
    """A crash forgets that it failed: then it comes at once, as one that may have been delivered."""
    await create(
        broker,
        "orders",
        redelivery_delay_enabled=True,
        redelivery_delay_initial_interval_ms=1000 * HOUR_S,
        redelivery_delay_max_interval_ms=1000 * HOUR_S,
    )
    peer = await amqp.connect()
    await peer.sender("out", "orders")
    await peer.receiver("in", "orders", credit=1)
    peer.transfer(9, body(1))
    await peer.confirmed()
    (failed,) = await peer.deliveries(1)
    peer.settle(failed.delivery_id, failed.delivery_id, DeliveryState(MODIFIED, delivery_failed=True))
    await peer.round_trip()
    await ends(broker, how)
    consumer = await broker.connect("consumer", 5)
    await consumer.subscribe("$queue/orders", qos=1)
    if how == "stop":
        await consumer.is_quiet()
        broker.clock.forward(HOUR_S)
        await shown(broker, "orders")  # gives the queue a turn
    (found,) = await consumer.messages(1)
    count = "2" if how == "stop" else "1"
    assert {("sluicegate-redelivered", "true"), ("sluicegate-delivery-count", count)} <= set(found.values(0x26))
