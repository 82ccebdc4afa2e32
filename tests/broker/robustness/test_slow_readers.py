"""Clients that stop reading for a while: whatever came meanwhile goes out as soon as they read on.

They say nothing then: no acknowledgement, no credit, no sign of life that would have the broker write again.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

import support.mqtt.packets as mqtt
from sluicegate.gateway.node.servers import server as protocol_server
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.protocols.amqp.codec.termini import COPY, Source
from sluicegate.protocols.flow.codec import columns as c
from sluicegate.protocols.flow.codec.frames.flow import Bind, Bound
from sluicegate.protocols.flow.engine.events import DeliveriesReceived
from support.amqp.client import AmqpClient, AmqpClients, body
from support.broker.inside_client import InsideClient
from support.broker.named_queues import create
from support.broker.running_broker import RunningBroker
from support.flow.bulk_client import BulkClient
from support.flow.client import FlowClient
from support.mqtt.raw_client import RawClient
from support.network.certificates import make_certificates

READ_ON_S: Final = 8.0  # for what has to come without a word of the client; a keep-alive would come later
LARGE: Final = 400_000
MORE: Final = 5  # messages that come when the socket is full

Reads = Callable[[int], Awaitable[list[bytes]]]


@pytest.fixture(autouse=True)
def _no_clock_is_brought(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is forgotten would go out the next time that connections look at the clock: here they never do."""
    monkeypatch.setattr(protocol_server, "TICK_MS", 3_600_000)


async def slow_count(broker: RunningBroker) -> float:
    """Return how many clients read slower than they are written to, as operators see it."""
    samples = await NodeOperations(broker.node).metrics_snapshot()
    return next(each.value for each in samples if each.name == "sluicegate_slow_subscribers")


def payload(number: int, size: int = LARGE) -> bytes:
    return b"%04d" % number + bytes(size - 4)


async def fills(broker: RunningBroker, publish: Callable[[bytes], Awaitable[None]], size: int = LARGE) -> int:
    """Publish until the client's socket is full, and some more; return how many messages."""
    count = last = 0
    async with asyncio.timeout(3 * READ_ON_S):
        while not last or count < last:
            await publish(payload(count, size))
            count += 1
            await asyncio.sleep(0.005)  # what is delivered goes out
            if not last and await slow_count(broker):
                last = count + MORE
    return count


async def all_comes(reads: Reads, count: int) -> None:
    """Read what was published, in its order, and no end before that."""
    async with asyncio.timeout(READ_ON_S):
        payloads = await reads(count)
    assert [int(each[:4]) for each in payloads] == list(range(count))


async def queue(broker: RunningBroker, **attributes: object) -> InsideClient:
    """Return a publisher to a new queue, which has nobody else."""
    orders = InsideClient(broker, "orders")
    await orders.create(**attributes)
    return orders


# --- flow ---


def flow_reader(client: FlowClient, flow_id: int) -> Reads:
    async def reads(count: int) -> list[bytes]:
        found: list[bytes] = []
        while len(found) < count:
            event = await client.heard(DeliveriesReceived, lambda event: event.flow_id == flow_id)
            found += [each.payload for each in event.deliveries]
        return found

    return reads


@pytest.mark.parametrize("browses", [False, True])
async def test_a_flow_client_of_a_queue_reads_on(broker: RunningBroker, browses: bool) -> None:
    orders = await queue(broker)
    async with FlowClient(broker.flow_port) as client:
        flow_id, request_id = client.ids()
        client.send(Bind(flow_id, request_id, "orders", 0, 1000, browses=browses).encode())
        await client.heard(Bound)
        client.transport.pause_reading()
        count = await fills(broker, orders.publish)
        client.transport.resume_reading()
        await all_comes(flow_reader(client, flow_id), count)


async def test_a_flow_client_that_reads_in_bulk_reads_on(broker: RunningBroker) -> None:
    orders = await queue(broker)
    for number in range(60):
        await orders.publish(payload(number))
    async with BulkClient(broker.flow_port) as client:
        reading = await client.begins_to_read("orders", chunk_bytes=LARGE)
        client.transport.pause_reading()
        async with asyncio.timeout(READ_ON_S):
            while not await slow_count(broker):
                await asyncio.sleep(0.005)
        client.transport.resume_reading()

        async def reads(_: int) -> list[bytes]:
            chunks = await client.rest(reading.flow_id)
            return [each for chunk in chunks if chunk.columns.count for each in chunk.columns.values(c.PAYLOAD)]

        await all_comes(reads, 60)


