"""Appending over a stream that answers late, twice or never: each record once, in order, or a refusal that is true."""

import asyncio
import contextlib
import random
from collections.abc import Sequence

import pytest

from sluicegate.storage.replication.levels import LevelTooHigh
from sluicegate.storage.replication.log import ReplicatedLog
from sluicegate.storage.replication.messages import Kind
from sluicegate.storage.replication.replica import (
    REVISIONS,
    Append,
    OwnershipLost,
    Record,
    Replica,
    Role,
    first_message,
)
from sluicegate.storage.replication.stream import (
    Bounds,
    StoredMessage,
    Stream,
    StreamFull,
    StreamRefused,
    StreamUnavailable,
)
from support.cores.replicated_log import BEGIN, ModelStream, ServedStream

SEEDS = range(40)
RECORDS = 25


class FaultyStream:
    """A stream whose requests and answers may be lost, and come late."""

    def __init__(self, seed: int, *, faults: float = 0.5) -> None:
        self.model = ModelStream(checks=True)
        self.rng = random.Random(seed)
        self.faults = faults
        self.is_full = False
        self.room = 1 << 40  # bytes
        self.refusals: list[Exception] = []  # of the next appends
        self._late: list[Append] = []

    async def append(self, append: Append) -> int | None:
        self._deliver_late()
        if self.refusals:
            raise self.refusals.pop(0)
        if self.rng.random() < self.faults:
            fate = self.rng.randrange(3)
            if fate == 0:
                self._late.append(append)
            elif fate == 1:
                self._store(append)
            raise StreamUnavailable("no answer")
        return self._store(append)

    def _store(self, append: Append) -> int | None:
        if self.is_full or len(append.data) > self.room:
            raise StreamFull("it is full")
        sequence = self.model.append(append)
        self.room -= 0 if sequence is None else len(append.data)
        return sequence

    def _deliver_late(self) -> None:
        while self._late and self.rng.random() < 0.5:
            late = self._late.pop(self.rng.randrange(len(self._late)))
            with contextlib.suppress(StreamFull):
                self._store(late)

    async def at(self, sequence: int) -> bytes | None:
        self._deliver_late()
        if self.rng.random() < self.faults:
            raise StreamUnavailable("no answer")
        return self.model.at(sequence)

    async def bounds(self) -> Bounds:
        return Bounds(1, len(self.model.messages), 0)

    async def read(self, after: int, wait_s: float) -> list[StoredMessage]:
        self._deliver_late()
        messages = self.model.messages[after : after + 3]
        return [StoredMessage(after + 1 + place, data) for place, data in enumerate(messages)]

    async def trim(self, before: int) -> None:
        raise NotImplementedError


def log_over(stream: Stream, name: str = "a", reads: int = 2) -> tuple[ReplicatedLog, list[Record]]:
    """Return a replica's end of the log, and the list of what it reads."""
    read: list[Record] = []
    log = ReplicatedLog(Replica(name, "0", reads), stream, wall_ms=lambda: 0, take=read.extend, rng=random.Random(1))
    return log, read


async def everything(stream: FaultyStream) -> list[Record]:
    """Return what a standby reads."""
    log, read = log_over(stream, "standby")
    while await log.read():
        pass
    return read


@pytest.fixture(autouse=True)
def waits_take_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    sleep = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda _: sleep(0))


def test_records_that_come_together_are_taken_together_and_before_what_another_owner_changes() -> None:
    async def run() -> None:
        stream = ServedStream()
        for name, epoch in (("a", 1), ("b", 2)):
            owner = log_over(stream, name)[0]
            await owner.take_over(epoch)
            for number in range(3):
                await owner.append(b"%s %d" % (name.encode(), number))
        taken: list[tuple[int, list[bytes]]] = []
        reader = Replica("standby", "0")

        def take(records: Sequence[Record]) -> None:
            taken.append((reader.owner_epoch, [each.data for each in records]))

        log = ReplicatedLog(reader, stream, wall_ms=lambda: 0, take=take, rng=random.Random(1))
        assert [await log.read() for _ in range(3)] == [3, 3, 3], "a read has messages of both owners"
        assert taken == [(1, [b"a 0"]), (1, [b"a 1", b"a 2"]), (2, [b"b 0", b"b 1", b"b 2"])]

    asyncio.run(run())


