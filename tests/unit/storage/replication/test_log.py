"""Appending over a stream that answers late, twice or never: each record once, in order, or a refusal that is true."""

import asyncio
import random

import pytest

from sluicegate.storage.replication.log import ReplicatedLog
from sluicegate.storage.replication.replica import (
    Append,
    EpochTooLow,
    OwnershipLost,
    Record,
    Replica,
    Role,
    first_message,
)
from sluicegate.storage.replication.stream import Bounds, StoredMessage, StreamFull, StreamUnavailable
from support.cores.replicated_log import BEGIN, ModelStream

SEEDS = range(40)
RECORDS = 25


class FaultyStream:
    """A stream whose requests and answers may be lost, and come late."""

    def __init__(self, seed: int, *, faults: float = 0.5) -> None:
        self.model = ModelStream(checks=True)
        self.rng = random.Random(seed)
        self.faults = faults
        self.is_full = False
        self._late: list[Append] = []

    async def append(self, append: Append) -> int | None:
        self._deliver_late()
        if self.rng.random() < self.faults:
            fate = self.rng.randrange(3)
            if fate == 0:
                self._late.append(append)
            elif fate == 1:
                self._store(append)
            raise StreamUnavailable("no answer")
        return self._store(append)

    def _store(self, append: Append) -> int | None:
        if self.is_full:
            raise StreamFull("it is full")
        return self.model.append(append)

    def _deliver_late(self) -> None:
        while self._late and self.rng.random() < 0.5:
            late = self._late.pop(self.rng.randrange(len(self._late)))
            if not self.is_full:
                self.model.append(late)

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


def log_over(stream: FaultyStream, name: str = "a") -> tuple[ReplicatedLog, list[Record]]:
    """Return a replica's end of the log, and the list of what it reads."""
    read: list[Record] = []
    log = ReplicatedLog(Replica(name, "0"), stream, wall_ms=lambda: 0, take=read.append, rng=random.Random(1))
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


def test_a_key_of_a_bucket_that_was_made_anew_gives_no_ownership() -> None:
    async def run() -> None:
        stream = FaultyStream(1, faults=0)
        old, _ = log_over(stream)
        new, _ = log_over(stream, "b")
        await old.take_over(17)
        await new.read()
        for revision in (3, 17):
            with pytest.raises(EpochTooLow, match=f"an owner of epoch 17, and the key was taken with .* {revision}:"):
                await new.take_over(revision)
        assert new.replica.role is Role.STANDBY
        await new.take_over(18)

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


def test_a_record_whose_outcome_is_unknown_is_not_refused_when_the_stream_is_full() -> None:
    async def run() -> None:
        stream = FaultyStream(1, faults=0)
        log, _ = log_over(stream)
        await log.take_over(1)
        stream.faults, stream.is_full = 1, True
        appending = asyncio.create_task(log.append(b"kept"))
        for _ in range(20):
            await asyncio.sleep(0)
        stream.faults = 0
        for _ in range(20):
            await asyncio.sleep(0)
        assert not appending.done()
        stream.is_full = False
        number = await appending
        assert await everything(stream) == [Record(number, b"kept")]

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
