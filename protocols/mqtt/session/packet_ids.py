"""Sequences and the packet ids under which they were sent, as runs: in both, each number follows the one before.

Messages that go out together take ids in a row, so with a thousand in flight there is mostly one run. An answer out of
order cuts a run in two.
"""

from bisect import bisect_right
from typing import Final, final

_NONE: Final[list[int]] = []  # what those have in common that hold nothing


@final
class IdRuns:
    """A map from sequences to packet ids.

    Invariants: the three lists are of one length, no count is 0, and each run begins behind the end of the one before.
    """

    def __init__(self) -> None:
        self._firsts: list[int] = _NONE  # sequences
        self._packet_ids: list[int] = _NONE
        self._counts: list[int] = _NONE

    def __bool__(self) -> bool:
        return len(self._firsts) > 0

    def runs(self) -> list[tuple[int, int, int]]:
        """Return every run as `(first sequence, first packet id, count)`, by sequence."""
        return list(zip(self._firsts, self._packet_ids, self._counts, strict=True))

    def add(self, first: int, packet_id: int, count: int) -> None:
        """Map `count` sequences from `first` on to ids from `packet_id` on, whatever they were mapped to."""
        if self._firsts is _NONE:
            self._firsts, self._packet_ids, self._counts = [], [], []
        firsts, counts = self._firsts, self._counts
        if firsts and first < firsts[-1] + counts[-1]:
            self.discard(first, first + count)
            place = bisect_right(firsts, first)
        else:
            place = len(firsts)  # behind everything held: what a stream of deliveries does
        before = place - 1
        shift = packet_id - first
        if place and first == firsts[before] + counts[before] and shift == self._packet_ids[before] - firsts[before]:
            counts[before] += count
        else:
            firsts.insert(place, first)
            self._packet_ids.insert(place, packet_id)
            counts.insert(place, count)

    def find(self, sequence: int) -> int:
        """Return the packet id of a sequence, 0 where there is none."""
        place = bisect_right(self._firsts, sequence) - 1
        if place < 0 or sequence >= self._firsts[place] + self._counts[place]:
            return 0
        return self._packet_ids[place] + sequence - self._firsts[place]

    def discard(self, first: int, end: int) -> None:
        """Forget those of the sequences `[first, end)` that are here."""
        firsts, packet_ids, counts = self._firsts, self._packet_ids, self._counts
        place = max(bisect_right(firsts, first) - 1, 0)
        while place < len(firsts) and firsts[place] < end:
            start, its_id, count = firsts[place], packet_ids[place], counts[place]
            left = max(first - start, 0)
            behind = max(start + count - end, 0)
            if left >= count:
                place += 1
                continue
            if behind:  # what answers in order leave
                firsts[place], packet_ids[place], counts[place] = end, its_id + count - behind, behind
            else:
                firsts.pop(place)
                packet_ids.pop(place)
                counts.pop(place)
            if left:
                firsts.insert(place, start)
                packet_ids.insert(place, its_id)
                counts.insert(place, left)
                place += 1
            if behind:
                return
