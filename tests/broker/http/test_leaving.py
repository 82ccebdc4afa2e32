"""HTTP clients that disconnect during a request: nothing more is published, read or waited for on their behalf."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sluicegate.gateway.operations.node import NodeOperations
from support.broker.blocked_sign_in import block_sign_ins
from support.broker.running_broker import RunningBroker
from support.http.client import create, event_stream, http_client
from support.mqtt.raw_client import DEADLINE_S

EVENTS = b"GET /QUEUE/q%b HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"


async def comes(broker: RunningBroker) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", broker.node.http.listeners["http"].port)


async def leaves(broker: RunningBroker, writer: asyncio.StreamWriter) -> None:
    """Go without a word, and wait until the gateway knows."""
    writer.transport.abort()
    async with asyncio.timeout(DEADLINE_S):
        while broker.node.http.open_connections():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def leaving_nothing_behind() -> AsyncIterator[set[asyncio.Task[Any]]]:
    """Within it as many tasks end as begin. Yields those there are before."""
    before = asyncio.all_tasks()
    yield before
    async with asyncio.timeout(DEADLINE_S):
        while asyncio.all_tasks() - before:
            await asyncio.sleep(0.01)


@pytest.mark.accounts(anna="secret")
async def test_a_message_of_a_client_that_left_before_its_password_was_checked_is_not_published(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its body was let go of: what was published in its place was an empty message."""
    await create(broker, "q")
    sign_in = block_sign_ins(broker, monkeypatch)
    _, writer = await comes(broker)
    async with leaving_nothing_behind():
        says_who = b"Authorization: Basic " + base64.b64encode(b"anna:secret")
        writer.write(
            b"POST /QUEUE/q HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n" + says_who + b"\r\n\r\nhello"
        )
        await sign_in.begun.wait()
        await leaves(broker, writer)
        sign_in.may_end.set()
    assert await NodeOperations(broker.node).browse_queue("q", limit=10) == []


@pytest.mark.parametrize("query", [b"", b"?browse=true"])
async def test_a_client_that_leaves_while_its_stream_is_bound_is_no_reader(broker: RunningBroker, query: bytes) -> None:
    """A flow that somebody reads never ends, and its messages fail one after the other."""
    await create(broker, "q")
    async with leaving_nothing_behind():
        for _ in range(20):
            _, writer = await comes(broker)
            writer.write(EVENTS % query)
            await writer.drain()
            await leaves(broker, writer)
    broker.forward(301)
    broker.node.http.tick()
    assert broker.node.default.http_flows.count == 0


@pytest.mark.parametrize(
    ("head", "behind", "status"),
    [(b"Content-Length: 500000", b"ab", 408), (b"Expect: 100-continue\r\nTransfer-Encoding: chunked", b"zz\r\n", 400)],
)
async def test_a_body_that_does_not_come_to_its_end_is_waited_for_no_longer(
    broker: RunningBroker, head: bytes, behind: bytes, status: int
) -> None:
    """RFC 9110 15.5.9, RFC 9112 7.1. The request has begun: it is too large to wait for, or its client asks first."""
    async with leaving_nothing_behind():
        reader, writer = await comes(broker)
        begun = b"POST /a HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n\r\n" + behind
        writer.write(begun)
        async with asyncio.timeout(DEADLINE_S):
            while broker.node.http.counters.bytes_received < len(begun):
                await asyncio.sleep(0.01)
            broker.forward(31)
            broker.node.http.tick()
            assert b"HTTP/1.1 %d " % status in await reader.read()
        await leaves(broker, writer)


async def test_a_client_that_leaves_while_it_is_held_back_is_held_back_no_longer(broker: RunningBroker) -> None:
    """A subscriber that reads nothing holds up whoever publishes to it, for as long as they are there."""
    slow = await broker.connect(level=5)
    await slow.subscribe("t")
    slow.stop_reading()
    post = (
        b"POST /t HTTP/1.1\r\nHost: localhost\r\nSolace-Delivery-Mode: Direct\r\nContent-Length: 60000\r\n\r\n"
        + bytes(60_000)
    )
    async with leaving_nothing_behind() as before:
        _, writer = await comes(broker)
        [connection] = broker.node.http.open_connections()
        async with asyncio.timeout(DEADLINE_S):
            while not (connection.read_control.stopped and asyncio.all_tasks() - before):  # the next request waits
                writer.write(post * 4)
                await asyncio.sleep(0.01)
        await leaves(broker, writer)


async def test_a_stream_of_a_quiet_queue_carries_keep_alives(broker: RunningBroker) -> None:
    """A client that has vanished is noticed by it, and proxies keep on. Browsing, and consuming."""
    await create(broker, "q")
    queries: tuple[dict[str, Any], ...] = ({"browse": "true"}, {})
    for query in queries:
        async with http_client(broker) as client, event_stream(client, "/QUEUE/q", **query) as stream:
            chunks = stream.response.aiter_raw()
            broker.forward(16)
            broker.node.http.tick()
            async with asyncio.timeout(DEADLINE_S):
                while b":\n\n" not in await anext(chunks):
                    pass
