"""The log of the active site, as the standby site receives it: the same messages at the same places of its own stream.

A message is appended as it is. Its place is that which it has in the active site's stream, and each append names the
sequence before it. So of two replicas that receive, by mistake, both append the same, and what comes late is refused:
of a site that was promoted meanwhile, another message has the place. Nothing rests on that check, for a message that
does not fit the one before it is void for every reader.

Messages, settlements, changes of queues and numbers of partitions are in one log. So the standby site has what the
active one was at some moment, and nothing that never was.
"""

import asyncio
from collections import deque
from enum import Enum
from typing import Final, NamedTuple, final

from sluicegate.storage.replication.replica import Append, LogMissing
from sluicegate.storage.replication.stream import Bounds, StoredMessage, Stream

IN_FLIGHT_BYTES: Final = 4 << 20
IN_FLIGHT: Final = 64  # appends whose answers are awaited together
SAMPLES_MAX: Final = 4096  # of the end of the active site's log, before the older half is thinned out


UNSEEN_S: Final = 5.0  # the active site's end is looked at more often, while that site answers


class Joint(Enum):
    """How the log of a standby site goes on."""

    FOLLOWS = "follows"  # its last message is the active site's
    TRIMMED = "trimmed"  # the active site has trimmed its log past it
    DIVERGED = "diverged"  # it has messages that the active site does not have


class Joined(NamedTuple):
    """Where the logs of two sites are one."""

    joint: Joint
    common: int  # the last message that both have
    last: int  # of the standby site


async def join(source: Stream, own: Stream, *, base: int, is_later: bool) -> Joined:
    """Compare the log of a standby site with that of the active one.

    A message names the one before it by its hash. So where both have the same message, all before it are the same.
    `base`: what the active site says that it had received when it was promoted, 0 when it says nothing. `is_later`: it
    was promoted since this site has followed. Raises LogMissing when the active site's log lacks what this one has
    without that: nothing may heal this by itself. Raises what the streams raise.
    """
    theirs, ours = await source.bounds(), await own.bounds()
    low, high = max(theirs.first, ours.first), min(theirs.last, ours.last)
    if ours.last == 0 or ours.last < ours.first:
        joint = Joint.FOLLOWS if theirs.first <= ours.last + 1 else Joint.TRIMMED
        return Joined(joint, ours.last, ours.last)
    if low > high:
        if is_later and base and ours.last > base:
            return Joined(Joint.DIVERGED, base, ours.last)
        if ours.last < theirs.first:
            return Joined(Joint.TRIMMED, ours.last, ours.last)
        common = ours.first - 1
    else:
        common = await _last_common(source, own, low, high)
    if common == ours.last:
        return Joined(Joint.FOLLOWS, common, ours.last)
    if not is_later:
        raise LogMissing(
            f"the active site's log ends with message {theirs.last} and has {common} in common with the log here, "
            f"which goes on to {ours.last}: one of them lost what it had confirmed"
        )
    if common < low and base:
        common = min(base, ours.last)
    return Joined(Joint.DIVERGED, common, ours.last)


async def _last_common(source: Stream, own: Stream, low: int, high: int) -> int:
    """Return the last place of `[low, high]` at which both have the same message, `low` - 1 when there is none."""
    before, after = low - 1, high + 1
    at = high  # nearly always it is that one
    while after - before > 1:
        theirs, ours = await source.at(at), await own.at(at)
        if theirs is not None and theirs == ours:
            before = at
        else:
            after = at
        at = (before + after) // 2
    return before


@final
class Receiver:
    """Appends what the active site's log has to that of the standby site. For one task."""

    def __init__(self, source: Stream, own: Stream, position: int) -> None:
        """`position`: of the last message that both have; see `join`."""
        self._source: Final = source
        self._own: Final = own
        self.position = position
        self.received_bytes = 0
        self.received_count = 0

    async def receive(self, wait_s: float) -> bool:
        """Append what comes next, or wait so long for something; return whether the log goes on where it did.

        False: it has to be joined again, because something else has the next place here. Raises LogMissing when the
        source was trimmed past the position, and what the streams raise: then join again, too.
        """
        messages = await self._source.read(self.position, wait_s)
        if messages and messages[0].sequence != self.position + 1:
            raise LogMissing(f"the active site's log goes on with {messages[0].sequence} behind {self.position}")
        for part in _parts(messages):
            appends = [Append(each.sequence - 1, each.data) for each in part]
            answers = await asyncio.gather(*[self._own.append(each) for each in appends], return_exceptions=True)
            for message, answer in zip(part, answers, strict=True):
                if isinstance(answer, BaseException):
                    raise answer
                if answer != message.sequence:
                    return False
                self.position = message.sequence
                self.received_bytes += len(message.data)
                self.received_count += 1
        return True


def _parts(messages: list[StoredMessage]) -> list[list[StoredMessage]]:
    """Return messages in parts that may be out together."""
    parts: list[list[StoredMessage]] = []
    size = 0
    for each in messages:
        if not parts or len(parts[-1]) >= IN_FLIGHT or size + len(each.data) > IN_FLIGHT_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(each)
        size += len(each.data)
    return parts


class SiteLag(NamedTuple):
    """What the standby site does not have, as far as is known: a promotion that accepts a loss would lose it."""

    messages: int
    byte_count: int  # of these, about
    age_s: float  # since the oldest of them was stored at the active site


@final
class LagMeter:
    """How far the standby site is behind, by the ends of both logs and one monotonic clock."""

    def __init__(self) -> None:
        self._ends: Final[deque[tuple[int, float]]] = deque()  # of the active site's log, and when it was seen first
        self._active = Bounds(1, 0, 0)
        self._active_s = 0.0  # when that was seen last
        self._standby_last = 0
        self._is_known = False

    def active(self, bounds: Bounds, now_s: float) -> None:
        """Take what the active site's log has."""
        self._active, self._active_s = bounds, now_s
        if not self._ends or bounds.last > self._ends[-1][0]:
            if len(self._ends) >= SAMPLES_MAX:
                kept = list(self._ends)[::2]
                self._ends.clear()
                self._ends.extend(kept)
            self._ends.append((bounds.last, now_s))

    def standby(self, last: int) -> None:
        """Take the last message that the standby site has."""
        self._standby_last = last
        self._is_known = True
        while self._ends and self._ends[0][0] <= last:
            self._ends.popleft()

    def lag(self, now_s: float) -> SiteLag | None:
        """Return the lag, None while the end of either is not known."""
        if not self._is_known or self._active.last == 0:
            return None
        messages = max(0, self._active.last - self._standby_last)
        stored = self._active.last + 1 - self._active.first
        size = self._active.byte_count * messages // stored if stored > 0 else 0
        age_s = now_s - self._ends[0][1] if self._ends and messages else 0.0
        unseen_s = now_s - self._active_s  # what was stored meanwhile is not known
        return SiteLag(messages, size, max(age_s, unseen_s) if unseen_s > UNSEEN_S else age_s)
