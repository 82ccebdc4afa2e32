"""Streams of a cluster of NATS servers, made and written while these may be busy with each other."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import Final

from nats.aio.client import Client

from sluicegate.storage.replication.jetstream import JetStream, connected
from sluicegate.storage.replication.ownership.bucket import NatsBucket
from sluicegate.storage.replication.ownership.keys import Holder
from sluicegate.storage.replication.replica import Append
from sluicegate.storage.replication.stream import Stream, StreamUnavailable
from support.processes.nats import NatsCluster
from support.storage.answers import WITHIN_S, answered

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
    await answered(partial(stream.create, replica_count=3, bytes_max=bytes_max), even_refused=True)
    await answered(partial(stream.append, Append(BEYOND, b"")), even_refused=True)


async def until_bucket_created(client: Client) -> NatsBucket:
    """Create the bucket of keys likewise."""
    bucket = NatsBucket(client)
    await answered(partial(bucket.create, 3), even_refused=True)
    await answered(partial(bucket.put, "ready", Holder("", ""), BEYOND, WITHIN_S), even_refused=True)
    return bucket


async def write_key(client: Client, subject: str, value: bytes) -> None:
    """Write a key of a bucket past Sluicegate, as an operator does with a tool of NATS."""
    await answered(partial(client.request, subject, value, timeout=WITHIN_S), even_refused=True)


async def delete_key(client: Client, subject: str) -> None:
    """Delete a key of a bucket likewise."""
    headers = {"KV-Operation": "DEL"}
    await answered(partial(client.request, subject, headers=headers, timeout=WITHIN_S), even_refused=True)


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
