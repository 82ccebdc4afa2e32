"""Streams of a cluster of NATS servers, made and written while these may be busy with each other."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import Final

from nats.aio.client import Client
from nats.errors import NoRespondersError

from sluicegate.storage.replication.jetstream import JetStream, connected
from sluicegate.storage.replication.ownership.bucket import NatsBucket
from sluicegate.storage.replication.ownership.keys import Holder
from sluicegate.storage.replication.replica import Append
from sluicegate.storage.replication.stream import Stream, StreamRefused, StreamUnavailable
from support.processes.nats import NatsCluster

WITHIN_S: Final = 60
NAMES: Final = count(1)  # so that each test has a stream of its own
BEYOND: Final = 1 << 50  # a sequence that no stream of a test reaches: what is expected behind it is not stored


@asynccontextmanager
async def opened(servers: NatsCluster, broker: str) -> AsyncIterator[JetStream]:
    """The stream of a broker, over a connection of its own."""
    client = await connected(servers.urls, WITHIN_S)
    try:
        yield JetStream(client, broker)
    finally:
        await client.close()


async def until_created(stream: JetStream, bytes_max: int) -> None:
    """Create the stream as soon as the servers have found each other, and wait until appends reach its leader.

    The server of the connection may know the stream before it knows the way there.
    """
    await _until_done(partial(stream.create, replica_count=3, bytes_max=bytes_max))
    await _until_done(partial(stream.append, Append(BEYOND, b"")))


async def until_bucket_created(client: Client) -> NatsBucket:
    """Create the bucket of keys likewise."""
    bucket = NatsBucket(client)
    await _until_done(partial(bucket.create, 3))
    await _until_done(partial(bucket.put, "ready", Holder("", ""), BEYOND, WITHIN_S))
    return bucket


async def write_key(client: Client, subject: str, value: bytes) -> None:
    """Write a key of a bucket past Sluicegate, as an operator does with a tool of NATS."""
    await _until_done(partial(client.request, subject, value, timeout=WITHIN_S))


async def delete_key(client: Client, subject: str) -> None:
    """Delete a key of a bucket likewise."""
    await _until_done(partial(client.request, subject, headers={"KV-Operation": "DEL"}, timeout=WITHIN_S))


async def _until_done(work: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while True:
            try:
                await work()
                return
            except (StreamUnavailable, StreamRefused, NoRespondersError):
                await asyncio.sleep(0.1)


async def stored(stream: Stream, append: Append) -> int:
    """Append, and again until it is stored."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            with contextlib.suppress(StreamUnavailable):
                sequence = await stream.append(append)
                if sequence is not None:
                    return sequence
            with contextlib.suppress(StreamUnavailable):
                if await stream.at(append.expected + 1) == append.data:
                    return append.expected + 1
