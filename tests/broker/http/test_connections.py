"""HTTP connections: pipelined requests, slow readers, `Expect: 100-continue`, and when a connection ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from sluicegate.gateway.operations.node import NodeOperations
from support.broker.running_broker import RunningBroker
from support.http.client import create, http_client, publish, ready_count
from support.mqtt.raw_client import DEADLINE_S

POST = b"POST /QUEUE/%b HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b"
POLL = b"GET /QUEUE/q HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Wire:
    """A client that writes bytes and reads answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def answer(self) -> tuple[int, bytes]:
        """Return status and body of the next answer."""
        async with asyncio.timeout(DEADLINE_S):
            head = await self.reader.readuntil(b"\r\n\r\n")
            _, _, length = head.lower().partition(b"content-length: ")
            body = await self.reader.readexactly(int(length.split(b"\r\n")[0])) if length else b""
            return int(head[9:12]), body

    async def statuses(self, count: int) -> list[int]:
        return [(await self.answer())[0] for _ in range(count)]

    async def rest(self) -> bytes:
        """Return what comes until the gateway closes."""
        return await asyncio.wait_for(self.reader.read(), DEADLINE_S)


@asynccontextmanager
async def wire(broker: RunningBroker) -> AsyncIterator[Wire]:
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.node.http.listeners["http"].port)
    try:
        yield Wire(reader, writer)
    finally:
        writer.transport.abort()


def post(payload: bytes, queue: bytes = b"q") -> bytes:
    return POST % (queue, len(payload), payload)


async def test_messages_sent_ahead_are_in_the_queue_in_their_order(broker: RunningBroker) -> None:
    """RFC 9112 9.3.2: many requests in one write. Each is answered when it is safe, or refused, for itself."""
    await create(broker, "q")
    count = 700
    async with wire(broker) as client:
        requests = [post(b"%d" % number, b"none" if number % 7 == 3 else b"q") for number in range(count)]
        client.writer.write(b"".join(requests))
        assert await client.statuses(count) == [400 if number % 7 == 3 else 200 for number in range(count)]
    messages = await NodeOperations(broker.node).browse_queue("q", limit=1000)
    assert [int(each.payload) for each in messages] == [number for number in range(count) if number % 7 != 3]


async def test_a_request_that_waits_holds_up_those_behind_it_and_waits_for_those_before_it(
    broker: RunningBroker,
) -> None:
    """A poll finds the message of the request before it, and not that of the request behind it."""
    await create(broker, "q")
    async with wire(broker) as client:
        client.writer.write(post(b"before") + POLL + post(b"behind") + POLL)
        assert await client.answer() == (200, b"")
        assert await client.answer() == (200, b"before")
        assert await client.answer() == (200, b"")
        assert (await client.answer())[0] in (200, 204)


async def test_a_client_that_asks_first_need_not_send_what_is_refused(broker: RunningBroker) -> None:
    """RFC 9110 10.1.1: Expect: 100-continue, as curl has it."""
    await create(broker, "q")
    ask = b"POST %b HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
    async with wire(broker) as client:
        client.writer.write(ask % b"/TOPIC/a/%23")
        assert (await client.answer())[0] == 400
    async with wire(broker) as client:
        client.writer.write(ask % b"/QUEUE/q")
        assert await client.answer() == (100, b"")
        client.writer.write(b"hello")
        assert (await client.answer())[0] == 200
    assert await ready_count(broker, "q") == 1


async def test_a_client_that_asks_first_is_not_late_while_a_poll_before_it_waits(broker: RunningBroker) -> None:
    """RFC 9110 10.1.1: until it is told to, it sends nothing of its body, however long that takes."""
    await create(broker, "q")
    async with wire(broker) as client:
        asks = POLL.replace(b"/q ", b"/q?wait_s=100 ")
        asks += b"POST /QUEUE/q HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
        client.writer.write(asks)
        async with asyncio.timeout(DEADLINE_S):
            while broker.node.http.counters.bytes_received < len(asks):
                await asyncio.sleep(0.01)
        broker.forward(40)  # longer than `http.body_timeout_s`
        broker.node.http.tick()
        async with http_client(broker) as publisher:
            await publish(publisher, "q", "found")
        assert await client.answer() == (200, b"found")
        assert await client.answer() == (100, b"")
        client.writer.write(b"hello")
        assert (await client.answer())[0] == 200
    assert broker.node.http.counters.violated == {}