def test_records_before_a_message_that_cannot_be_read_are_taken() -> None:
    async def run() -> None:
        stream = ServedStream()
        owner, _ = log_over(stream, "a")
        await owner.take_over(1)
        for _ in range(2):
            await owner.append(b"before")
        await owner.raise_level(2)
        await owner.append(b"behind")
        log, read = log_over(stream, "standby", reads=1)
        assert await log.read() == 3
        with pytest.raises(LevelTooHigh):
            await log.read()
        assert [each.data for each in read] == [b"before", b"before"]

    asyncio.run(run())


@pytest.mark.parametrize("seed", SEEDS)
def test_each_record_is_in_the_log_once_and_in_order(seed: int) -> None:
    async def run() -> None:
        stream = FaultyStream(seed)
        log, read = log_over(stream)
        await log.take_over(1)
        sizes = random.Random(seed)
        appended = []
        for number in range(RECORDS):
            data = b"%d " % number * sizes.choice([1, 1, 1, 1_000_000])
            appended.append(Record(await log.append(data), data))
        assert read == []
        assert await everything(stream) == appended
        other, read = log_over(stream, "b")
        await other.take_over(2)
        assert read == appended

    asyncio.run(run())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fenced_owner_confirms_nothing_more(seed: int) -> None:
    async def run() -> None:
        stream = FaultyStream(seed)
        old, _ = log_over(stream)
        new, read = log_over(stream, "b")
        await old.take_over(1)
        number = await old.append(b"first")
        await new.take_over(2)
        with pytest.raises(OwnershipLost, match="another replica has written message"):
            await old.append(b"lost")
        assert old.replica.role is Role.STANDBY
        later = await new.append(b"second")
        assert read == [Record(number, b"first")]
        assert await everything(stream) == [Record(number, b"first"), Record(later, b"second")]

    asyncio.run(run())


def test_a_key_of_a_bucket_that_was_made_anew_gives_a_later_epoch() -> None:
    async def run() -> None:
        stream = FaultyStream(1, faults=0)
        old, _ = log_over(stream)
        new, _ = log_over(stream, "b")
        await old.take_over(17)
        with pytest.raises(OwnershipLost):
            await new.take_over(3)  # it had not read that the log has a later epoch
        for revision in (17, 18, 3):
            await new.take_over(revision)
            epoch = new.replica.owner_epoch
            assert epoch % REVISIONS == revision
            new.replica.step_down()
        assert epoch == 2 * REVISIONS + 3
        with pytest.raises(OwnershipLost):
            await old.append(b"lost")

    asyncio.run(run())


def test_the_same_epoch_of_two_buckets_makes_one_owner() -> None:
    async def run() -> None:
        stream = FaultyStream(1, faults=0)
        first, _ = log_over(stream)
        second, _ = log_over(stream, "b")
        await first.read()
        second.replica.take_key(5)
        await first.take_over(5)
        while await second.read():
            pass
        assert second.replica.role is Role.STANDBY

    asyncio.run(run())


def test_a_full_stream_refuses_a_record_that_no_copy_can_bring_later() -> None:
    async def run() -> None:
        stream = FaultyStream(1, faults=0)
        log, _ = log_over(stream)
        await log.take_over(1)
        stream.is_full = True
        for data in (b"small", b"large" * 300_000):
            with pytest.raises(StreamFull):
                await log.append(data)
        stream.is_full = False
        number = await log.append(b"later")
        assert await everything(stream) == [Record(number, b"later")]

    asyncio.run(run())