# --- AMQP ---


def amqp_reader(client: AmqpClient, size: int = LARGE) -> Reads:
    async def reads(count: int) -> list[bytes]:
        return [each.message[-size:] for each in await client.deliveries(count)]

    return reads


@pytest.mark.parametrize("mode", [None, COPY], ids=["consumes", "browses"])
async def test_an_amqp_client_of_a_queue_reads_on(broker: RunningBroker, amqp: AmqpClients, mode: str | None) -> None:
    orders = await queue(broker)
    client = await amqp.connect()
    await client.receiver("in", Source("orders", distribution_mode=mode), credit=1000)
    client.transport.pause_reading()
    count = await fills(broker, orders.publish)
    client.transport.resume_reading()
    await all_comes(amqp_reader(client), count)


async def test_an_amqp_client_of_a_topic_reads_on(broker: RunningBroker, amqp: AmqpClients) -> None:
    client = await amqp.connect()
    await client.receiver("in", "topic://orders/>", credit=1000)
    client.transport.pause_reading()
    count = await fills(broker, InsideClient(broker, "orders").publish)
    client.transport.resume_reading()
    await all_comes(amqp_reader(client), count)


async def test_an_amqp_client_of_a_node_of_its_own_reads_on(broker: RunningBroker, amqp: AmqpClients) -> None:
    size = 50_000  # the client writes a message as one frame
    client, publisher = await amqp.connect(), await amqp.connect("publisher")
    attached = await client.receiver("in", Source(None, dynamic=True), credit=1000)
    assert attached.source is not None
    await publisher.sender("out", attached.source.address or "")

    async def publish(data: bytes) -> None:
        await publisher.outcome(publisher.transfer(9, body(data)))

    client.transport.pause_reading()
    count = await fills(broker, publish, size)
    client.transport.resume_reading()
    await all_comes(amqp_reader(client, size), count)


# --- HTTP ---


@pytest.mark.parametrize("browses", ["", "?browse=true"])
async def test_a_browser_that_follows_events_reads_on(broker: RunningBroker, browses: str) -> None:
    orders = await queue(broker)
    port = broker.node.http.listeners["http"].port
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    writer.write(
        f"GET /QUEUE/orders{browses} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n".encode()
    )
    async with asyncio.timeout(READ_ON_S):
        await reader.readuntil(b"\r\n\r\n")  # whatever there is in the queue
    writer.transport.pause_reading()  # type: ignore[attr-defined]  # one for both directions
    count = await fills(broker, orders.publish)
    writer.transport.resume_reading()  # type: ignore[attr-defined]

    async def reads(count: int) -> list[bytes]:
        found: list[bytes] = []
        while len(found) < count:
            before, _, after = (await reader.readuntil(b"\n")).partition(b'"payload":"')
            found += [after[:4]] if before.startswith(b"data: ") and after else []
        return found

    await all_comes(reads, count)
    writer.close()


# --- MQTT ---


def mqtt_reader(client: RawClient) -> Reads:
    async def reads(count: int) -> list[bytes]:
        return [mqtt.published(await client.awaited(mqtt.PUBLISH), client.level).payload for _ in range(count)]

    return reads


def mqtt_writer(publisher: RawClient, topic: str, qos: int) -> Callable[[bytes], Awaitable[None]]:
    async def publish(data: bytes) -> None:
        publisher.send(mqtt.publish(topic, data, qos=qos, packet_id=publisher.next_packet_id()))

    return publish


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("filter_text", ["orders/t", "$queue/orders", "$share/g/orders/t"])
async def test_an_mqtt_client_reads_on(broker: RunningBroker, filter_text: str, qos: int) -> None:
    await create(broker, "orders", subscriptions=["orders/t"])
    client, publisher = await broker.connect_durable("client", 4), await broker.connect("publisher")
    await client.subscribe(filter_text, qos=qos)

    client.stop_reading()
    count = await fills(broker, mqtt_writer(publisher, "orders/t", qos))
    client.resume_reading()
    await all_comes(mqtt_reader(client), count)


