"""The state of a named publisher, so that no message it sends again is stored twice.

Flow: publishing. Sequences ascend, and a publisher that reconnects sends again what was not answered. The state says
which sequences are stored: a floor below which all are decided, and ranges above it. Each batch comes with a row of
this state, written by the same commit as the batch; the row of the next batch reuses the slot of a batch that is
below the floor by then. There are about as many rows as batches between two answers, and none is ever deleted.

A refused sequence is not stored, and the publisher has to learn of it even if the connection breaks first. It has
learned once it sends a sequence that the PUB_ACK with the refusal permits; until then the floor stays below, and a
publisher that reconnects sends it again.

Behind it are the messages between connections and the directory of named publishers, with the errors they raise.

See also: `directory` (which actor has the publisher); `datapath.publishing` (its window and its answers).
"""

import struct
from dataclasses import dataclass
from typing import Any, Final, final

import orjson

from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.message.ranges import RangeSet

ROW_PREFIX: Final = b"flow-publisher/"
EPOCH_PLACE: Final = 0xFFFF_FFFF  # of the row with the publisher's epoch
COPY_PLACE: Final = 0xFFFF_FFFE  # of a row that says that there may be two, at two brokers of a machine
IS_COPY: Final = b"\0"  # in it: this is the copy; else the name of the broker that may have one is in it

_PLACE: Final = struct.Struct(">I")
_ROW: Final = struct.Struct(">QQQ")  # floor, first, last
# Floor, epoch; behind them the user, in UTF-8, the lineage of one that has moved, one byte for whether it has, and the
# window.
_EPOCH: Final = struct.Struct(">QI")
_LINEAGE: Final = struct.Struct(">Q")
_AT_HOME: Final = b"\0"
_MOVED: Final = b"\1"
_WINDOW: Final = struct.Struct(">I")


