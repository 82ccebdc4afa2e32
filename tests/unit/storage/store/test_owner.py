"""Commits of an owner: in the stream first, in its store then, and once in each whatever fails between."""

import asyncio
import contextlib
import random
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path

import pytest

from sluicegate.actors.spool.store_threads import CommitFailed, run_commit
from sluicegate.storage.errors import CommitInDoubt, DamagedRecord, StoreDamaged, StoreFull
from sluicegate.storage.interface import CheckpointJob, CommitJob, Recovery, Reservation, Table, TableWrite
from sluicegate.storage.records.cursor import CursorRecord
from sluicegate.storage.replication.log import ReplicatedLog
from sluicegate.storage.replication.messages import encode_clean
from sluicegate.storage.replication.replica import Append, OwnershipLost, Record, Replica, Role
from sluicegate.storage.replication.stream import Bounds, StoredMessage, StreamFull, StreamRefused, StreamUnavailable
from sluicegate.storage.store.owner import LoopThread, OwnedLog
from sluicegate.storage.store.replicated import LogRoom, ReplicatedStore
from sluicegate.storage.store.store import SpoolStore
from support.cores.replicated_log import ServedStream
from support.storage.replicas import Following, content_of, opened


class Refusing:
    """A stream that answers the next appends with errors, after or instead of storing them."""

    def __init__(self) -> None:
        self.served = ServedStream()
        self.errors: list[Exception] = []
        self.stores = False
        self.appended_count = 0
        self.is_away = False
        self.is_asked = threading.Event()

    async def append(self, append: Append) -> int | None:
        if self.is_away:
            self.is_asked.set()
            raise StreamUnavailable("no answer")
        if self.errors:
            error = self.errors.pop(0)
            if self.stores:
                await self.served.append(append)
            raise error
        self.appended_count += 1
        return await self.served.append(append)

    async def at(self, sequence: int) -> bytes | None:
        if self.is_away:
            raise StreamUnavailable("no answer")
        return await self.served.at(sequence)

    async def bounds(self) -> Bounds:
        return await self.served.bounds()

    async def read(self, after: int, wait_s: float) -> list[StoredMessage]:
        return await self.served.read(after, wait_s)

    async def trim(self, before: int) -> None:
        await self.served.trim(before)


