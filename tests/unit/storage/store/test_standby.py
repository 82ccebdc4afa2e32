"""A standby's store and its owner's: at the same place of the log, a recovery finds the same in both."""

import asyncio
import random
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.storage.errors import DamagedRecord
from sluicegate.storage.interface import CommitJob, Reservation, Table, TableWrite
from sluicegate.storage.log.record import LogRecord, RowWrite
from sluicegate.storage.records.journal import JournalEntry, Match, Settlement, encode_journal_record
from sluicegate.storage.replication.messages import Begin
from sluicegate.storage.replication.replica import LogMissing, Role
from sluicegate.storage.store.applier import Applier
from sluicegate.storage.store.standby import OtherLog
from support.cores.messages import batch_of
from support.cores.replicated_log import ServedStream
from support.storage.replicas import Following, Owner, content_of, opened

ACTIONS = ("commit", "commit", "commit", "owner checkpoint", "read", "standby checkpoint", "restart", "mark")


async def rows_in(owner: Owner, count: int, size: int = 10) -> None:
    for number in range(count):
        row = TableWrite(Table.RETAINED, b"%d" % number, bytes(size))
        await owner.commit(CommitJob(number=owner.log.replica.next_number(), table_writes=[row]))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 1 << 20)), min_size=15, max_size=40))
def test_a_recovery_of_either_store_finds_the_same(actions: list[tuple[str, int]]) -> None:
    async def run(folder: Path) -> None:
        stream = ServedStream()
        owner = Owner(folder / "owner", stream)
        await owner.begin()
        standby = Following(folder / "standby", stream, "standby")
        await standby.standby.resume(stream)
        for action, seed in actions:
            if action == "commit":
                await owner.commit_random(random.Random(seed))
            elif action == "owner checkpoint":
                owner.checkpoint_random(random.Random(seed))
            elif action == "read":
                await standby.log.read()
            elif action == "standby checkpoint":
                await standby.read_all()
                standby.standby.checkpoint()
            elif action == "mark":
                await owner.log.append(b"")
            else:
                await standby.read_all()
                standby.store.close()
                standby = Following(folder / "standby", stream, "standby")
                await standby.standby.resume(stream)
        await standby.read_all()
        found, expected = content_of(standby.store), content_of(owner.store)
        assert found == expected
        standby.standby.checkpoint()
        assert content_of(standby.store) == expected
        standby.store.close()
        again = opened(folder / "standby")
        assert content_of(again) == expected
        again.close()
        owner.store.close()

    with TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))


def test_a_standby_takes_over_and_its_store_has_all_records(tmp_path: Path) -> None:
    async def run() -> None:
        stream = ServedStream()
        owner = Owner(tmp_path / "owner", stream)
        await owner.begin()
        standby = Following(tmp_path / "standby", stream, "standby")
        for seed in range(20):
            await owner.commit_random(random.Random(seed))
        await standby.log.take_over(2)
        assert standby.replica.role is Role.OWNER
        assert content_of(standby.store) == content_of(owner.store)
        number = await standby.log.append(b"")
        assert number > standby.store.last_number
        standby.store.commit(CommitJob(number=number))
        assert content_of(standby.store).next_record_number == number + 1
        owner.store.close()
        standby.store.close()

    asyncio.run(run())


def test_checkpoints_of_its_own_keep_log_and_memory_short(tmp_path: Path) -> None:
    async def run() -> None:
        stream = ServedStream()
        owner = Owner(tmp_path / "owner", stream)
        await owner.begin()
        standby = Following(tmp_path / "standby", stream, "standby")
        await rows_in(owner, 30, size=200_000)
        await standby.read_all()
        assert standby.store.usage().log_bytes < 3 << 20 < owner.store.usage().log_bytes
        assert standby.store.recover().applied > 0
        owner.store.close()
        standby.store.close()

    asyncio.run(run())


def test_the_log_is_needed_from_the_oldest_message_that_is_not_settled(tmp_path: Path) -> None:
    async def run() -> None:
        stream = ServedStream()
        owner = Owner(tmp_path / "owner", stream)
        await owner.begin()
        standby = Following(tmp_path / "standby", stream, "standby")
        numbers: list[int] = []
        for first in (1, 2, 3):
            record = encode_journal_record([JournalEntry(batch_of([b"x"]), [Match(1, first, None)])], [])
            job = CommitJob(number=owner.log.replica.next_number(), record=record)
            if first == 1:
                job.reservations.append(Reservation(1, 1, 100))
            numbers.append(job.number)
            await owner.commit(job)
        await standby.read_all()
        standby.standby.checkpoint()
        assert [number for number, _ in standby.store.recover().journal] == numbers
        job = CommitJob(
            number=owner.log.replica.next_number(),
            record=encode_journal_record([], [Settlement(1, 1, 2), Settlement(1, 3, 4)]),
        )
        await owner.commit(job)
        await standby.read_all()
        standby.standby.checkpoint()
        assert [number for number, _ in standby.store.recover().journal] == [*numbers[1:], job.number]
        owner.store.close()
        standby.store.close()

    asyncio.run(run())


def test_a_stream_of_another_spool_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        stream = ServedStream(Begin(incarnation=8, broker="other"))
        standby = Following(tmp_path, stream, "standby")
        with pytest.raises(OtherLog, match="another spool, of a broker 'other'"):
            await standby.standby.resume(stream)
        standby.store.close()

    asyncio.run(run())


