"""A standby site begins with the log of the active one, whole or trimmed, over three NATS servers."""

import asyncio
from contextlib import aclosing
from functools import partial
from pathlib import Path

import pytest

from sluicegate.storage.backup.snapshots import install_snapshot
from sluicegate.storage.replication.jetstream import JetStream, stream_name
from sluicegate.storage.replication.ownership.bucket import BUCKET
from sluicegate.storage.replication.replica import LogMissing
from sluicegate.storage.replication.sites.keys import SiteKeys, StoredState
from sluicegate.storage.replication.sites.receiving import Joint, join
from sluicegate.storage.replication.sites.seeding import has_begun, seed
from sluicegate.storage.replication.sites.states import UnreadableState, demoting, first_state
from sluicegate.storage.replication.trimming.plan import to_install
from sluicegate.storage.replication.trimming.snapshots import Snapshots
from support.processes.nats import NatsCluster
from support.processes.nats_streams import delete_key, until_created
from support.storage.answers import answered
from support.storage.replicas import BEGIN, Following, content_of
from support.storage.trimmed import TrimmedBroker, trimmed_broker

BYTES_MAX = 64 << 20


async def seeded(broker: TrimmedBroker) -> tuple[JetStream, Snapshots]:
    """Begin a log as another site does; its servers are those of the broker."""
    own = JetStream(broker.client, broker.name, 1)
    here = Snapshots(broker.client, broker.name, None, 1)
    assert not await answered(partial(has_begun, own))
    begin = partial(seed, broker.stream, own, broker.snapshots, here, replica="a", copies=3, bytes_max=BYTES_MAX)
    await answered(begin)
    assert await answered(partial(has_begun, own))
    return own, here


async def test_a_standby_site_begins_with_the_whole_log(servers: NatsCluster, tmp_path: Path) -> None:
    async with trimmed_broker(servers, tmp_path) as broker:
        await broker.commits()
        own, _ = await seeded(broker)
        theirs, ours = await answered(broker.stream.bounds), await answered(own.bounds)
        assert (ours.first, ours.last) == (1, theirs.last)
        joined = await answered(partial(join, broker.stream, own, base=0, is_later=False))
        assert joined == (Joint.FOLLOWS, theirs.last, theirs.last)


async def test_a_stream_that_was_made_and_has_nothing_yet_is_no_begin(servers: NatsCluster, tmp_path: Path) -> None:
    async with trimmed_broker(servers, tmp_path) as broker:
        await broker.commits()
        own = JetStream(broker.client, broker.name, 1)
        await until_created(own, BYTES_MAX)  # and its process has died
        own, _ = await seeded(broker)
        theirs = await answered(broker.stream.bounds)
        assert (await answered(own.bounds)).last == theirs.last


async def test_a_stream_that_has_nothing_while_the_log_is_trimmed_past_it_is_given_up(
    servers: NatsCluster, tmp_path: Path
) -> None:
    async with trimmed_broker(servers, tmp_path) as broker:
        own = JetStream(broker.client, broker.name, 1)
        await until_created(own, BYTES_MAX)
        for _ in range(2):
            await broker.commits()
            await broker.snapshot()
        assert await broker.trim() > 1
        with pytest.raises(LogMissing, match="waits for message 1, and the other site has"):
            await seeded(broker)


async def test_a_log_that_was_read_leaves_nothing_at_the_connection(servers: NatsCluster, tmp_path: Path) -> None:
    async with trimmed_broker(servers, tmp_path) as broker:
        await broker.commits(1)
        before = len(broker.client._subs)
        async with aclosing(JetStream(broker.client, broker.name)) as source:
            await answered(partial(source.read, 0, 1.0))
            assert len(broker.client._subs) == before + 1
        assert len(broker.client._subs) == before


async def test_the_state_of_a_site_that_was_deleted_is_not_that_of_a_new_one(
    servers: NatsCluster, tmp_path: Path
) -> None:
    async with trimmed_broker(servers, tmp_path) as broker:
        keys = SiteKeys(broker.client, broker.name)
        await answered(partial(keys.put, first_state("paris", is_active=True), 0))
        subject = f"$KV.{BUCKET}.{stream_name(broker.name)}.site"
        await delete_key(broker.client, subject)
        with pytest.raises(UnreadableState, match="was deleted: nobody knows which site is active"):
            await answered(keys.read)


async def test_a_standby_site_begins_with_a_snapshot_when_the_log_was_trimmed(
    servers: NatsCluster, tmp_path: Path
) -> None:
    async with trimmed_broker(servers, tmp_path) as broker:
        await broker.commits()
        await broker.snapshot()
        await broker.commits()
        newest = await broker.snapshot()
        await broker.commits()
        assert await broker.trim() > 1
        own, here = await seeded(broker)
        assert (await answered(own.bounds)).first == newest.position

        (found,) = to_install(await answered(here.all), newest.position)
        folder = tmp_path / "london"
        await asyncio.to_thread(install_snapshot, here, found.name, folder, broker.run, copied=lambda _: None)
        replica = Following(folder, own, "a")
        try:
            assert replica.store.incarnation == BEGIN.incarnation
            await answered(partial(replica.standby.resume, own))
            await replica.read_all()
            assert content_of(replica.store) == content_of(broker.owner.store)
        finally:
            replica.store.close()


async def test_the_state_of_a_site_is_kept_and_compared(servers: NatsCluster, tmp_path: Path) -> None:
    async with trimmed_broker(servers, tmp_path) as broker:
        keys = SiteKeys(broker.client, broker.name)
        assert await answered(keys.read) == StoredState(None, 0)
        active = first_state("paris", is_active=True)
        revision = await answered(partial(keys.put, active, 0))
        assert revision is not None
        assert await answered(partial(keys.put, active, 0)) == revision  # the answer of the first may have been lost
        assert await answered(partial(keys.put, demoting(active), 0)) is None
        assert await answered(partial(keys.put, demoting(active), revision)) is not None
        assert (await answered(keys.read)).state == demoting(active)
