"""The replicas of a broker as a list in the bucket of three NATS servers, and replicas that follow it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from nats.aio.client import Client

from sluicegate.gateway.cluster.membership.names import Names, ReplicaNames
from sluicegate.gateway.config.sections.cluster import Cluster
from sluicegate.gateway.views.errors import CannotStart, NotReady, Refused
from sluicegate.storage.replication.jetstream import connected, stream_name
from sluicegate.storage.replication.ownership.bucket import BUCKET
from sluicegate.storage.replication.ownership.readable_levels import ReadableLevel, ReadableLevels
from sluicegate.storage.replication.ownership.replica_list import (
    ReplicaList,
    ReplicaLists,
    subject_of_list,
    with_replica,
    without_replica,
)
from sluicegate.storage.replication.trimming.plan import Hold
from support.processes.nats import NatsCluster
from support.processes.nats_streams import delete_key, until_bucket_created
from support.storage.answers import answered
from support.storage.trimmed import trimmed_broker

WITHIN_S = 60
BROKERS = count(1)


@asynccontextmanager
async def connection(servers: NatsCluster) -> AsyncIterator[Client]:
    """A connection; the bucket is there."""
    client = await connected(servers.urls, WITHIN_S)
    try:
        await until_bucket_created(client)
        yield client
    finally:
        await client.close()


class Follower:
    """A replica that follows the list."""

    def __init__(self, servers: NatsCluster, broker: str, name: str, configured: Names) -> None:
        self.read: list[Names] = []
        settings = Cluster(servers=tuple(servers.urls), replica=name, replicas=configured)
        self.names = ReplicaNames(broker, settings, read=self.read.append)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not condition():
            await asyncio.sleep(0.02)


async def test_a_list_is_written_only_if_its_revision_was_seen(servers: NatsCluster) -> None:
    async with connection(servers) as client:
        lists, broker = ReplicaLists(client), f"listed {next(BROKERS)}"
        assert await answered(partial(lists.read, broker)) == (None, 0)
        first = await answered(partial(lists.put, ReplicaList(broker, ("a", "b")), 0))
        assert first is not None
        assert await answered(partial(lists.put, ReplicaList(broker, ("c",)), 0)) is None
        stored = await answered(partial(lists.read, broker))
        assert stored == (ReplicaList(broker, ("a", "b")), first)
        assert ReplicaList(broker, ("a", "b")) in await answered(lists.all)


async def test_the_first_replica_makes_the_list_and_another_waits_until_it_is_added(servers: NatsCluster) -> None:
    broker = f"listed {next(BROKERS)}"
    first = Follower(servers, broker, "a", ("a", "b"))
    added = Follower(servers, broker, "d", ("d",))
    async with connection(servers) as client, connection(servers) as other:
        await first.names.join(client)
        assert first.read == [("a", "b")]
        joining = asyncio.create_task(added.names.join(other))
        await until(lambda: "sluicegate cluster add d" in added.names.waits)
        assert added.names.names == ("a", "b")
        await first.names.change(lambda names: with_replica(names, "d", "b"))
        async with asyncio.timeout(WITHIN_S):
            await joining
        assert added.read == [("a", "d", "b")]
        assert added.names.waits == ""


async def test_a_replica_hears_that_it_was_taken_out(servers: NatsCluster) -> None:
    broker = f"listed {next(BROKERS)}"
    first, second = (Follower(servers, broker, name, ("a", "b")) for name in ("a", "b"))
    async with connection(servers) as client, connection(servers) as other:
        await first.names.join(client)
        await second.names.join(other)
        following = asyncio.create_task(second.names.follow())
        await first.names.change(lambda names: without_replica(names, "b"))
        await until(lambda: second.read[-1] == ("a",))
        second.names.close()
        await following


async def test_of_two_operators_each_changes_what_the_other_has_made(servers: NatsCluster) -> None:
    broker = f"listed {next(BROKERS)}"
    first, second = (Follower(servers, broker, name, ("a", "b")) for name in ("a", "b"))
    async with connection(servers) as client, connection(servers) as other:
        await first.names.join(client)
        await second.names.join(other)
        await asyncio.gather(
            first.names.change(lambda names: with_replica(names, "c")),
            second.names.change(lambda names: with_replica(names, "d")),
        )
        stored = await answered(partial(ReplicaLists(client).read, broker))
        assert stored.replicas is not None
        assert set(stored.replicas.names) == {"a", "b", "c", "d"}
        with pytest.raises(Refused, match="'c' is a replica of this broker already"):
            await second.names.change(lambda names: with_replica(names, "c"))


async def test_a_list_that_was_deleted_is_made_again_of_the_names_that_are_known(servers: NatsCluster) -> None:
    broker = f"listed {next(BROKERS)}"
    first = Follower(servers, broker, "a", ("a", "b"))
    async with connection(servers) as client:
        await first.names.join(client)
        await first.names.change(lambda names: with_replica(names, "c"))
        following = asyncio.create_task(first.names.follow())
        await until(lambda: first.names.names == ("a", "b", "c"))
        lists = ReplicaLists(client)
        before = (await answered(partial(lists.read, broker))).revision
        await delete_key(client, subject_of_list(broker))
        first.names.look()
        async with asyncio.timeout(WITHIN_S):
            while (stored := await answered(partial(lists.read, broker))).revision < before + 2:
                await asyncio.sleep(0.02)
        assert stored.replicas == ReplicaList(broker, ("a", "b", "c"))
        first.names.close()
        await following


async def test_a_replica_that_starts_refuses_a_change_of_the_list_for_now(servers: NatsCluster) -> None:
    starting = Follower(servers, "starting", "a", ("a", "b"))
    with pytest.raises(NotReady, match="replica a starts, and does not know the list yet"):
        await starting.names.change(lambda names: with_replica(names, "c"))


async def test_what_a_replica_reads_is_said_again_when_somebody_has_deleted_it(servers: NatsCluster) -> None:
    async with connection(servers) as client:
        broker = f"listed {next(BROKERS)}"
        levels, said = ReadableLevels(client, broker), ReadableLevel(3, "1.0")
        await answered(partial(levels.say, "a", said))
        subject = f"$KV.{BUCKET}.{stream_name(broker)}.reads.a"
        await delete_key(client, subject)
        assert await answered(levels.all) == {}
        assert await answered(partial(levels.say, "a", said))
        assert await answered(levels.all) == {"a": said}


async def test_a_new_broker_has_its_replicas_from_the_configuration(servers: NatsCluster) -> None:
    stranger = Follower(servers, f"listed {next(BROKERS)}", "d", ("a", "b"))
    async with connection(servers) as client:
        with pytest.raises(CannotStart, match=r"has to be one of cluster\.replicas, which are: a, b"):
            await stranger.names.join(client)


async def test_the_hold_of_a_replica_that_was_taken_out_goes(servers: NatsCluster, tmp_path: Path) -> None:
    async with trimmed_broker(servers, tmp_path) as broker:
        for name in ("a", "b"):
            await answered(partial(broker.holds.put, Hold(name, 1), 0))
        await broker.commits()
        first = await broker.snapshot()
        await broker.commits()
        await broker.snapshot()
        assert await broker.trim() == 1
        broker.replicas = ("owner", "standby", "b")
        assert await broker.trim() == 1
        assert await broker.held() == [Hold("b", 1)]
        broker.replicas = ("owner", "standby")
        assert await broker.trim() == first.position
        assert broker.revoked == []