async def test_an_mqtt_client_over_tls_reads_on(tmp_path: Path) -> None:
    """TLS has a buffer of its own between the broker's and the socket's."""
    certificates = make_certificates(tmp_path)
    context = ssl.create_default_context(cafile=str(certificates.authority))
    async with RunningBroker(tmp_path / "data", certificates.in_tls("listeners.mqtt_tls")) as broker:
        orders = await queue(broker)
        client = await RawClient.open(broker.node.mqtt.listeners["mqtt_tls"].port, 4, tls=context)
        await client.connect("client")
        await client.subscribe("$queue/orders", qos=1)
        client.stop_reading()
        count = await fills(broker, orders.publish)
        client.resume_reading()
        await all_comes(mqtt_reader(client), count)
        await client.vanish()


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("filter_text", ["orders/t", "$queue/orders", "$share/g/orders/t"])
async def test_a_takeover_from_a_client_that_does_not_read_gets_all_messages(
    broker: RunningBroker, filter_text: str, qos: int
) -> None:
    """[MQTT 3.1.4-3]: what was written to the full socket comes again, before what was not."""
    await create(broker, "orders", subscriptions=["orders/t"])
    client, publisher = await broker.connect_durable("client", 4), await broker.connect("publisher")
    await client.subscribe(filter_text, qos=qos)

    client.stop_reading()
    count = await fills(broker, mqtt_writer(publisher, "orders/t", qos))
    successor = await broker.connect_durable("client", 4)
    await all_comes(mqtt_reader(successor), count)


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("wants_them_first", [True, False])
async def test_a_client_of_retained_messages_and_of_new_ones_reads_on(
    broker: RunningBroker, wants_them_first: bool, qos: int
) -> None:
    """Each retained message comes once, new ones in their order; the socket is full of the ones or of the others."""
    client, publisher = await broker.connect_durable("client", 4), await broker.connect("publisher")
    kept = [payload(number) for number in range(40)]
    for number, each in enumerate(kept):
        await publisher.publish(f"kept/{number}", each, qos=1, retain=True)
    await client.subscribe("new", qos=qos)

    async def reads(count: int) -> list[bytes]:
        by_topic: dict[str, list[bytes]] = {}
        for _ in range(count + len(kept)):
            message = mqtt.published(await client.awaited(mqtt.PUBLISH), client.level)
            by_topic.setdefault(message.topic.partition("/")[0], []).append(message.payload)
        assert sorted(by_topic["kept"]) == kept
        return by_topic["new"]

    client.stop_reading()
    wants = mqtt.subscribe(("kept/+", qos), packet_id=client.next_packet_id())
    if wants_them_first:
        client.send(wants)
        await client.drained()
    count = await fills(broker, mqtt_writer(publisher, "new", qos))
    if not wants_them_first:
        client.send(wants)
    client.resume_reading()
    await all_comes(reads, count)


async def test_an_mqtt_client_over_websocket_reads_on(broker: RunningBroker) -> None:
    orders = await queue(broker)
    url = f"ws://127.0.0.1:{broker.websocket_port}/mqtt"
    async with connect(url, subprotocols=[Subprotocol("mqtt")], max_size=None, ping_interval=None) as socket:
        await socket.send(mqtt.connect("client"))
        await _bytes(socket)
        await socket.send(mqtt.subscribe(("$queue/orders", 1), packet_id=1))
        await _bytes(socket)
        socket.transport.pause_reading()
        count = await fills(broker, orders.publish)
        socket.transport.resume_reading()

        async def reads(count: int) -> list[bytes]:
            found: list[bytes] = []
            left = b""
            while len(found) < count:
                packets, left = mqtt.take_packets(left + await _bytes(socket))
                found += [mqtt.published(each, 4).payload for each in packets if each.kind == mqtt.PUBLISH]
            return found

        await all_comes(reads, count)


async def _bytes(socket: ClientConnection) -> bytes:
    async with asyncio.timeout(READ_ON_S):
        data = await socket.recv()
    assert isinstance(data, bytes)
    return data
