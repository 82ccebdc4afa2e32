"""The log of a broker is trimmed, and replicas begin from snapshots, over three NATS servers."""

import shutil
import time
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from sluicegate.gateway.cluster.log.state import LogState
from sluicegate.storage.environment.folder_lock import DATA_FILE
from sluicegate.storage.errors import DamagedRecord
from sluicegate.storage.replication.jetstream import connected, stream_name
from sluicegate.storage.replication.ownership.bucket import BUCKET
from sluicegate.storage.replication.replica import LogTrimmed
from sluicegate.storage.replication.trimming.holds import ReplicaHold
from sluicegate.storage.replication.trimming.objects import CHUNK_BYTES, ObjectChanged, Objects
from sluicegate.storage.replication.trimming.plan import Hold, has_to_begin_anew
from support.processes.nats import NatsCluster
from support.processes.nats_streams import NAMES, delete_key
from support.storage.answers import WITHIN_S, answered
from support.storage.replicas import BEGIN, content_of
from support.storage.trimmed import TrimmedBroker, trimmed_broker

_Result = TypeVar("_Result")


async def damage(broker: TrimmedBroker, name: str) -> None:
    """Put other bytes in the place of those of a snapshot, as many as it has."""
    chunks = [len(chunk) async for chunk in broker.snapshots.chunks(name)]
    subject = f"$O.{stream_name(broker.name)}.C.{name}"
    context = broker.client.jetstream(timeout=WITHIN_S)
    await context.purge_stream(f"OBJ_{stream_name(broker.name)}", subject=subject)
    for size in chunks:
        await context.publish(subject, bytes(size))


async def renewed(hold: ReplicaHold, last_record: int) -> bool:
    """Renew a hold, and again while the servers are busy."""
    return await answered(partial(hold.renew, last_record))


async def test_a_new_standby_begins_from_a_snapshot_and_reads_the_rest(servers: NatsCluster, tmp_path: Path) -> None:
    async with trimmed_broker(servers, tmp_path) as broker:
        await broker.commits()
        first = await broker.snapshot()
        assert await broker.trim() == 1  # one snapshot is not enough
        await broker.commits()
        second = await broker.snapshot()
        await broker.commits()
        assert await broker.trim() == first.position
        assert second.position > first.position
        with pytest.raises(LogTrimmed):
            await (await broker.following("without")).read_all()
        await broker.install("new")
        new = await broker.following("new")
        assert new.store.incarnation == BEGIN.incarnation
        assert new.store.last_number == second.position
        await new.read_all()
        assert content_of(new.store) == content_of(broker.owner.store)


async def test_operators_see_the_newest_snapshot_what_is_behind_it_and_the_holds(
    servers: NatsCluster, tmp_path: Path
) -> None:
    async with trimmed_broker(servers, tmp_path) as broker:

        async def looked() -> LogState:
            state = LogState(broker.stream, broker.snapshots, broker.holds, monotonic_s=time.monotonic)
            await answered(state.look)
            return state

        def behind(state: LogState) -> int:
            return state.view().bytes_behind_snapshot

        await broker.commits()
        empty = await looked()
        assert (empty.view().snapshot_position, empty.view().snapshot_taken_ms, empty.holds) == (0, 0, {})
        assert behind(empty) == (await answered(broker.stream.bounds)).byte_count
        made = await broker.snapshot()
        assert await renewed(broker.hold("a.b"), made.position)
        state = await looked()
        assert state.view().snapshot_position == made.position
        assert state.view().snapshot_bytes > 0
        assert state.holds == {"a.b": made.position}
        assert 0 < behind(state) < behind(empty)
        await broker.commits()
        assert behind(await looked()) > behind(state)
        values = {(each.name, each.labels): each.value for each in state.samples()}
        assert values["sluicegate_replica_snapshot_position", ()] == made.position
        assert values["sluicegate_replica_hold_position", ("a.b",)] == made.position


async def test_a_standby_that_was_away_begins_anew_when_the_log_was_trimmed_past_it(
    servers: NatsCluster, tmp_path: Path
) -> None:
    async with trimmed_broker(servers, tmp_path) as broker:
        await broker.commits()
        away = await broker.following("away")
        await away.read_all()
        last = away.store.last_number
        away.store.close()
        for _ in range(3):
            await broker.commits()
            await broker.snapshot()
        assert has_to_begin_anew(await broker.trim(), last)
        assert len(await broker.found()) == 2
        with pytest.raises(LogTrimmed):
            await broker.following("away")
        shutil.rmtree(broker.folder_of("away"))
        await broker.install("away")
        returned = await broker.following("away")
        await returned.read_all()
        assert content_of(returned.store) == content_of(broker.owner.store)


async def test_a_hold_that_somebody_has_deleted_is_placed_again(servers: NatsCluster, tmp_path: Path) -> None:
    async with trimmed_broker(servers, tmp_path) as broker:
        hold = broker.hold("a")
        assert await answered(partial(hold.renew, 0))
        subject = f"$KV.{BUCKET}.{stream_name(broker.name)}.holds.a"
        await delete_key(broker.client, subject)
        assert await broker.held() == []
        assert not await answered(partial(hold.renew, 0))
        assert await answered(partial(hold.renew, 0))
        assert await broker.held() == [Hold("a", 1)]


