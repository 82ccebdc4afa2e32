"""Large payloads, read in many pieces: they arrive unchanged among small ones, and cost other clients nothing."""

import gc
import ssl
import tracemalloc
from pathlib import Path

import pytest

import support.mqtt.packets as mqtt
from sluicegate.protocols.flow.codec.frames.publish import write_publish
from support.broker.inside_client import until
from support.broker.named_queues import create
from support.broker.running_broker import RunningBroker
from support.flow.client import FlowClient
from support.mqtt.raw_client import RawClient
from support.network.certificates import make_certificates

LARGE = bytes(range(251)) * 4180  # a megabyte
MEDIUM = bytes(range(241)) * 600  # 141 kB, half a read


@pytest.mark.parametrize("level", [3, 4, 5])
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_large_messages_arrive_as_sent_and_in_order(broker: RunningBroker, level: int, qos: int) -> None:
    """They are sent in one go, so that one ends and the next begins in the middle of what is read."""
    subscriber, publisher = await broker.connect(level=level), await broker.connect(level=level)
    await subscriber.subscribe("t/#", qos=2)
    properties = mqtt.content_type("x") if level == 5 else b""
    payloads = [LARGE, b"small", LARGE[1:], MEDIUM, MEDIUM[1:], b"", LARGE[2:]]
    packets = [
        mqtt.publish(
            "t/1", payload, level=level, qos=qos, packet_id=number, properties=properties if number % 2 else b""
        )
        for number, payload in enumerate(payloads, 1)
    ]
    before = broker.node.mqtt.counters.bytes_received
    publisher.send(*packets)
    assert await subscriber.payloads(len(payloads)) == payloads
    if qos == 0:
        assert broker.node.mqtt.counters.bytes_received - before == sum(len(packet) for packet in packets)


@pytest.mark.parametrize("qos", [0, 1])
async def test_a_large_retained_message_is_kept_whole(broker: RunningBroker, qos: int) -> None:
    await (await broker.connect()).publish("t", LARGE, qos=qos, retain=True)
    subscriber = await broker.connect()
    await subscriber.subscribe("t", qos=1)
    assert await subscriber.payloads(1) == [LARGE]


async def test_large_messages_of_a_queue_are_there_after_a_restart(broker: RunningBroker) -> None:
    kept = await broker.connect_durable("kept")
    await kept.subscribe("t", qos=1)
    publisher = await broker.connect()
    await kept.leave()
    for number in range(3):
        assert await publisher.publish("t", LARGE[number:], qos=1) == 0
    await broker.restart()
    back = await broker.connect_durable("kept")
    assert await back.payloads(3) == [LARGE, LARGE[1:], LARGE[2:]]


async def test_a_client_that_goes_in_the_middle_of_a_large_message_leaves_the_others_alone(
    broker: RunningBroker,
) -> None:
    subscriber, leaving, staying = [await broker.connect() for _ in range(3)]
    await subscriber.subscribe("t", qos=1)
    packet = mqtt.publish("t", LARGE, qos=1)
    leaving.send(packet[: len(packet) // 2])
    await leaving.drained()
    staying.send(packet[:1000])
    await leaving.vanish()
    staying.send(packet[1000:])
    assert await subscriber.payloads(1) == [LARGE]
    await subscriber.is_quiet()


async def test_a_client_whose_session_is_taken_over_in_the_middle_of_a_large_message_hears_so(
    broker: RunningBroker,
) -> None:
    """What it sends on is read for nobody."""
    first = await broker.connect("c", level=5)
    packet = mqtt.publish("t", LARGE, level=5, qos=1)
    first.send(packet[: len(packet) // 2])
    await first.drained()
    subscriber = await broker.connect("s")
    await subscriber.subscribe("t", qos=1)
    await broker.connect("c", level=5)
    first.send(packet[len(packet) // 2 :])
    await first.is_ended(0x8E)
    await subscriber.is_quiet()


async def test_all_is_read_of_a_client_over_tls_that_closes_its_socket_behind_a_large_message(tmp_path: Path) -> None:
    """Its end is read a turn later than its last words: what was decrypted is not left for a turn after that."""
    certificates = make_certificates(tmp_path)
    context = ssl.create_default_context(cafile=str(certificates.authority))
    async with RunningBroker(tmp_path / "data", certificates.in_tls("listeners.mqtt_tls")) as broker:
        subscriber = await broker.connect()
        await subscriber.subscribe("t", "will")
        client = await RawClient.open(broker.node.mqtt.listeners["mqtt_tls"].port, 4, tls=context)
        await client.connect("client", will=mqtt.WillPart("will", b"it said no goodbye"))
        large = mqtt.publish("t", LARGE)
        counters = broker.node.mqtt.counters
        nearly_all = counters.bytes_received + len(large) - 5000
        client.send(large[:-5000])
        await until(lambda: counters.bytes_received == nearly_all, "all but its end")
        small = [bytes([number]) * 1000 for number in range(40)]
        client.send(large[-5000:], *[mqtt.publish("t", payload) for payload in small], mqtt.disconnect())
        client.sends_no_more()
        assert await subscriber.payloads(41) == [LARGE, *small]
        await subscriber.is_quiet()
        await client.vanish()


async def test_an_incomplete_large_message_is_freed_with_its_client(broker: RunningBroker) -> None:
    """At once, and not when the collector finds what is left of its connection."""
    packet = mqtt.publish("t", LARGE)
    counters = broker.node.mqtt.counters
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        for _ in range(8):
            client = await broker.connect()
            nearly_all = counters.bytes_received + len(packet) - 10
            client.send(packet[:-10])
            await until(lambda nearly_all=nearly_all: counters.bytes_received == nearly_all, "all but its end")
            await client.vanish()
        listener = broker.node.mqtt.listeners["mqtt"]
        await until(lambda: listener.connection_count == 0, "the end of their connections")
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert held_bytes < 2 * len(packet)


async def test_large_messages_over_the_flow_protocol_arrive_as_sent_and_in_order(broker: RunningBroker) -> None:
    """Here, too, one ends and the next begins in the middle of what is read."""
    payloads = [LARGE, b"small", LARGE[1:], MEDIUM, MEDIUM[1:], b"", LARGE[2:]]
    await create(broker)
    before = broker.node.flow.counters.bytes_received
    async with FlowClient(broker.flow_port) as client:
        opened = await client.opens_publisher()
        for number, payload in enumerate(payloads, 1):
            client.publishes(opened.flow_id, [number], queue="q", payload=payload)
        assert await client.answered(opened.flow_id, len(payloads)) == []
        assert broker.node.flow.counters.bytes_received - before > sum(map(len, payloads))
    async with FlowClient(broker.flow_port, name="reader") as client:
        got = await client.receives_in_all(len(payloads), await client.binds("q"))
    assert [each.payload for each in got] == payloads


async def test_a_flow_client_that_goes_in_the_middle_of_a_large_message_leaves_the_others_alone(
    broker: RunningBroker,
) -> None:
    await create(broker)
    frame = write_publish(1, 1, "t", LARGE, None, to_queue=False, ttl_ms=0, delay_ms=0)
    counters = broker.node.flow.counters
    async with FlowClient(broker.flow_port, name="leaving") as leaving:
        nearly_all = counters.bytes_received + len(frame) - 10
        leaving.send(frame[:-10])
        await until(lambda: counters.bytes_received == nearly_all, "all but its end")
    async with FlowClient(broker.flow_port) as client:
        opened = await client.opens_publisher()
        client.publishes(opened.flow_id, [1], queue="q", payload=LARGE)
        assert await client.answered(opened.flow_id, 1) == []
