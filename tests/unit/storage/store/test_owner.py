"""Commits of an owner: in the stream first, in its store then, and once in each whatever fails between."""

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sluicegate.storage.errors import CommitInDoubt, StoreFull
from sluicegate.storage.interface import CommitJob, Table, TableWrite
from sluicegate.storage.replication.log import ReplicatedLog
from sluicegate.storage.replication.replica import Append, OwnershipLost, Record, Replica, Role
from sluicegate.storage.replication.stream import Bounds, StoredMessage, StreamFull, StreamRefused, StreamUnavailable
from sluicegate.storage.store.owner import LoopThread, OwnedLog
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

    def _take(self, record: Record) -> None:
        raise AssertionError("the stream was empty")

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
        patch.setattr(owning.store._log, "append", fails)
        with pytest.raises(CommitInDoubt, match="stream has the record"):
            owning.owned.commit(job)
    count = owning.stream.appended_count
    assert owning.owned.commit(job) == 4
    assert owning.stream.appended_count == count
    owning.judge()


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