@final
class NamedPublisher:
    """One publisher by its name.

    Invariants: everything in `stored` and `refused` lies above `floor`; a place in `_places` is given out again only
    when the last sequence of its row is at or below the floor.
    """

    def __init__(self, name: str, row_prefix: bytes = b"") -> None:
        self.name = name
        self.user = ""  # owner: no other user may open it; empty: any user may
        self.epoch = 0
        self.floor = 0  # up to here every sequence is decided, and the publisher knows
        self.stored = RangeSet()  # above the floor
        self.owner: Address | None = None  # the connection that has it open
        self.idle_since_ms = 0  # wall clock, while it is not open
        # The gateway was not stopped in order while it had this publisher, which has not been past that time since.
        self.was_cut_off = False
        self.window = 0  # sequences that it may have sent ahead of answers, before it was cut off too; 0: not known
        # It has moved from another spool: by XOR, that one's incarnation from the one of the spool that has it. So its
        # client finds the incarnation that it knows, and notices all the same when this spool is replaced by a backup.
        self.lineage = 0
        # It has come from another broker of this machine, and was not opened here yet: that one may still be its home.
        self.is_copy = False
        self.copy_at = ""  # the broker that may have a copy of it, as this one is to move there
        self.undecided: list[tuple[Publication, int, int]] = []  # of the last connection: what, first and last sequence
        self._refused = RangeSet()
        self._places: list[int] = []  # place -> the last sequence of its row
        self._stem = row_prefix + ROW_PREFIX + name.encode("utf-8") + b"/"

    def note_stored(self, first: int, last: int) -> None:
        """Note that the store has these."""
        if last > self.floor:
            self.stored.add(max(first, self.floor + 1), last + 1)

    def note_refused(self, first: int, last: int) -> None:
        """Note refused sequences; the publisher may not have received the refusal."""
        if last > self.floor:
            self._refused.add(max(first, self.floor + 1), last + 1)

    def advance(self, answered_through: int, acknowledged_through: int) -> None:
        """Raise the floor: sequences up to the first are answered, and the publisher has answers up to the second."""
        self._refused.remove(0, acknowledged_through + 1)
        refused = self._refused.ranges()
        floor = min(answered_through, refused[0][0] - 1) if refused else answered_through
        if floor > self.floor:
            self.floor = floor
            self.stored.remove(0, floor + 1)

    def settle_undecided(self) -> None:
        """Recheck the publications that the last connection left pending."""
        left: list[tuple[Publication, int, int]] = []
        for publication, first, last in self.undecided:
            if publication.confirmed:
                self.note_stored(first, last)
            elif not publication.refused:
                left.append((publication, first, last))
        self.undecided = left

    def begin_again(self, window: int) -> None:
        """Open it for another connection: refusals that the publisher may not have received are repeated."""
        self.window = max(window, self.window) if self.was_cut_off else window
        self._refused = RangeSet()
        self.epoch += 1
        stored = self.stored.ranges()
        if stored and stored[0][0] == self.floor + 1:
            self._raise_floor(stored[0][1] - 1)

    def highest(self) -> int:
        """Return the highest sequence that is stored, or was decided."""
        return self.stored.end() - 1 if self.stored.total > 0 else self.floor

    def row_of(self, first: int, last: int) -> tuple[bytes, bytes]:
        """Return the row that goes with a batch of these sequences."""
        place = self._free_place()
        self._places[place] = last
        return self._stem + _PLACE.pack(place), _ROW.pack(self.floor, first, last)

    def epoch_row(self) -> tuple[bytes, bytes]:
        """Return the row that is written when the publisher is opened."""
        mark = _LINEAGE.pack(self.lineage) + _MOVED if self.lineage else _AT_HOME
        row = _EPOCH.pack(self.floor, self.epoch) + self.user.encode() + mark + _WINDOW.pack(self.window)
        return self._stem + _PLACE.pack(EPOCH_PLACE), row

    def opened_rows(self) -> list[tuple[bytes, bytes | None]]:
        """Return the rows that are written when the publisher is opened: where that is, it is no copy any more."""
        return [self.epoch_row(), *([(self._copy_key(), None)] if self.is_copy else [])]

    def copy_row(self, broker: str) -> tuple[bytes, bytes]:
        """Return the row that says that a broker may have a copy of it."""
        return self._copy_key(), broker.encode()

    def _copy_key(self) -> bytes:
        return self._stem + _PLACE.pack(COPY_PLACE)

    def rows_to_delete(self) -> list[tuple[bytes, bytes | None]]:
        """Return the deletion of all its rows."""
        places = [*range(len(self._places)), EPOCH_PLACE, *([COPY_PLACE] if self.is_copy or self.copy_at else [])]
        return [(self._stem + _PLACE.pack(place), None) for place in places]

    def restore(self, place: int, value: bytes) -> None:
        """Take a row that the store has, at the start of the gateway.

        Raises struct.error and ValueError for a malformed row.
        """
        if place == EPOCH_PLACE:
            floor, self.epoch = _EPOCH.unpack_from(value)
            user = value[_EPOCH.size :]
            window_at = len(user) - _WINDOW.size
            mark = user[window_at - 1 : window_at]
            if mark in (_AT_HOME, _MOVED):  # earlier releases wrote none, and no window, and some no user either
                (self.window,) = _WINDOW.unpack_from(user, window_at)
                user = user[: window_at - 1]
            if mark == _MOVED:
                lineage_at = len(user) - _LINEAGE.size
                (self.lineage,) = _LINEAGE.unpack_from(user, lineage_at)
                user = user[:lineage_at]
            self.user = user.decode()
            self._raise_floor(floor)
            return
        if place == COPY_PLACE:
            self.is_copy = value == IS_COPY
            self.copy_at = "" if self.is_copy else value.decode()
            return
        floor, first, last = _ROW.unpack(value)
        if place >= len(self._places):
            self._places += [0] * (place + 1 - len(self._places))
        self._places[place] = last
        self.note_stored(first, last)
        self._raise_floor(floor)

    def record(self, incarnation: int) -> str:
        """Return its state for another broker, which it moves to; everything is decided, and it is not open.

        `incarnation` is that of the spool that has it.
        """
        state = {
            "user": self.user,
            "epoch": self.epoch,
            "floor": self.floor,
            "stored": self.stored.ranges(),
            "window": self.window,
            "was_cut_off": self.was_cut_off,
            "incarnation": incarnation ^ self.lineage,
        }
        return orjson.dumps(state).decode()

    def take_over(self, record: str, incarnation: int) -> None:
        """Begin with the state of another broker; this one has no row yet. Raises ValueError for a malformed record."""
        state = orjson.loads(record)
        if not isinstance(state, dict):
            raise ValueError("the record of a publisher is no object")
        user, was_cut_off = state.get("user"), state.get("was_cut_off")
        if not isinstance(user, str) or not isinstance(was_cut_off, bool):
            raise ValueError("the record of a publisher lacks its user")
        self.user, self.was_cut_off = user, was_cut_off
        self.epoch, self.floor = _number(state, "epoch"), _number(state, "floor")
        self.window = _number(state, "window")
        self.is_copy = True
        self.lineage = _number(state, "incarnation") ^ incarnation
        ranges = state.get("stored")
        if not isinstance(ranges, list):
            raise ValueError("the record of a publisher lacks what is stored")
        for first, end in ranges:
            if not self.floor < int(first) < int(end):
                raise ValueError(f"the record of a publisher has the range {first} to {end} above {self.floor}")
            self.stored.add(int(first), int(end))

    def replaces(self, other: "NamedPublisher") -> None:
        """Have the rows of another state of this publisher replaced by `rows`."""
        self._places = [0] * len(other._places)

    def rows(self) -> list[tuple[bytes, bytes | None]]:
        """Return all rows of its state, in place of those that it has."""
        rows = dict(self.rows_to_delete())
        self._places = []
        for first, end in self.stored.ranges():
            key, row = self.row_of(first, end - 1)
            rows[key] = row
        key, row = self.epoch_row()
        rows[key] = row
        if self.is_copy:
            rows[self._copy_key()] = IS_COPY
        return list(rows.items())

    def _raise_floor(self, floor: int) -> None:
        if floor > self.floor:
            self.floor = floor
            self.stored.remove(0, floor + 1)

    def _free_place(self) -> int:
        for place, last in enumerate(self._places):
            if last <= self.floor:
                return place
        self._places.append(0)
        return len(self._places) - 1

    def check(self) -> None:
        """Assert the invariants."""
        for ranges in (self.stored, self._refused):
            ranges.check()
            assert ranges.count_within(0, self.floor + 1) == 0, "nothing at or below the floor is kept"

    def __repr__(self) -> str:
        return f"NamedPublisher({self.name!r}, epoch {self.epoch}, floor {self.floor}, {self.stored!r})"