async def test_a_body_may_come_in_many_pieces(broker: RunningBroker) -> None:
    """Larger than what is taken before anybody reads it, announced by its length or in chunks."""
    await create(broker, "q")
    body = bytes(range(256)) * 2000
    async with wire(broker) as client:
        client.writer.write(post(body))
        assert (await client.answer())[0] == 200
        client.writer.write(b"POST /QUEUE/q HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        for start in range(0, len(body), 100_000):
            piece = body[start : start + 100_000]
            client.writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await client.writer.drain()
        client.writer.write(b"0\r\n\r\n" + POLL)
        assert (await client.answer())[0] == 200
        assert (await client.answer())[1] == body


async def test_a_request_for_another_protocol_is_answered_in_this_one(broker: RunningBroker) -> None:
    """RFC 9110 7.8: Upgrade may be ignored. Java's HttpClient asks for h2c with every request it sends."""
    await create(broker, "q")
    asks = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n"
    async with wire(broker) as client:
        for body in (b"one", b"two"):
            client.writer.write(
                b"POST /QUEUE/q HTTP/1.1\r\nHost: localhost\r\n%bContent-Length: 3\r\n\r\n%b" % (asks, body)
            )
            assert (await client.answer())[0] == 200
        client.writer.write(POLL)
        assert (await client.answer())[1] == b"one"


async def test_a_connection_that_asks_for_nothing_more_is_closed(broker: RunningBroker) -> None:
    """`http.keep_alive_s` counts from the last answer."""
    async with wire(broker) as client, wire(broker) as busy:
        for each in (client, busy):
            each.writer.write(b"POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
            assert (await each.answer())[0] == 200
        broker.forward(59)
        broker.node.http.tick()
        busy.writer.write(b"POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
        assert (await busy.answer())[0] == 200
        broker.forward(2)
        broker.node.http.tick()
        assert await client.rest() == b""
        busy.writer.write(b"POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
        assert (await busy.answer())[0] == 200
    assert broker.node.http.counters.violated == {}


async def test_a_client_that_does_not_read_its_answers_is_not_read_from(broker: RunningBroker) -> None:
    """What waits for it has a bound; it goes on where it stopped, and loses nothing."""
    await create(broker, "q")
    body = "x" * 200_000
    async with http_client(broker) as publisher:
        await publish(publisher, "q", body)
    count = 200
    async with wire(broker) as client:
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # one for both directions
        client.writer.write(b"GET /QUEUE/q?browse=true HTTP/1.1\r\nHost: localhost\r\n\r\n" * count)
        async with asyncio.timeout(DEADLINE_S):
            while broker.node.http.counters.bytes_sent < len(body):
                await asyncio.sleep(0.01)
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]
        for _ in range(count):
            status, answered = await client.answer()
            assert (status, len(answered) > len(body)) == (200, True)


async def test_a_client_that_takes_nothing_of_its_answers_is_cut_off(broker: RunningBroker) -> None:
    """`http.body_timeout_s` counts from when it last took some: one that reads slowly is left alone."""
    await create(broker, "q")
    body = "x" * 200_000
    async with http_client(broker) as publisher:
        await publish(publisher, "q", body)
    async with wire(broker) as client:
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # one for both directions
        client.writer.write(b"GET /QUEUE/q?browse=true HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200)
        port = broker.node.http
        async with asyncio.timeout(DEADLINE_S):
            while not any(each.is_writing_paused for each in port.open_connections()):
                await asyncio.sleep(0.01)
        for seconds in (20, 20):
            broker.forward(seconds)
            port.tick()
        async with asyncio.timeout(DEADLINE_S):
            while port.open_connections():
                await asyncio.sleep(0.01)
        assert port.counters.violated == {"answer_not_read": 1}


@pytest.mark.settings("http.max_body_size=100KiB")
async def test_a_request_refused_before_its_body_has_arrived_ends_the_connection(broker: RunningBroker) -> None:
    """The answer is read by a client that is still sending: nothing resets the connection before."""
    async with wire(broker) as client:
        client.writer.write(b"POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\n" + bytes(50_000))
        assert (await client.answer())[0] == 413
        client.writer.write(bytes(150_000))
        assert await client.rest() == b""