class Owning:
    """An owner with its store, and a stream that fails on demand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stream = Refusing()
        self.store: SpoolStore = opened(folder / "owner")
        self.replica = Replica("owner", "0")
        log = ReplicatedLog(self.replica, self.stream, wall_ms=lambda: 0, take=self._take, rng=random.Random(1))
        self.loop = LoopThread()
        self.loop.run(log.read())
        self.loop.run(log.take_over(1))
        self.owned = OwnedLog(self.store, log, self.loop)
        self.lost: list[str] = []

    def _take(self, records: Sequence[Record]) -> None:
        raise AssertionError("the stream was empty")

    def replicated(self, log_bytes: int = 1 << 30) -> ReplicatedStore:
        """Return the store as a node uses it."""
        return ReplicatedStore(self.store, self.owned, LogRoom(log_bytes, lambda: 0), lost=self.lost.append)

    def job(self, key: bytes, size: int = 10) -> CommitJob:
        return CommitJob(number=self.owned.next_number(), table_writes=[TableWrite(Table.RETAINED, key, bytes(size))])

    def records(self) -> list[int]:
        return [entry.number for entry in self.store.log_records(1)]

    def judge(self) -> None:
        """Compare the store with that of a standby that reads the stream."""
        standby = Following(self.folder / "judge", self.stream.served, "judge")
        self.loop.run(standby.read_all())
        assert content_of(standby.store) == content_of(self.store)
        standby.store.close()


@pytest.fixture
def owning(tmp_path: Path) -> Iterator[Owning]:
    owner = Owning(tmp_path)
    yield owner
    owner.loop.close()
    owner.store.close()


def test_records_have_the_numbers_of_their_first_messages(owning: Owning) -> None:
    assert owning.owned.next_number() == 3, "a stream begins with two messages of its own"
    assert owning.owned.commit(owning.job(b"small")) == 4
    assert owning.owned.commit(owning.job(b"large", 1 << 20)) == 7, "it took three messages"
    assert owning.owned.commit(owning.job(b"next")) == 8
    assert owning.records() == [3, 4, 7]
    owning.judge()


@pytest.mark.parametrize("stores", [False, True])
def test_a_record_whose_answer_was_lost_is_there_once(owning: Owning, *, stores: bool) -> None:
    owning.stream.errors, owning.stream.stores = [StreamUnavailable("no answer")], stores
    owning.owned.commit(owning.job(b"a"))
    owning.owned.commit(owning.job(b"b"))
    assert owning.records() == [3, 4]
    owning.judge()


def test_what_does_not_fit_into_the_stream_is_not_stored(owning: Owning) -> None:
    owning.stream.errors = [StreamFull("maximum bytes exceeded")]
    with pytest.raises(StoreFull, match="maximum bytes"):
        owning.owned.commit(owning.job(b"a"))
    assert owning.owned.commit(owning.job(b"b")) == 4, "its number is given to the next"
    assert content_of(owning.store).rows[Table.RETAINED].keys() == {b"b"}
    owning.judge()


def test_what_does_not_fit_into_the_store_does_not_reach_the_stream(owning: Owning) -> None:
    before = owning.stream.appended_count
    with pytest.raises(StoreFull):
        owning.owned.commit(owning.job(b"a", 16 << 20))
    assert owning.stream.appended_count == before


@pytest.mark.parametrize("stores", [False, True])
def test_a_refused_record_is_in_doubt_until_it_is_tried_again(owning: Owning, *, stores: bool) -> None:
    owning.stream.errors, owning.stream.stores = [StreamRefused("not now")], stores
    job = owning.job(b"a")
    with pytest.raises(CommitInDoubt, match="not now"):
        owning.owned.commit(job)
    with pytest.raises(ValueError, match="another one came"):
        owning.owned.commit(owning.job(b"b"))
    assert owning.owned.commit(job) == 4
    assert owning.records() == [3]
    owning.judge()


def test_a_record_that_the_store_does_not_take_is_appended_to_the_stream_once(
    owning: Owning, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    job = owning.job(b"a")
    with monkeypatch.context() as patch:
        patch.setattr(owning.store._log, "append_copies", fails)
        with pytest.raises(CommitInDoubt, match="stream has the record"):
            owning.owned.commit(job)
    count = owning.stream.appended_count
    assert owning.owned.commit(job) == 4
    assert owning.stream.appended_count == count
    owning.judge()


@pytest.mark.parametrize(
    "error",
    [StoreDamaged("the file was removed"), DamagedRecord("record 3", "torn"), MemoryError("no room")],
    ids=["damaged store", "damaged record", "memory"],
)
def test_whatever_fails_behind_the_stream_is_in_doubt(
    owning: Owning, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    job = owning.job(b"a")
    with monkeypatch.context() as patch:
        patch.setattr(owning.store._log, "append_copies", fails)
        outcome = run_commit(owning.replicated(), job)
    assert isinstance(outcome, CommitFailed)
    assert outcome.is_in_doubt
    assert len(owning.lost) == 1
    assert owning.owned.commit(job) == 4
    owning.judge()


@pytest.mark.parametrize("stores", [False, True])
def test_an_error_of_the_program_while_it_appends_is_in_doubt(owning: Owning, *, stores: bool) -> None:
    owning.stream.errors, owning.stream.stores = [KeyError("seq")], stores
    job = owning.job(b"a")
    with pytest.raises(CommitInDoubt, match="KeyError"):
        owning.owned.commit(job)
    assert owning.owned.commit(job) == 4
    owning.judge()


def test_room_in_the_log_is_compared_with_the_whole_record(owning: Owning) -> None:
    store = owning.replicated(log_bytes=1 << 20)
    with pytest.raises(StoreFull, match="messages may use 80 %"):
        store.commit(owning.job(b"rows count as well", 840_000))
    assert store.commit(owning.job(b"a")) == 4


def test_publishers_of_an_owner_that_was_replaced_are_told_nothing(owning: Owning, tmp_path: Path) -> None:
    other = Following(tmp_path / "other", owning.stream.served, "other")
    owning.loop.run(other.log.take_over(2))
    outcome = run_commit(owning.replicated(), owning.job(b"b"))
    assert isinstance(outcome, CommitFailed)
    assert outcome.is_in_doubt
    other.store.close()


def test_an_owner_that_was_replaced_stores_nothing(owning: Owning, tmp_path: Path) -> None:
    other = Following(tmp_path / "other", owning.stream.served, "other")
    owning.owned.commit(owning.job(b"a"))
    owning.loop.run(other.log.take_over(2))
    job = owning.job(b"b")
    for _ in range(2):
        with pytest.raises(OwnershipLost):
            owning.owned.commit(job)
    assert owning.replica.role is Role.STANDBY
    assert owning.records() == [3]
    other.store.close()


def test_a_commit_that_waits_for_servers_ends_in_doubt_with_its_replica(owning: Owning) -> None:
    owning.stream.is_away = True
    job = owning.job(b"a")
    with ThreadPoolExecutor(1) as pool:
        outcome = pool.submit(owning.owned.commit, job)
        assert owning.stream.is_asked.wait(10)
        owning.loop.close()
        with pytest.raises(CommitInDoubt, match="ends"):
            outcome.result()
    with pytest.raises(CommitInDoubt, match="ends"):
        owning.owned.commit(job)
    assert owning.records() == []


def test_a_task_that_swallows_its_cancellation_does_not_hold_up_the_end() -> None:
    begun = threading.Event()

    async def swallows() -> None:
        while True:
            begun.set()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.get_running_loop().create_future()

    thread = LoopThread(end_s=0.03)
    future = thread.begin(swallows())
    assert begun.wait(10)
    thread.close()
    with pytest.raises(CancelledError):
        future.result(10)


CURSOR = CursorRecord(1, 5, [(7, 8)], 10, [(5, 6, 2)])


def with_partition(owning: Owning, *, next_sequence: int = 1_000) -> None:
    reservations = [Reservation(CURSOR.partition_id, 1, next_sequence)]
    owning.owned.commit(CommitJob(number=owning.owned.next_number(), reservations=reservations))


def stop_in_order(owning: Owning) -> None:
    """Do as a node does."""
    store = owning.replicated()
    last = owning.owned.next_number() - 1
    store.checkpoint(CheckpointJob(applied=last, needed_from=last + 1, cursor_puts=[CURSOR]))
    store.mark_clean()


def recovered(owning: Owning, folder: Path, *, takeovers: int = 1) -> Recovery:
    """Return what the last of so many owners finds that follow."""
    epoch = owning.replica.epoch
    for number in range(1, takeovers + 1):
        following = Following(folder / f"successor {number}", owning.stream.served, "successor")
        owning.loop.run(following.read_all())
        owning.loop.run(following.log.take_over(epoch + number))
        owned = OwnedLog(following.store, following.log, owning.loop)
        store = ReplicatedStore(following.store, owned, LogRoom(1 << 30, lambda: 0), lost=owning.lost.append)
        found = store.recover()
        store.close()
    return found


def test_an_owner_that_stops_in_order_tells_the_next_one_what_was_delivered(owning: Owning, tmp_path: Path) -> None:
    with_partition(owning)
    stop_in_order(owning)
    found = recovered(owning, tmp_path)
    assert found.was_clean
    assert found.cursors == {CURSOR.partition_id: CURSOR}
    assert owning.replica.role is Role.STANDBY
    with pytest.raises(OwnershipLost):
        owning.owned.commit(owning.job(b"late"))


def test_an_owner_that_does_not_stop_in_order_leaves_nothing(owning: Owning, tmp_path: Path) -> None:
    with_partition(owning)
    assert not recovered(owning, tmp_path).was_clean


def test_a_clean_stop_counts_for_one_successor(owning: Owning, tmp_path: Path) -> None:
    """The first one may have delivered, though it wrote nothing."""
    with_partition(owning)
    stop_in_order(owning)
    found = recovered(owning, tmp_path, takeovers=2)
    assert not found.was_clean
    assert found.cursors[CURSOR.partition_id].redelivered == []


def test_a_large_clean_message_is_read_whole(owning: Owning, tmp_path: Path) -> None:
    with_partition(owning, next_sequence=10_000_000)
    large = CURSOR._replace(
        redelivered=[(each, each + 1, 3) for each in range(10, 600_000, 2)], settled=[], next_sequence=10_000_000
    )
    owning.owned.close(encode_clean([large]))
    assert recovered(owning, tmp_path).cursors == {CURSOR.partition_id: large}


def test_partitions_that_are_deleted_stay_so(owning: Owning, tmp_path: Path) -> None:
    with_partition(owning)
    owning.owned.commit(CommitJob(number=owning.owned.next_number(), partition_purges=[CURSOR.partition_id]))
    owning.owned.close(encode_clean([CURSOR]))
    found = recovered(owning, tmp_path)
    assert found.was_clean
    assert found.cursors == {}


def test_an_owner_with_a_commit_in_doubt_does_not_stop_in_order(owning: Owning, tmp_path: Path) -> None:
    with_partition(owning)
    owning.stream.errors, owning.stream.stores = [StreamRefused("for good")], True
    with pytest.raises(CommitInDoubt):
        owning.owned.commit(owning.job(b"a"))
    with pytest.raises(CommitInDoubt, match="log record 4 is in doubt"):
        owning.owned.close(encode_clean([CURSOR]))
    assert not recovered(owning, tmp_path).was_clean


def test_an_owner_without_servers_does_not_wait_for_them_for_ever(
    owning: Owning, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluicegate.storage.store.owner.CLOSED_S", 0.01)
    owning.stream.is_away = True
    with pytest.raises(CommitInDoubt, match="no majority"):
        owning.owned.close(encode_clean([CURSOR]))


def test_a_full_log_is_closed_without_what_was_delivered(owning: Owning, tmp_path: Path) -> None:
    with_partition(owning)
    owning.stream.errors = [StreamFull("maximum bytes exceeded")]
    with pytest.raises(StoreFull, match="maximum bytes"):
        owning.owned.close(encode_clean([CURSOR]))
    with pytest.raises(StoreFull, match="the log is full"):
        owning.replicated(log_bytes=0).mark_clean()
    assert not recovered(owning, tmp_path).was_clean