async def test_a_trim_never_passes_a_hold_until_it_is_revoked(servers: NatsCluster, tmp_path: Path) -> None:
    async with trimmed_broker(servers, tmp_path) as broker:
        await broker.commits()
        held = broker.standby.replica.read_through
        hold = broker.hold("a.b")
        assert await renewed(hold, held)  # there is no snapshot, so nothing can be trimmed yet
        await broker.standby.read_all()
        held = broker.standby.store.last_number
        assert await renewed(hold, held)
        snapshots = []
        for _ in range(3):
            await broker.commits()
            snapshots.append(await broker.snapshot())
            assert await broker.trim() in (1, held)
        assert await broker.trim() == held
        assert broker.revoked == []
        assert await broker.trim(log_bytes_max=1) == snapshots[1].position
        assert broker.revoked == [Hold("a.b", held)]
        assert not await renewed(hold, held + 1)  # it finds out,
        assert await renewed(hold, held + 1)  # and holds from the newest snapshot on
        assert await broker.held() == [Hold("a.b", snapshots[2].position)]
        await answered(hold.release)
        assert await broker.held() == []


async def test_a_hold_of_an_earlier_process_counts_until_the_next_one_places_its_own(
    servers: NatsCluster, tmp_path: Path
) -> None:
    async with trimmed_broker(servers, tmp_path) as broker:
        await broker.commits()
        earlier = broker.hold("a")
        assert await renewed(earlier, 0)
        newest = [await broker.snapshot()]
        await broker.commits()
        newest.append(await broker.snapshot())
        assert await broker.trim() == 1
        later = broker.hold("a")
        assert await renewed(later, 0)
        assert await broker.trim() == newest[0].position
        assert await broker.held() == [Hold("a", newest[1].position)]
        assert not await renewed(earlier, 0)  # two processes of one name


async def test_a_purge_that_comes_late_deletes_nothing_else(servers: NatsCluster, tmp_path: Path) -> None:
    async with trimmed_broker(servers, tmp_path) as broker:
        await broker.commits()
        positions = []
        for _ in range(3):
            await broker.commits()
            positions.append((await broker.snapshot()).position)
        assert await broker.trim() == positions[1]
        await answered(partial(broker.stream.trim, positions[0]))  # of an owner that has been replaced
        assert (await answered(broker.stream.bounds)).first == positions[1]
        await broker.commits()
        await broker.standby.read_all()
        assert content_of(broker.standby.store) == content_of(broker.owner.store)


async def test_a_snapshot_that_was_damaged_is_never_used_for_a_trim(servers: NatsCluster, tmp_path: Path) -> None:
    async with trimmed_broker(servers, tmp_path) as broker:
        await broker.commits()
        first = await broker.snapshot()
        await broker.commits()
        calls = 0

        def run(coroutine: Coroutine[Any, Any, _Result]) -> _Result:
            nonlocal calls
            calls += 1
            result = broker.run(coroutine)
            if calls == 1:  # it is stored, and not read back yet
                broker.run(damage(broker, unverified()))
            return result

        def unverified() -> str:
            (name,) = [each.name for each in broker.run(broker.snapshots.all()) if not each.is_verified]
            return name

        with pytest.raises(DamagedRecord, match="checksum does not match"):
            await broker.snapshot(run)
        damaged = [each for each in await broker.found() if not each.is_verified]
        assert len(damaged) == 1
        assert await broker.trim() == 1
        await broker.commits()
        await broker.snapshot()
        assert await broker.trim() == first.position
        with pytest.raises(DamagedRecord):
            await broker.install("new", damaged[0])
        assert not (broker.folder_of("new") / DATA_FILE).exists()
        await broker.commits()
        await broker.snapshot()
        await broker.trim()
        assert [each for each in await broker.found() if not each.is_verified] == []  # the damaged one is gone


async def test_an_object_is_stored_once_and_the_tools_of_nats_can_read_it(servers: NatsCluster) -> None:
    client = await connected(servers.urls, WITHIN_S)
    bucket = f"objects{next(NAMES)}"
    objects = Objects(client, bucket)
    await answered(partial(objects.create, 3))
    assert await answered(partial(objects.differences, 3)) == {}
    chunks = [bytes([number]) * CHUNK_BYTES for number in range(3)] + [b"end"]
    stored = await answered(partial(objects.put, "one.object", chunks, {"note": "text"}))
    assert [each async for each in objects.read(stored)] == chunks
    assert await answered(partial(objects.describe, "one.object")) == stored
    assert await answered(objects.names) == {"one.object"}
    by_client = await (await client.jetstream(timeout=WITHIN_S).object_store(bucket)).get("one.object")
    assert by_client.data == b"".join(chunks)
    with pytest.raises(ObjectChanged):
        await answered(partial(objects.put, "one.object", [b"other"], {}))
    await answered(partial(objects.remove, "one.object"))
    assert await answered(objects.names) == set()
    with pytest.raises(ObjectChanged):  # what was removed does not come back by a late mark
        await answered(partial(objects.relabel, stored, {"verified": "yes"}))
    with pytest.raises(DamagedRecord, match="0 chunks of 4"):
        _ = [each async for each in objects.read(stored)]
    await client.close()


async def test_a_snapshot_is_made_and_installed_while_a_server_is_away(servers: NatsCluster, tmp_path: Path) -> None:
    async with trimmed_broker(servers, tmp_path) as broker:
        await broker.commits()
        killed = servers.servers[1]

        def run(coroutine: Coroutine[Any, Any, _Result]) -> _Result:
            killed.kill()
            return broker.run(coroutine)

        try:
            made = await answered(partial(broker.snapshot, run))
            await answered(partial(broker.install, "new", made))
        finally:
            killed.start()
        new = await broker.following("new")
        await new.read_all()
        assert content_of(new.store) == content_of(broker.standby.store)
