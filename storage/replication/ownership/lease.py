"""When a replica takes the key of its broker, renews it, and stops by itself: no I/O, and no wall clock.

The key is a hint for who tries. Which records count is decided in the log (`storage.replication.replica`), where the
revision with which the key was taken is the epoch. The lease is for order and for single consumers: an owner shall have
stopped before another one serves.

1. An owner renews the key each second. It stops by itself when the last renewal or append that was stored was *sent*
   longer ago than the lease less a margin.
2. A standby counts the time since it *read* the last renewal, and takes the key when that reaches the lease. A renewal
   is read after it was sent, so with clocks of about the same rate the owner has stopped by then. The key says how long
   its owner's lease is; of two that differ the longer one counts.
3. It counts only while its reads of the bucket's leader succeed, and anew after a time without. An owner that could not
   renew because the bucket was away has the first try when the bucket is back: the key still has its name.
4. Each write names the revision that was seen. So of two that take the key one is refused.
5. Standbys have an order: each waits a turn longer than the one before it. Only one that has read the log to its end
   tries.
6. A handover is a write of the owner that has stopped: the named standby takes the key at once. If the owner knows of
   none, whichever replica comes takes it, after its turn without the lease. Releases that do not know of this wait for
   the lease.

All times are seconds of one replica's clock of `storage.replication.ownership.clock`, which goes on while the process
is paused, or the machine sleeps.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple, final

from sluicegate.storage.replication.ownership.keys import ANY, Holder, Key

ANSWER_S_MIN: Final = 0.01  # a time-out of zero would be none
LOOKS: Final = 10  # reads of a standby to which the key is about to be handed over
LOOK_S: Final = 0.02  # between two of them


class Times(NamedTuple):
    """Durations in seconds. Those of all replicas must be the same."""

    lease_s: float = 3.0
    renew_s: float = 1.0  # between two renewals
    margin_s: float = 0.5  # by which an owner stops before a standby may take the key
    turn_s: float = 1.0  # by which each standby waits longer than the one before it
    read_s: float = 0.5  # between two reads of a standby
    gap_s: float = 1.5  # between two reads that succeed; after a longer one the silence is counted anew
    answer_s: float = 0.75  # a request without an answer for so long has an unknown outcome; two fit into a lease
    again_s: float = 0.1  # before another try


BY_DEFAULT: Final = Times()


def times_of(lease_s: float) -> Times:
    """Return the durations for a lease: in the proportions of the defaults, the margin at least half a second.

    Raises ValueError for less than 2 s: nothing would be left for a request that has to be repeated.
    """
    if lease_s < 2.0:
        raise ValueError(f"a lease of {lease_s:g} s is too short: at least 2 s")
    scale = lease_s / BY_DEFAULT.lease_s
    scaled = Times(*(each * scale for each in BY_DEFAULT))
    return scaled._replace(margin_s=max(BY_DEFAULT.margin_s, scaled.margin_s), again_s=BY_DEFAULT.again_s)


class Role(Enum):
    """What a replica is by the key."""

    STANDBY = "standby"
    OWNER = "owner"  # it renews the key
    LEAVING = "handing over"  # it has stopped, and writes who is next


class Purpose(Enum):
    """Why the key is written."""

    TAKE = "take"
    RENEW = "renew"
    HAND_OVER = "hand over"


class Read(NamedTuple):
    """Read the key from the leader of the bucket."""


class Put(NamedTuple):
    """Write the key, if its revision is still the expected one."""

    purpose: Purpose
    expected: int
    holder: Holder


class Wait(NamedTuple):
    """Send nothing until then."""

    until_s: float


class Taken(NamedTuple):
    """The key is this replica's: it may try to take over the log."""

    epoch: int


class Stopped(NamedTuple):
    """The replica is the owner no more, from now on."""

    reason: str


