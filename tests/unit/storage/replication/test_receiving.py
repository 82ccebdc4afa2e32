"""The log of the active site at the standby one: always a beginning of it, whatever fails in between."""

import asyncio
import random

import pytest

from sluicegate.storage.replication.messages import Begin
from sluicegate.storage.replication.replica import Append, LogMissing, Replica, first_message
from sluicegate.storage.replication.sites.receiving import Joint, LagMeter, Receiver, SiteLag, join
from sluicegate.storage.replication.stream import Bounds, StoredMessage, StreamUnavailable
from support.cores.replicated_log import ModelStream

SEEDS = range(30)
MESSAGES = 60


class SiteStream:
    """The stream of one site, trimmed or not. `faults`: of appends that do not answer."""

    def __init__(self, messages: list[bytes], *, first: int = 1, faults: float = 0.0, seed: int = 0) -> None:
        self.first = first
        self.messages = messages
        self._faults = faults
        self._rng = random.Random(seed)

    async def append(self, append: Append) -> int | None:
        """Store it if it is the next one; the answer may be lost."""
        is_lost = self._rng.random() < self._faults
        if is_lost and self._rng.random() < 0.5:
            raise StreamUnavailable("it never came")
        if append.expected != self.first - 1 + len(self.messages):
            return None
        self.messages.append(append.data)
        if is_lost:
            raise StreamUnavailable("the answer was lost")
        return append.expected + 1

    async def at(self, sequence: int) -> bytes | None:
        """Return the message at a sequence."""
        place = sequence - self.first
        return self.messages[place] if 0 <= place < len(self.messages) else None

    async def bounds(self) -> Bounds:
        """Return what there is."""
        last = self.first - 1 + len(self.messages)
        return Bounds(self.first, last, sum(len(each) for each in self.messages))

    async def read(self, after: int, wait_s: float) -> list[StoredMessage]:
        """Return up to seven messages."""
        start = max(after + 1, self.first)
        found = self.messages[start - self.first : start - self.first + 7]
        return [StoredMessage(start + place, data) for place, data in enumerate(found)]

    async def trim(self, before: int) -> None:
        """Delete the messages before a sequence."""
        self.messages = self.messages[before - self.first :]
        self.first = before


def written_log(count: int, *, time_ms: int = 0) -> list[bytes]:
    """Return a log that one owner has written; another time makes another log of it, behind the first message."""
    stream = ModelStream(checks=True)
    stream.messages[0] = first_message(Begin(7, "edge"), 0)
    owner = Replica("a", "0")
    owner.read(1, stream.messages[0])
    owner.take_key(1)
    epoch = owner.append_epoch(1, time_ms)
    assert epoch is not None
    stream.append(epoch)
    owner.read(2, epoch.data)
    while len(stream.messages) < count:
        for append in owner.propose(b"record %d" % len(stream.messages), time_ms):
            owner.confirm(append, append.expected + 1)
            stream.append(append)
    return stream.messages


async def receive_all(source: SiteStream, own: SiteStream) -> None:
    """Receive as a replica does, which joins again after whatever has failed."""
    while (await own.bounds()).last < (await source.bounds()).last:
        joined = await join(source, own, base=0, is_later=False)
        assert joined.joint is Joint.FOLLOWS
        receiver = Receiver(source, own, joined.common)
        try:
            while receiver.position < (await source.bounds()).last and await receiver.receive(0):
                pass
        except StreamUnavailable:
            pass
        assert own.messages == source.messages[own.first - source.first :][: len(own.messages)]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_standby_site_has_a_beginning_of_the_log_at_every_moment(seed: int) -> None:
    source = SiteStream(written_log(MESSAGES))
    own = SiteStream([], faults=0.3, seed=seed)
    asyncio.run(receive_all(source, own))
    assert own.messages == source.messages


def test_a_standby_site_begins_behind_a_snapshot() -> None:
    source = SiteStream(written_log(MESSAGES))
    asyncio.run(source.trim(20))
    own = SiteStream([], first=30)
    asyncio.run(receive_all(source, own))
    assert own.messages == source.messages[10:]


def test_a_message_of_a_promoted_site_is_not_overwritten() -> None:
    log = written_log(MESSAGES)
    source, own = SiteStream(list(log)), SiteStream(log[:30])
    receiver = Receiver(source, own, 30)
    own.messages.append(b"the first message of an owner here")
    assert not asyncio.run(receiver.receive(0))
    assert own.messages[30] == b"the first message of an owner here"


@pytest.mark.parametrize("common", [1, 2, 17, 30])
def test_where_two_logs_part_is_found(common: int) -> None:
    log, other = written_log(40), written_log(60, time_ms=1)
    theirs = SiteStream([*log[:common], *other[common:]])
    found = asyncio.run(join(theirs, SiteStream(log), base=0, is_later=True))
    assert found == (Joint.DIVERGED, common, 40)


def test_where_they_part_is_known_when_that_was_trimmed() -> None:
    theirs = SiteStream(written_log(60, time_ms=1))
    asyncio.run(theirs.trim(50))
    found = asyncio.run(join(theirs, SiteStream(written_log(40)), base=25, is_later=True))
    assert found == (Joint.DIVERGED, 25, 40)


def test_a_site_that_the_log_was_trimmed_past_begins_anew_and_has_nothing_of_its_own() -> None:
    log = written_log(60)
    theirs = SiteStream(list(log))
    asyncio.run(theirs.trim(50))
    found = asyncio.run(join(theirs, SiteStream(log[:40]), base=45, is_later=True))
    assert found == (Joint.TRIMMED, 40, 40)


def test_a_log_that_lacks_what_the_standby_has_heals_nothing() -> None:
    log = written_log(60)
    with pytest.raises(LogMissing, match="ends with message 40 and has 40 in common with the log here"):
        asyncio.run(join(SiteStream(log[:40]), SiteStream(list(log)), base=0, is_later=False))


def test_a_site_that_was_promoted_without_the_rest_has_the_beginning() -> None:
    log = written_log(60)
    found = asyncio.run(join(SiteStream(log[:40]), SiteStream(list(log)), base=0, is_later=True))
    assert found == (Joint.DIVERGED, 40, 60)


def test_the_lag_is_what_the_standby_lacks_and_how_old_the_oldest_of_it_is() -> None:
    meter = LagMeter()
    assert meter.lag(0) is None
    meter.active(Bounds(1, 100, 10_000), 1.0)
    meter.standby(100)
    assert meter.lag(2.0) == SiteLag(0, 0, 0.0)
    meter.active(Bounds(1, 150, 15_000), 2.0)
    meter.active(Bounds(1, 200, 20_000), 3.0)
    meter.standby(150)
    assert meter.lag(4.0) == SiteLag(50, 5_000, 1.0)
    meter.standby(200)
    assert meter.lag(4.0) == SiteLag(0, 0, 0.0)


def test_a_lag_that_nobody_can_look_at_grows() -> None:
    meter = LagMeter()
    meter.active(Bounds(1, 100, 10_000), 1.0)
    meter.standby(100)
    assert meter.lag(61.0) == SiteLag(0, 0, 60.0)