def _number(state: dict[str, Any], name: str) -> int:
    value = state.get(name)
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"the record of a publisher lacks the number {name!r}")
    return value


def place_of_row(key: bytes) -> tuple[str, int]:
    """Return the publisher and the place that a key of the store names. Raises ValueError."""
    if not key.startswith(ROW_PREFIX) or len(key) < len(ROW_PREFIX) + 5:
        raise ValueError(f"{key[:40]!r} is not a row of a publisher")
    return key[len(ROW_PREFIX) : -5].decode("utf-8"), int.from_bytes(key[-4:], "big")


@dataclass(slots=True)
class ClaimPublisher:
    """Connection -> directory: open a publisher. Answered with it once its new epoch is stored and all is decided.

    Raises TooManyPublishers, PublisherOfAnother, PublisherMoves, and PublisherNotStored when the epoch could not be
    written.
    """

    name: str
    connection: ActorCell
    user: str  # empty: anonymous
    window: int  # sequences that it may send ahead of answers


@dataclass(slots=True)
class ReleasePublisher:
    """Connection -> directory: its flow has ended. Of another epoch than the present one it changes nothing."""

    publisher: NamedPublisher
    epoch: int


@dataclass(slots=True)
class FencePublisher:
    """Directory -> connection, ask: the publisher is opened elsewhere. Answered with None when the flow has ended."""

    publisher: NamedPublisher
    moves: bool  # to another broker of this machine: its client may open it there in a moment


@dataclass(slots=True)
class RestorePublishers:
    """Front -> directory, an ask: the rows that the store has. Answered with the number of publishers."""

    rows: dict[bytes, bytes]
    was_clean: bool  # the gateway was stopped in order
    stale: frozenset[str] = frozenset()  # publishers whose homes are at other brokers of the machine: these are copies


class TooManyPublishers(Exception):
    """The gateway remembers as many publishers as it may."""


class PublisherOfAnother(Exception):
    """The publisher is another user's."""


class PublisherMoves(Exception):
    """The publisher is about to be at another broker of this machine, or is there."""


class PublisherNotStored(Exception):
    """The store could not take the publisher's new epoch."""