@pytest.mark.parametrize("room", [100, 700_000, 1_100_000])
def test_a_large_record_for_whose_rest_there_is_no_room_leaves_the_log_to_smaller_ones(room: int) -> None:
    async def run() -> None:
        stream = FaultyStream(1, faults=0)
        log, _ = log_over(stream)
        await log.take_over(1)
        first = await log.append(b"first")
        number = log.replica.next_number()
        stream.room = room
        for _ in range(3):
            with pytest.raises(StreamFull):
                await log.append(b"large" * 300_000)
        assert await log.append(b"small") == number
        assert await everything(stream) == [Record(first, b"first"), Record(number, b"small")]
        other, read = log_over(stream, "b")
        other.replica.resume(number)
        await other.take_over(2)
        assert read == [Record(number, b"small")]

    asyncio.run(run())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_record_of_unknown_outcome_is_stored_or_truly_refused_when_the_stream_is_full(seed: int) -> None:
    async def run() -> None:
        stream = FaultyStream(seed)
        log, _ = log_over(stream)
        await log.take_over(1)
        sizes = random.Random(seed)
        stored: list[Record] = []
        for number in range(RECORDS):
            data = b"%d " % number * sizes.choice([1, 200, 200, 300_000])
            stream.room = sizes.choice([250, 600_000, 1 << 40])
            with contextlib.suppress(StreamFull):
                stored.append(Record(await log.append(data), data))
        assert await everything(stream) == stored

    asyncio.run(run())


def test_a_record_of_unknown_outcome_waits_while_not_even_a_refusal_has_room() -> None:
    async def run() -> None:
        stream = FaultyStream(1, faults=0)
        log, _ = log_over(stream)
        await log.take_over(1)
        stream.refusals, stream.is_full = [StreamUnavailable("no answer")], True
        appending = asyncio.create_task(log.append(b"lost"))
        for _ in range(50):
            await asyncio.sleep(0)
        assert not appending.done()
        stream.is_full = False
        with pytest.raises(StreamFull):
            await appending
        assert await everything(stream) == []

    asyncio.run(run())


def test_a_record_that_is_being_given_up_when_an_append_is_refused_is_given_up_by_the_next_try() -> None:
    """What gives it up is stored, and its answer an error: none of the record may be sent after that."""

    class RefusesAfterwards(FaultyStream):
        has_refused = False

        async def append(self, append: Append) -> int | None:
            sequence = await super().append(append)
            if append.data[1] == Kind.CANCEL and not self.has_refused:
                self.has_refused = True
                raise StreamRefused("no rights")
            return sequence

    async def run() -> None:
        stream = RefusesAfterwards(1, faults=0)
        log, _ = log_over(stream)
        await log.take_over(1)
        stream.refusals = [StreamUnavailable("no answer"), StreamFull("it is full")]
        with pytest.raises(StreamRefused, match="no rights"):
            await log.append(b"given up")
        with pytest.raises(StreamFull):
            await log.append_again()
        number = await log.append(b"later")
        assert await everything(stream) == [Record(number, b"later")]

    asyncio.run(run())


def test_a_replica_that_takes_over_waits_for_room() -> None:
    async def run() -> None:
        stream = FaultyStream(1, faults=0)
        log, _ = log_over(stream)
        stream.is_full = True
        taking = asyncio.create_task(log.take_over(1))
        for _ in range(50):
            await asyncio.sleep(0)
        assert not taking.done()
        stream.is_full = False
        await taking
        assert log.replica.role is Role.OWNER

    asyncio.run(run())


def test_a_replica_whose_first_message_is_refused_is_a_standby_again() -> None:
    async def run() -> None:
        stream = FaultyStream(1, faults=0)
        log, _ = log_over(stream)
        stream.refusals = [StreamRefused("no rights")]
        with pytest.raises(StreamRefused):
            await log.take_over(1)
        assert log.replica.role is Role.STANDBY
        await log.take_over(2)
        assert await log.append(b"as its owner")

    asyncio.run(run())


