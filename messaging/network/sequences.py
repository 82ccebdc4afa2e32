"""What this broker has stored of what one neighbor sends from its link queue, so that it stores nothing twice.

The sequences of the neighbor's queue identify its messages. They ascend with gaps: purged and expired messages never
come, and after a crash of the neighbor the next one is a million higher. So there is no window of sequences, as named
publishers have one; what may be on its way is bounded by the number of messages. The neighbor tells its floor with each
batch: everything up to it is settled there for good, and is never sent again.

Each batch comes with a row, written by the same commit as the batch. The row says its own sequences and all that are
stored so far above the floor: mostly one range. So once it is stored itself, it stands for the rows before it, and
later rows are written in their places. There are about twice as many rows as batches that the store has at once.

A neighbor that restored a backup is another publisher from there on: its lineage differs.
"""

import struct
from typing import Final, final

import xxhash

from sluicegate.messaging.message.ranges import RangeSet

ROW_PREFIX: Final = b"link-publisher/"

_HALF: Final = 32  # bits: the upper half of a lineage is of the incarnation, the lower one of the queue
_PLACE: Final = struct.Struct(">QI")  # lineage, place
_FLOOR: Final = struct.Struct(">Q")
_RANGE: Final = struct.Struct(">QQ")  # first, end; at least one behind the floor
ROW_RANGES_MAX: Final = 64  # stored ranges in a row; with more, it stands for itself only