@final
class Lease:
    """What one replica knows of the key. It has one request out at a time: what `next` returned, until its answer."""

    def __init__(self, name: str, instance: str, order: Sequence[str], times: Times = BY_DEFAULT) -> None:
        """`order`: the names of all replicas, those first that shall be the owner rather than others.

        Raises ValueError when the name is not among them, or one is there twice.
        """
        if name not in order or len(set(order)) < len(order):
            raise ValueError(f"replica {name!r} must be in the order of replicas, and each once: {', '.join(order)}")
        self.role = Role.STANDBY
        self.epoch = 0  # of the last time that it was the owner
        self.times: Final = times
        self._me = Holder(name, instance, lease_s=times.lease_s)
        self._order = tuple(order)
        self._silence_max_s = self._turn_of(self._order)
        self._key: Key | None = None  # as it was read or written last; None: it must be read
        self._revision_read = -1  # last
        self._read_s: float | None = None  # when a read last succeeded
        self._silent_since_s = 0.0  # when this revision was read first
        self._stored_s = 0.0  # when the last renewal or append that was stored was sent
        self._next_s = float("-inf")  # before that nothing is sent
        self._soon_count = 0  # reads that follow each other sooner
        self._out: Put | None = None
        self._sent_s = 0.0
        self._successor = ""

    def __repr__(self) -> str:
        return f"Lease({self._me.name!r}, {self.role.value}, epoch {self.epoch}, {self._key})"

    def reorder(self, order: Sequence[str]) -> None:
        """Take the names of all replicas anew. One that is not among them takes no key, but keeps one that it has."""
        self._order = tuple(order)
        self._silence_max_s = self._turn_of(self._order)

    def _turn_of(self, order: tuple[str, ...]) -> float:
        """Return after how long a silence the key is this replica's to take."""
        if self._me.name not in order:
            return float("inf")
        return self.times.lease_s + self.times.turn_s * order.index(self._me.name)

    # --- the owner ---

    def serves(self, now_s: float) -> bool:
        """Return whether the replica may act as the owner: to be asked at the begin of each turn."""
        return self.role is Role.OWNER and now_s < self.stops_s()

    def stops_s(self) -> float:
        """Return when the owner stops by itself if nothing more is stored."""
        return self._stored_s + self.times.lease_s - self.times.margin_s

    def appended(self, sent_s: float) -> None:
        """Take that an append to the log was stored which was sent at that time."""
        self._stored_s = max(self._stored_s, sent_s)

    def hand_over(self, successor: str, now_s: float) -> Stopped:
        """Stop, and let another replica take the key at once. The owner's last record must be stored before.

        Raises ValueError when this replica is not the owner, or the other is none of its standbys.
        """
        if not self.serves(now_s):
            raise ValueError(f"replica {self._me.name!r} is not the owner, so it has nothing to hand over")
        if successor not in self._order or successor == self._me.name:
            others = ", ".join(name for name in self._order if name != self._me.name)
            raise ValueError(f"{successor!r} is no standby of replica {self._me.name!r}: {others}")
        return self._leave(successor, now_s, f"handed over to {successor}")

    def release(self, now_s: float) -> Stopped:
        """Stop, and let whichever replica comes take the key at once. The owner's last record must be stored before.

        Raises ValueError when this replica is not the owner.
        """
        if not self.serves(now_s):
            raise ValueError(f"replica {self._me.name!r} is not the owner, so it has nothing to release")
        return self._leave(ANY, now_s, "released its key")

    def _leave(self, successor: str, now_s: float, reason: str) -> Stopped:
        self.role = Role.LEAVING
        self._successor = successor
        self._next_s = now_s
        return Stopped(reason)

    def give_up(self, reason: str) -> Stopped | None:
        """Stop because the log says so: another replica appends to it, or this one cannot take it over.

        The key may still have the name of this replica, which then takes it again as soon as it is caught up.
        """
        return self._stop(reason) if self.role is Role.OWNER else None

    def tick(self, now_s: float) -> Stopped | None:
        """Take the time. A process that was paused does this before anything else."""
        if self.role is not Role.OWNER or now_s < self.stops_s():
            return None
        silent_s = now_s - self._stored_s
        return self._stop(f"no renewal of its key and no append was stored for {silent_s:.1f} s")

    def look(self) -> None:
        """Read the key at once, and a few times more: the owner writes that it hands over to this replica.

        Who hears of that may do so before it is stored.
        """
        if self.role is Role.STANDBY:
            self._next_s = float("-inf")
            self._soon_count = LOOKS

    # --- what to send ---

    def answer_within_s(self, now_s: float) -> float:
        """Return how long to wait for the answer of a request that is sent now: an owner has to stop in time."""
        if self.role is not Role.OWNER:
            return self.times.answer_s
        return min(self.times.answer_s, max(self.stops_s() - now_s, ANSWER_S_MIN))

    def next(self, now_s: float, *, is_caught_up: bool) -> Read | Put | Wait:
        """Return what to send now, or how long nothing is to be sent. `is_caught_up`: the log was read to its end."""
        assert self._out is None, "one request at a time"
        if now_s < self._next_s:
            return Wait(self._next_s)
        if self._key is None:
            return Read()
        match self.role:
            case Role.OWNER:
                return self._put(Purpose.RENEW, self._me, now_s)
            case Role.LEAVING:
                return self._put(Purpose.HAND_OVER, self._me._replace(successor=self._successor), now_s)
            case Role.STANDBY:
                if is_caught_up and self._may_take(self._key, now_s):
                    return self._put(Purpose.TAKE, self._me, now_s)
                self._key = None  # read it again after a while, and then decide
                soon, self._soon_count = self._soon_count > 0, max(0, self._soon_count - 1)
                self._next_s = now_s + (LOOK_S if soon else self.times.read_s)
                return Wait(self._next_s)

    def _may_take(self, key: Key, now_s: float) -> bool:
        """Return whether a standby takes a key that it has just read."""
        silent_s, holder = now_s - self._silent_since_s, key.holder
        if holder is None:
            return silent_s >= self._silence_max_s
        if self._is_me(holder) or holder.successor == self._me.name:
            return True
        if holder.successor == ANY and holder[:2] != self._me[:2]:  # not this process, which was told to leave
            return silent_s >= self._silence_max_s - self.times.lease_s
        longer_s = max(0.0, holder.lease_s - self.times.lease_s)  # that the owner may serve than this replica would
        return silent_s >= self._silence_max_s + longer_s

    def _is_me(self, holder: Holder) -> bool:
        """Return whether this process wrote a key to keep it."""
        return holder._replace(lease_s=self._me.lease_s) == self._me

    def _put(self, purpose: Purpose, holder: Holder, now_s: float) -> Put:
        assert self._key is not None
        self._out = Put(purpose, self._key.revision, holder)
        self._sent_s = now_s
        return self._out

    # --- answers ---

    def read(self, key: Key, now_s: float) -> Stopped | None:
        """Take the key as the leader has it."""
        if key.revision != self._revision_read or self._read_s is None or now_s - self._read_s > self.times.gap_s:
            self._silent_since_s = now_s
        self._key, self._revision_read, self._read_s = key, key.revision, now_s
        if self.role is Role.STANDBY:
            return None
        if key.holder is not None and self._is_me(key.holder):  # an own write whose answer was lost
            return self.tick(now_s)
        if self.role is Role.LEAVING:
            self.role = Role.STANDBY
            return None
        return self._stop("its key is gone" if key.holder is None else f"{key.holder.name} has its key")

    def read_failed(self, now_s: float) -> Stopped | None:
        """Take that the leader of the bucket did not answer, or refused to."""
        self._key = None
        self._next_s = now_s + self.times.again_s
        return self.tick(now_s)

    def stored(self, revision: int, now_s: float) -> Taken | Stopped | None:
        """Take the answer that the key was written."""
        put, self._out = self._out, None
        assert put is not None
        self._key = Key(revision, put.holder)
        match put.purpose:
            case Purpose.TAKE:
                self._stored_s = self._sent_s
                if now_s < self.stops_s():
                    self.role, self.epoch = Role.OWNER, revision
                    self._next_s = self._sent_s + self.times.renew_s
                    return Taken(revision)
            case Purpose.RENEW if self.role is Role.OWNER:
                self._stored_s = max(self._stored_s, self._sent_s)
                self._next_s = self._sent_s + self.times.renew_s
            case Purpose.HAND_OVER:
                self.role, self._key = Role.STANDBY, None
        return self.tick(now_s)

    def unconfirmed(self, now_s: float) -> Stopped | None:
        """Take that no answer came, or that the key has another revision, which an own write before may have given it.

        So neither says that it was not written: the next read does.
        """
        self._out = None
        self._key = None
        self._next_s = now_s + self.times.again_s
        return self.tick(now_s)

    def _stop(self, reason: str) -> Stopped:
        self.role = Role.STANDBY
        self._key = None
        self._read_s = None
        self._next_s = float("-inf")
        return Stopped(reason)