def test_a_stream_with_another_record_in_place_of_the_last_one_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        streams = ServedStream(), ServedStream()
        for number, stream in enumerate(streams):
            owner = Owner(tmp_path / f"owner {number}", stream)
            await owner.begin()
            await rows_in(owner, 3, size=10 + number)
            owner.store.close()
        before = Following(tmp_path / "standby", streams[0], "standby")
        await before.read_all()
        before.store.close()
        standby = Following(tmp_path / "standby", streams[1], "standby")
        with pytest.raises(OtherLog, match=r"record 5 of this store is another one"):
            await standby.standby.resume(streams[1])
        standby.store.close()

    asyncio.run(run())


def test_a_stream_that_ends_before_the_last_record_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        stream = ServedStream()
        owner = Owner(tmp_path / "owner", stream)
        await owner.begin()
        await rows_in(owner, 3)
        before = Following(tmp_path / "standby", stream, "standby")
        await before.read_all()
        before.store.close()
        del stream.model.messages[-1:]
        standby = Following(tmp_path / "standby", stream, "standby")
        with pytest.raises(LogMissing, match="ends with message 4, and this store has record 5"):
            await standby.standby.resume(stream)
        owner.store.close()
        standby.store.close()

    asyncio.run(run())


@pytest.mark.parametrize("later", ["nothing", "an owner", "a record"])
def test_a_stream_that_has_lost_the_end_of_the_last_record_is_refused(tmp_path: Path, later: str) -> None:
    async def run() -> None:
        stream = ServedStream()
        owner = Owner(tmp_path / "owner", stream)
        await owner.begin()
        await rows_in(owner, 1, size=1 << 20)  # in three messages
        before = Following(tmp_path / "standby", stream, "standby")
        await before.read_all()
        before.store.close()
        del stream.model.messages[-1:]
        if later != "nothing":
            other = Following(tmp_path / "other", stream, "other")
            await other.log.take_over(2)
            if later == "a record":
                await other.log.append(b"")
            other.store.close()
        standby = Following(tmp_path / "standby", stream, "standby")
        with pytest.raises((LogMissing, OtherLog), match=r"lacks message 5, of record 3|no record 3"):
            await standby.standby.resume(stream)
        owner.store.close()
        standby.store.close()

    asyncio.run(run())


def test_a_stream_that_has_an_owner_in_place_of_the_last_record_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        stream = ServedStream()
        owner = Owner(tmp_path / "owner", stream)
        await owner.begin()
        await rows_in(owner, 1)
        before = Following(tmp_path / "standby", stream, "standby")
        await before.read_all()
        before.store.close()
        del stream.model.messages[-1:]
        other = Following(tmp_path / "other", stream, "other")
        await other.log.take_over(2)
        standby = Following(tmp_path / "standby", stream, "standby")
        with pytest.raises(OtherLog, match="no record 3"):
            await standby.standby.resume(stream)
        for each in (owner, other, standby):
            each.store.close()

    asyncio.run(run())


def test_checkpoints_are_rarer_when_they_write_more_beside_their_content(tmp_path: Path) -> None:
    store = opened(tmp_path)
    applier = Applier(store.recover(), 1 << 40)
    row = RowWrite(Table.RETAINED, b"key", bytes(64 << 10))

    def records_until_due() -> int:
        count = 0
        while not applier.is_due():
            count += 1
            applier.taken(count, LogRecord(rows=[row]), 64 << 10)
        return count

    few = records_until_due()
    applier.begin()
    applier.end(4 << 20)
    many = records_until_due()
    assert many > few
    applier.begin()
    applier.end(None)
    assert applier.is_due(), "what failed is due as before"
    store.close()


def test_a_copy_with_a_damaged_record_is_not_followed_on(tmp_path: Path) -> None:
    async def run() -> None:
        stream = ServedStream()
        owner = Owner(tmp_path / "owner", stream)
        await owner.begin()
        await rows_in(owner, 3, size=100)
        before = Following(tmp_path / "standby", stream, "standby")
        await before.read_all()
        before.store.close()
        (segment,) = (tmp_path / "standby" / "log").glob("0*.log")
        data = bytearray(segment.read_bytes())
        data[data.index(bytes(100)) + 50 - 0] ^= 1
        segment.write_bytes(data)
        with pytest.raises(DamagedRecord, match="begin anew"):
            Following(tmp_path / "standby", stream, "standby")
        owner.store.close()

    asyncio.run(run())


def test_the_lag_is_what_was_not_read(tmp_path: Path) -> None:
    async def run() -> None:
        stream = ServedStream()
        owner = Owner(tmp_path / "owner", stream)
        await owner.begin()
        standby = Following(tmp_path / "standby", stream, "standby")
        await rows_in(owner, 4)
        lag = await standby.standby.lag(stream)
        assert (lag.position, lag.messages) == (0, 6)  # with those of the beginning and of the owner
        assert lag.byte_count == (await stream.bounds()).byte_count
        await standby.read_all()
        assert await standby.standby.lag(stream) == (6, 0, 0)
        owner.store.close()
        standby.store.close()

    asyncio.run(run())