def test_a_later_owner_ends_the_attempt_of_an_earlier_one() -> None:
    async def run() -> None:
        stream = FaultyStream(1, faults=0)
        stream.model.messages[:] = [first_message(BEGIN, 0)]
        late, _ = log_over(stream, "late")
        quick, _ = log_over(stream, "quick")
        await quick.take_over(2)
        with pytest.raises(OwnershipLost, match="a later owner than that of epoch 1"):
            await late.take_over(1)

    asyncio.run(run())


class Levelled:
    """An owner that may raise the level of its log, and a reader of that log."""

    def __init__(self, seed: int, *, faults: float = 0.5) -> None:
        self.stream = FaultyStream(seed, faults=faults)
        self.log, _ = log_over(self.stream)

    def read(self, reads: int) -> tuple[Replica, list[Record]]:
        replica = Replica("reader", "0", reads=reads)
        found = [replica.read(number, data) for number, data in enumerate(self.stream.model.messages, start=1)]
        return replica, [each for each in found if each is not None]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_level_is_raised_between_two_records(seed: int) -> None:
    """Whatever is lost or late, and though it is asked for while records are on their way."""
    levelled = Levelled(seed)

    async def run() -> list[tuple[int, bytes]]:
        await levelled.log.take_over(1)
        written: list[tuple[int, bytes]] = []
        raising: asyncio.Task[bool] | None = None
        for number in range(RECORDS):
            if number == RECORDS // 2:
                raising = asyncio.create_task(levelled.log.raise_level(2))
            data = b"%d" % number
            expected = levelled.log.replica.next_number()
            assert await levelled.log.append(data) == expected, "the number of a record is known before"
            written.append((expected, data))
        assert raising is not None
        assert await raising
        return written

    written = asyncio.run(run())
    reader, records = levelled.read(2)
    assert [(each.number, each.data) for each in records] == written
    assert (reader.level, levelled.log.replica.level) == (2, 2)
    with pytest.raises(LevelTooHigh, match="the log has feature level 2 from message"):
        levelled.read(1)


def test_a_level_for_which_there_is_no_room_is_raised_later() -> None:
    levelled = Levelled(1, faults=0)

    async def run() -> None:
        await levelled.log.take_over(1)
        levelled.stream.is_full = True
        with pytest.raises(StreamFull):
            await levelled.log.raise_level(2)
        levelled.stream.is_full = False
        await levelled.log.append(b"one")
        assert levelled.log.replica.level == 1
        assert await levelled.log.raise_level(2)
        await levelled.log.append(b"two")

    asyncio.run(run())
    assert [each.data for each in levelled.read(2)[1]] == [b"one", b"two"]


def test_the_next_record_finds_out_whether_the_level_was_raised() -> None:
    levelled = Levelled(1, faults=0)

    async def run() -> None:
        await levelled.log.take_over(1)
        levelled.stream.refusals = [StreamRefused("for a reason that lasts")]
        with pytest.raises(StreamRefused):
            await levelled.log.raise_level(2)
        levelled.stream.refusals = [StreamRefused("for a reason that lasts")]
        with pytest.raises(StreamRefused):
            await levelled.log.append(b"one")
        await levelled.log.append_again()
        assert levelled.log.replica.level == 2

    asyncio.run(run())
    assert [each.data for each in levelled.read(2)[1]] == [b"one"]


def test_an_owner_that_is_followed_raises_no_level() -> None:
    levelled = Levelled(1, faults=0)

    async def run() -> None:
        await levelled.log.take_over(1)
        later, _ = log_over(levelled.stream, "b")
        await later.take_over(2)
        with pytest.raises(OwnershipLost):
            await levelled.log.raise_level(2)
        with pytest.raises(OwnershipLost):
            await levelled.log.append(b"one")

    asyncio.run(run())
    assert levelled.read(1)[0].level == 1
