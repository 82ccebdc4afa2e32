"""The key of a broker in a bucket of three NATS servers, and replicas that want it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import count

import pytest

from sluicegate.storage.errors import StorageError
from sluicegate.storage.replication.jetstream import connected, stream_name
from sluicegate.storage.replication.ownership.bucket import BUCKET, NatsBucket
from sluicegate.storage.replication.ownership.candidate import Candidate
from sluicegate.storage.replication.ownership.clock import elapsed_s
from sluicegate.storage.replication.ownership.keys import Holder, Key, UnreadableKey
from sluicegate.storage.replication.ownership.lease import BY_DEFAULT, Lease, Stopped, Taken, Times, times_of
from sluicegate.storage.replication.servers import all_servers, check_servers, connected_server
from sluicegate.storage.replication.stream import StreamRefused
from support.processes.nats import NatsCluster
from support.processes.nats_streams import delete_key, until_bucket_created, write_key
from support.storage.answers import answered

WITHIN_S = 60
REQUEST_S = 20.0
LONG = times_of(20.0)  # of replicas that never lose their key, however busy servers are
NAMES = count(1)
A, B = Holder("a", "1"), Holder("b", "1")


@asynccontextmanager
async def bucket(servers: NatsCluster) -> AsyncIterator[NatsBucket]:
    """The bucket, over a connection of its own."""
    client = await connected(servers.urls, WITHIN_S)
    try:
        yield await until_bucket_created(client)
    finally:
        await client.close()


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(WITHIN_S):
        while not condition():
            await asyncio.sleep(0.02)


class Replica:
    """A replica that wants to own a broker, over a connection of its own."""

    def __init__(self, name: str, broker: str, bucket: NatsBucket, times: Times) -> None:
        self.changes: list[Taken | Stopped] = []
        self.problems: list[StorageError] = []
        self.lease = Lease(name, f"instance of {name}", ["a", "b", "c"], times)
        self.candidate = Candidate(
            self.lease,
            bucket,
            broker,
            elapsed_s=elapsed_s,
            is_caught_up=lambda: True,
            changed=self.changes.append,
            failed=self.problems.append,
        )
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._running = asyncio.create_task(self.candidate.run())

    async def stop(self) -> None:
        self.candidate.close()
        if self._running is not None:
            await self._running

    def serves(self) -> bool:
        return self.lease.serves(elapsed_s())


@asynccontextmanager
async def replicas(servers: NatsCluster, *names: str, times: Times = BY_DEFAULT) -> AsyncIterator[list[Replica]]:
    """Replicas of one broker; the first of them is started and is the owner, then the others are."""
    broker = f"owned {next(NAMES)}"
    async with AsyncExitStack() as stack:
        found = [Replica(name, broker, await stack.enter_async_context(bucket(servers)), times) for name in names]
        for each in found:
            stack.push_async_callback(each.stop)
        found[0].start()
        await until(found[0].serves)
        for each in found[1:]:
            each.start()
        yield found


async def test_a_key_is_written_only_if_its_revision_was_seen(servers: NatsCluster) -> None:
    broker = f"owned {next(NAMES)}"
    async with bucket(servers) as keys:
        assert await keys.read(broker, REQUEST_S) == Key(0, None)
        first = await keys.put(broker, A, 0, REQUEST_S)
        assert first is not None
        assert await keys.put(broker, B, 0, REQUEST_S) is None
        assert await keys.put(broker, B, first + 1, REQUEST_S) is None
        assert await keys.read(broker, REQUEST_S) == Key(first, A)
        second = await keys.put(broker, B, first, REQUEST_S)
        assert second is not None
        assert second > first
        assert await keys.put(broker, A, first, REQUEST_S) is None
        assert await keys.read(broker, REQUEST_S) == Key(second, B)


async def test_of_replicas_that_take_a_key_at_a_time_one_has_it(servers: NatsCluster) -> None:
    broker = f"owned {next(NAMES)}"
    async with bucket(servers) as one, bucket(servers) as two:
        answers = await asyncio.gather(
            *[keys.put(broker, Holder(f"{place}", ""), 0, REQUEST_S) for place in range(10) for keys in (one, two)]
        )
        [revision] = [answer for answer in answers if answer is not None]
        assert (await two.read(broker, REQUEST_S)).revision == revision


async def test_a_key_that_an_operator_deleted_is_none_and_can_be_taken(servers: NatsCluster) -> None:
    broker = f"owned {next(NAMES)}"
    client = await connected(servers.urls, WITHIN_S)
    async with bucket(servers) as keys:
        await keys.put(broker, A, 0, REQUEST_S)
        await delete_key(client, f"$KV.{BUCKET}.{stream_name(broker)}")
        deleted = await keys.read(broker, REQUEST_S)
        assert deleted.holder is None
        assert deleted.revision > 0
        assert await keys.put(broker, B, deleted.revision, REQUEST_S) is not None
    await client.close()


async def test_a_key_that_somebody_else_wrote_is_an_error(servers: NatsCluster) -> None:
    broker = f"owned {next(NAMES)}"
    client = await connected(servers.urls, WITHIN_S)
    async with bucket(servers) as keys:
        await write_key(client, f"$KV.{BUCKET}.{stream_name(broker)}", b"mine")
        with pytest.raises(UnreadableKey, match=rf"key {stream_name(broker)} of bucket {BUCKET} does not say who"):
            await keys.read(broker, REQUEST_S)
    await client.close()


async def test_a_bucket_with_settings_that_lose_keys_is_told(servers: NatsCluster) -> None:
    async with bucket(servers) as keys:
        assert await answered(partial(keys.differences, 3)) == {}
        assert await answered(partial(keys.differences, 5)) == {"num_replicas": 3}
        with pytest.raises(StreamRefused, match="already in use"):
            await answered(partial(keys.create, 1))


async def test_servers_say_to_the_system_account_how_often_they_write(servers: NatsCluster) -> None:
    system = await connected(servers.urls, WITHIN_S, user="system", password="system")
    found = await all_servers(system)
    assert [(each.name, each.sync_s) for each in found] == [("n1", 0.0), ("n2", 0.0), ("n3", 0.0)]
    assert check_servers(found, 3) == []
    await system.close()
    client = await connected(servers.urls, WITHIN_S)
    assert await all_servers(client) == []
    server = connected_server(client)
    assert server.version == found[0].version
    [warning] = check_servers([server], 3)
    assert "does not say how often" in warning.text
    await client.close()


async def test_a_standby_takes_over_from_an_owner_that_is_gone(servers: NatsCluster) -> None:
    async with replicas(servers, "a", "b") as (owner, standby):
        await owner.stop()
        await until(standby.serves)
        assert not owner.serves()
        assert standby.lease.epoch > owner.lease.epoch
        assert standby.changes == [Taken(standby.lease.epoch)]
        assert standby.problems == []


async def test_an_owner_hands_over_to_the_standby_it_names(servers: NatsCluster) -> None:
    async with replicas(servers, "a", "b", "c", times=LONG) as (owner, other, named):
        owner.candidate.hand_over("c")
        assert owner.changes[1:] == [Stopped("handed over to c")]
        await until(named.serves)
        assert other.changes == []
        named.candidate.hand_over("a")
        await until(owner.serves)
        assert [type(change) for change in owner.changes] == [Taken, Stopped, Taken]
        assert other.changes == []


async def test_an_owner_stops_by_itself_when_no_server_answers_and_takes_its_key_again(servers: NatsCluster) -> None:
    async with replicas(servers, "a", "b") as (owner, standby):
        first = owner.lease.epoch
        for server in servers.servers:
            server.pause()
        await until(lambda: len(owner.changes) == 2)
        assert isinstance(owner.changes[1], Stopped)
        assert not owner.serves()
        for server in servers.servers:
            server.resume()
        await until(lambda: owner.serves() or standby.serves())
        assert max(owner.lease.epoch, standby.lease.epoch) > first
