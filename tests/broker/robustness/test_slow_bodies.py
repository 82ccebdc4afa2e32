"""Request bodies that arrive slowly: each has a deadline, however steadily it trickles."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from support.broker.running_broker import RunningBroker
from support.http.client import create, ready_count
from support.mqtt.raw_client import DEADLINE_S

POST = b"POST /QUEUE/q HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"


class Sender:
    """A client that sends a body piece by piece, and knows that the broker has each."""

    def __init__(self, broker: RunningBroker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._broker = broker
        self._reader = reader
        self._writer = writer
        self._sent_bytes = broker.node.http.counters.bytes_received

    async def sends(self, data: bytes) -> None:
        """Send something, and wait until it has come."""
        self._sent_bytes += len(data)
        self._writer.write(data)
        async with asyncio.timeout(DEADLINE_S):
            while self._broker.node.http.counters.bytes_received < self._sent_bytes:
                await asyncio.sleep(0.001)

    async def status(self) -> int:
        """Return the status of the next answer."""
        async with asyncio.timeout(DEADLINE_S):
            head = await self._reader.readuntil(b"\r\n\r\n")
        return int(head[9:12])

    async def rest(self) -> bytes:
        """Return what comes until the connection ends."""
        return await asyncio.wait_for(self._reader.read(), DEADLINE_S)


@asynccontextmanager
async def sender(broker: RunningBroker) -> AsyncIterator[Sender]:
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.node.http.listeners["http"].port)
    try:
        yield Sender(broker, reader, writer)
    finally:
        writer.transport.abort()


async def test_a_body_of_a_byte_now_and_then_is_cut_off(broker: RunningBroker) -> None:
    """RFC 9110 15.5.9. Never silent for `http.body_timeout_s`, it would hold its connection for as long as it likes."""
    async with sender(broker) as client:
        await client.sends(POST % 1000)
        for _ in range(4):
            await client.sends(b"x")
            broker.forward(10)
        assert await client.status() == 408
        assert await client.rest()
    assert broker.node.http.counters.violated == {"request_timeout": 1}


async def test_a_body_behind_its_answer_has_a_time_to_end_as_well(broker: RunningBroker) -> None:
    async with sender(broker) as client:
        await client.sends((POST % 100_000).replace(b"/QUEUE/q", b"/TOPIC/a/%23"))
        assert await client.status() == 400
        for _ in range(4):
            await client.sends(b"x")
            broker.forward(10)
        await client.rest()
    assert broker.node.http.counters.violated == {"request_timeout": 1}


async def test_a_body_at_the_least_rate_may_take_its_time(broker: RunningBroker) -> None:
    """`http.body_rate_min` is an average: a body of 40 KiB at 1 KiB a second has 40 s more."""
    await create(broker, "q")
    async with sender(broker) as client:
        await client.sends(POST % (50 * 1024) + bytes(40 * 1024))
        for _ in range(3):
            broker.forward(20)
            await client.sends(b"x")
        await client.sends(bytes(10 * 1024 - 3))
        assert await client.status() == 200
    assert await ready_count(broker, "q") == 1


@pytest.mark.settings("http.body_rate_min=100KiB")
async def test_the_least_rate_is_a_setting(broker: RunningBroker) -> None:
    async with sender(broker) as client:
        await client.sends(POST % (50 * 1024) + bytes(40 * 1024))
        for _ in range(2):
            broker.forward(20)
            await client.sends(b"x")
        assert await client.status() == 408


async def test_each_body_of_a_connection_has_its_own_time(broker: RunningBroker) -> None:
    await create(broker, "q")
    async with sender(broker) as client:
        for _ in range(4):
            await client.sends(POST % 2 + b"x")
            broker.forward(20)
            await client.sends(b"y")
            assert await client.status() == 200
    assert broker.node.http.counters.violated == {}