@final
class LinkSequences:
    """The sequences of one lineage of one neighbor, in one message VPN.

    Invariants: everything in `stored` and `pending` lies above `floor`, and nothing is in both; a place is given out
    again only when its row was not stored, when a stored row says the same, or when all of it is at or below the floor.
    """

    def __init__(self, neighbor: str, lineage: int, row_prefix: bytes = b"") -> None:
        self.neighbor: Final = neighbor
        self.lineage: Final = lineage
        self.floor = 0  # up to here the neighbor sends nothing again
        self.stored = RangeSet()  # above the floor; also what is not for the store
        self.pending = RangeSet()  # given to the store, which has not answered
        self._stem: Final = row_prefix + ROW_PREFIX + neighbor.encode("utf-8") + b"/"
        self._places_count = 0
        self._free: list[int] = []
        self._rows: dict[int, int] = {}  # place of a stored row -> the end of what it says
        # First sequence of what is with the store -> the place of its row, and those of the rows that it stands for.
        self._open: dict[int, tuple[int, list[int]]] = {}

    def raise_floor(self, floor: int) -> None:
        """Note what the neighbor says of its floor. One that is lower than before says nothing new."""
        if floor > self.floor:
            self.floor = floor
            self.stored.discard(0, floor + 1)
            self.pending.discard(0, floor + 1)

    def arrive(self, first: int, end: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Sort out `[first, end)` as it arrives: return what is new, and what is stored already, as half-open ranges.

        What is pending is neither: its answer comes with the store's.
        """
        known = RangeSet()
        if first <= self.floor:
            known.add(first, min(end, self.floor + 1))
        for start, stop in self.stored.within(first, end):
            known.add(start, stop)
        new = RangeSet()
        for start, stop in known.outside(first, end):
            for new_start, new_stop in self.pending.outside(start, stop):
                new.add(new_start, new_stop)
        return new.ranges(), known.ranges()

    def begin(self, first: int, end: int) -> tuple[bytes, bytes]:
        """Note that `[first, end)`, which is new, is given to the store; return the row that goes with it."""
        self.pending.add(first, end)
        place = self._free_place()
        known = self.stored.ranges() if self.stored.ranges_count() <= ROW_RANGES_MAX else []
        self._open[first] = (place, list(self._rows) if known or not self.stored else [])
        ranges = [_RANGE.pack(*each) for each in (*known, (first, end))]
        return self._key(place), b"".join([_FLOOR.pack(self.floor), *ranges])

    def decided(self, first: int, end: int, *, is_stored: bool) -> None:
        """Note what the store did with `[first, end)`."""
        self.pending.discard(first, end)
        place, replaced = self._open.pop(first)
        if not is_stored:
            self._free.append(place)
            return
        if end > self.floor + 1:
            self.stored.add(max(first, self.floor + 1), end)
        self._rows[place] = self.stored.end() if self.stored else end
        for before in replaced:
            if self._rows.pop(before, None) is not None:
                self._free.append(before)

    def passed(self, first: int, end: int) -> None:
        """Note that `[first, end)`, which is new, is done, and nothing of it is for the store.

        It is known while this broker runs, and longer if a later row says so: who got it is gone when the broker is.
        """
        if end > self.floor + 1:
            self.stored.add(max(first, self.floor + 1), end)

    def restore(self, place: int, value: bytes) -> None:
        """Take a row that the store has, at the start. Raises ValueError for a malformed one."""
        size = len(value) - _FLOOR.size
        if size <= 0 or size % _RANGE.size or size > (ROW_RANGES_MAX + 1) * _RANGE.size:
            raise ValueError(f"a row of {len(value)} bytes")
        (floor,) = _FLOOR.unpack_from(value)
        ranges = [_RANGE.unpack_from(value, at) for at in range(_FLOOR.size, len(value), _RANGE.size)]
        for first, end in ranges:
            if end <= first:
                raise ValueError(f"a row of the sequences {first} to {end}")
        if place >= self._places_count:
            self._free += range(self._places_count, place)
            self._places_count = place + 1
        else:
            self._free.remove(place)
        self._rows[place] = max(end for _, end in ranges)
        for first, end in ranges:
            if end > self.floor + 1:
                self.stored.add(max(first, self.floor + 1), end)
        self.raise_floor(floor)

    def rows_to_delete(self) -> list[tuple[bytes, bytes | None]]:
        """Return the deletion of all its rows."""
        return [(self._key(place), None) for place in range(self._places_count)]

    def _key(self, place: int) -> bytes:
        return self._stem + _PLACE.pack(self.lineage, place)

    def _free_place(self) -> int:
        if not self._free:
            for place in [place for place, end in self._rows.items() if end <= self.floor + 1]:
                del self._rows[place]
                self._free.append(place)
        if self._free:
            return self._free.pop()
        self._places_count += 1
        return self._places_count - 1

    def check(self) -> None:
        """Assert the invariants; for tests."""
        for ranges in (self.stored, self.pending):
            ranges.check()
            assert ranges.count_within(0, self.floor + 1) == 0, "nothing at or below the floor is kept"
        for first, end in self.pending.ranges():
            assert self.stored.count_within(first, end) == 0, "what is stored is not pending"
        places = [*self._rows, *[place for place, _ in self._open.values()], *self._free]
        assert sorted(places) == list(range(self._places_count)), "every place is free or in use, once"

    def __repr__(self) -> str:
        return f"LinkSequences({self.neighbor!r}, {self.lineage:#x}, floor {self.floor}, {self.stored!r})"


def place_of_row(key: bytes) -> tuple[str, int, int]:
    """Return the neighbor, the lineage and the place that a key of the store names. Raises ValueError."""
    stem = len(ROW_PREFIX)
    if not key.startswith(ROW_PREFIX) or len(key) < stem + 2 + _PLACE.size:
        raise ValueError(f"{key[:40]!r} is not a row of a link")
    at = len(key) - _PLACE.size
    lineage, place = _PLACE.unpack_from(key, at)
    return key[stem : at - 1].decode("utf-8"), lineage, place


def lineage_of(incarnation: int, partition_id: int) -> int:
    """Return the lineage of the sequences that a partition gives in an incarnation of its broker, as 64 bits."""
    return _mark_of(incarnation) << _HALF | partition_id & (1 << _HALF) - 1


def is_of_incarnation(lineage: int, incarnation: int) -> bool:
    """Return whether a lineage may be one of an incarnation."""
    return lineage >> _HALF == _mark_of(incarnation)


def _mark_of(incarnation: int) -> int:
    return xxhash.xxh3_64_intdigest(incarnation.to_bytes(8, "big")) >> _HALF


@final
class Lineages:
    """The lineage of each sequence of this broker's link queue for one neighbor.

    A broker that starts from a backup is a new incarnation, whose sequences are those of other messages than the ones
    that the lost part of its life gave them to. What lay in the queue then is still what it was. So the incarnation in
    which a sequence was given is part of the identity: a lineage lasts from its first sequence to that of the next. A
    queue that was deleted and made again begins with the same sequences, so the queue is part of it as well.
    """

    def __init__(self, value: bytes | None = None) -> None:
        """Take the row that the store has. Raises ValueError for a malformed one."""
        self._of: list[tuple[int, int]] = []  # lineage, first sequence
        if value is not None:
            if len(value) % 16:
                raise ValueError(f"lineages of {len(value)} bytes")
            for at in range(0, len(value), 16):
                first = int.from_bytes(value[at + 8 : at + 16], "big")
                self._of.append((int.from_bytes(value[at : at + 8], "big"), first))

    def begin(self, lineage: int, next_sequence: int) -> bool:
        """Begin a lineage if this is another one; return whether it is, and the row has to be written."""
        if self._of and self._of[-1][0] == lineage:
            return False
        self._of.append((lineage, next_sequence if self._of else 0))
        return True

    def value(self) -> bytes:
        """Return the row."""
        return b"".join([each.to_bytes(8, "big") for pair in self._of for each in pair])

    def of(self, sequence: int) -> int:
        """Return the lineage of a sequence."""
        found = 0
        for lineage, first in self._of:
            if first <= sequence:
                found = lineage
        return found

    def end_of(self, sequence: int) -> int:
        """Return the first sequence behind this one that is of the next lineage; 0: there is no next one."""
        for _, first in self._of:
            if first > sequence:
                return first
        return 0
