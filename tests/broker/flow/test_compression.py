"""Compression between the client library and a node: negotiated, in both directions, and counted."""

import pytest

from sluicegate import Client, ClientOptions, Column, Message
from sluicegate.protocols.flow.codec.compression import DEFLATE
from support.broker.named_queues import create
from support.broker.running_broker import RunningBroker
from support.flow.client import FlowClient

PAYLOADS = [b"line %d: the pump of plant %d runs\n" % (number, number % 7) * 40 for number in range(50)]


async def goes_through(broker: RunningBroker, *, compress: bool) -> None:
    """Publish, consume, browse in bulk, and find everything as it was."""
    await create(broker, retention_size_mb=10)
    options = ClientOptions(compress=compress)
    async with Client(f"flow://127.0.0.1:{broker.flow_port}", options) as client:
        async with client.publisher() as publisher:
            await publisher.send_all(Message(payload, queue="q") for payload in PAYLOADS)
        async with client.consumer("q") as consumer:
            got: list[bytes] = []
            while len(got) < len(PAYLOADS):
                deliveries = await consumer.receive_many(100)
                consumer.accept_all(deliveries)
                got += [each.payload for each in deliveries]
        assert got == PAYLOADS
        async with client.bulk.read_range("q", first=1, end=len(PAYLOADS) + 1) as reader:
            rows = [payload async for chunk in reader for payload in chunk.columns.values(Column.PAYLOAD)]
        assert rows == PAYLOADS


async def test_messages_and_rows_are_compressed_both_ways_for_a_client_that_asks(broker: RunningBroker) -> None:
    """Flow: compression. What it saves is counted; the messages are as they were."""
    await goes_through(broker, compress=True)
    counters, plain_bytes = broker.node.flow.counters, sum(map(len, PAYLOADS))
    assert counters.bytes_received < plain_bytes / 2
    assert counters.saved_received > plain_bytes / 2
    assert counters.bytes_sent < plain_bytes, "once delivered, once read"
    assert counters.saved_sent > plain_bytes


async def test_nothing_is_compressed_for_a_client_that_does_not_ask(broker: RunningBroker) -> None:
    """Flow: compression."""
    await goes_through(broker, compress=False)
    counters = broker.node.flow.counters
    assert (counters.saved_received, counters.saved_sent) == (0, 0)


@pytest.mark.settings("flow.compression=false")
async def test_nothing_is_compressed_where_the_gateway_does_not_want_to(broker: RunningBroker) -> None:
    """Flow: sessions, features: in force is what both named."""
    await goes_through(broker, compress=True)
    counters = broker.node.flow.counters
    assert (counters.saved_received, counters.saved_sent) == (0, 0)


async def test_the_gateway_names_the_features_that_both_know(broker: RunningBroker) -> None:
    """Flow: sessions."""
    async with FlowClient(broker.flow_port, features=("future", DEFLATE)) as client:
        assert client.welcome is not None
        assert client.welcome.features == (DEFLATE,)
