"""Streams of a cluster of NATS servers, made and written while these may be busy with each other."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import Final

from nats.aio.client import Client

from sluicegate.storage.replication.jetstream import JetStream, connected
from sluicegate.storage.replication.ownership.bucket import NatsBucket
from sluicegate.storage.replication.replica import Append
from sluicegate.storage.replication.stream import StreamRefused, StreamUnavailable
from support.processes.nats import NatsCluster

WITHIN_S: Final = 60
NAMES: Final = count(1)  # so that each test has a stream of its own


@asynccontextmanager
async def opened(servers: NatsCluster, broker: str) -> AsyncIterator[JetStream]:
    """The stream of a broker, over a connection of its own."""
    client = await connected(servers.urls)
    try:
        yield JetStream(client, broker)
    finally:
        await client.close()


async def until_created(stream: JetStream, bytes_max: int) -> None:
    """Create the stream as soon as the servers have found each other."""
    await _until_done(partial(stream.create, replica_count=3, bytes_max=bytes_max))


async def until_bucket_created(client: Client) -> None:
    """Create the bucket of keys likewise."""
    await _until_done(partial(NatsBucket(client).create, 3))


async def _until_done(create: Callable[[], Awaitable[None]]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while True:
            try:
                await create()
                return
            except (StreamUnavailable, StreamRefused):
                await asyncio.sleep(0.1)


async def stored(stream: JetStream, append: Append) -> int:
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
