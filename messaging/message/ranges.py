"""A set of integers, stored as disjoint half-open ranges: in-flight sequences, settled sequences above the floor.

Acknowledgements come in runs, so a set of a million sequences usually has a handful of ranges. The cost of every
operation depends on the ranges touched, not on the members.

Most sets have one range or none, and use no lists: for messages that come alone, filling and emptying a set takes 100
instructions instead of 700. More ranges are in two flat lists. A change in the middle moves what follows it: negligible
with the 10,000 messages a consumer may hold by default, 5 us more with 100,000 ranges.

Bounds are Python's integers. Native ones would save a lone message 220 instructions, but publishers of the flow
protocol may number their messages beyond 2^63.
"""

from bisect import bisect_right
from typing import Final, final

_NONE: Final[list[int]] = []  # shared by all sets without lists


@final
class RangeSet:
    """Disjoint, sorted, non-adjacent ranges `[start, end)` of non-negative integers.

    Invariants: `total` is the number of members; without lists they are `[_first, _end)`, or none are when it is 0;
    lists have a range at least, `_starts` ascends, and `_starts[i] < _ends[i] < _starts[i + 1]`.
    """

    def __init__(self) -> None:
        self.total = 0
        self._first = 0
        self._end = 0
        self._starts: list[int] = _NONE
        self._ends: list[int] = _NONE

    def __bool__(self) -> bool:
        return self.total > 0

    def __contains__(self, member: int) -> bool:
        if not self._starts:
            return self.total > 0 and self._first <= member < self._end
        index = bisect_right(self._starts, member) - 1
        return index >= 0 and member < self._ends[index]

    def __repr__(self) -> str:
        return "RangeSet(" + ", ".join([f"{first}..{end - 1}" for first, end in self.ranges()]) + ")"

    def lowest(self) -> int:
        """Return the lowest member; there is one."""
        return self._starts[0] if self._starts else self._first

    def lowest_end(self) -> int:
        """Return the end of the lowest range; there is one."""
        return self._ends[0] if self._starts else self._end

    def end(self) -> int:
        """Return the highest member plus one; there is one."""
        return self._ends[-1] if self._starts else self._end

    def ranges_count(self) -> int:
        """Return the number of ranges."""
        return len(self._starts) if self._starts or self.total == 0 else 1

    def ranges(self) -> list[tuple[int, int]]:
        """Return every range as `(start, end)`, ascending."""
        if not self._starts:
            return [(self._first, self._end)] if self.total > 0 else []
        return list(zip(self._starts, self._ends, strict=True))

    def add(self, first: int, end: int) -> int:
        """Add `[first, end)`; return the number of new members."""
        if first >= end:
            return 0
        if self.total == 0:
            self._first = first
            self._end = end
            self.total = end - first
            return end - first
        if not self._starts:
            if first == self._end:
                self._end = end
                self.total += end - first
                return end - first
            self._starts = [self._first]
            self._ends = [self._end]
        starts = self._starts
        ends = self._ends
        if first > ends[-1]:  # above all members: the usual case, a stream of deliveries
            starts.append(first)
            ends.append(end)
            self.total += end - first
            return end - first
        if first == ends[-1]:
            ends[-1] = end
            self.total += end - first
            return end - first
        low = bisect_right(ends, first - 1)  # the first range that touches or follows `first`
        high = bisect_right(starts, end)  # one past the last range that touches `end`
        if low == high:
            starts.insert(low, first)
            ends.insert(low, end)
            self.total += end - first
            return end - first
        if high - low == 1:  # it extends that one: out-of-order additions fill gaps from their edges
            start = starts[low]
            stop = ends[low]
            added = 0
            if first < start:
                starts[low] = first
                added = start - first
            if end > stop:
                ends[low] = end
                added += end - stop
            self.total += added
            return added
        held = 0
        for index in range(low, high):
            held += ends[index] - starts[index]
        merged_first = min(first, starts[low])
        merged_end = max(end, ends[high - 1])
        starts[low:high] = [merged_first]
        ends[low:high] = [merged_end]
        added = merged_end - merged_first - held
        self.total += added
        return added

    def take_lowest(self, first: int, end: int) -> bool:
        """Remove `[first, end)` if the lowest range begins with it, as for settlements in order; else do nothing."""
        if first >= end or self.total == 0:
            return False
        starts = self._starts
        if not starts:
            if first != self._first or end > self._end:
                return False
            self._first = end
        else:
            ends = self._ends
            if first != starts[0] or end > ends[0]:
                return False
            if end == ends[0]:
                starts.pop(0)  # in compiled code, `del` calls into Python and costs four times as much
                ends.pop(0)
            else:
                starts[0] = end
        self.total -= end - first
        return True

    def discard(self, first: int, end: int) -> None:
        """Remove the members of `[first, end)`."""
        if not self.take_lowest(first, end):
            self.remove(first, end)

    def remove(self, first: int, end: int) -> list[tuple[int, int]]:
        """Remove the members of `[first, end)`; return them as ranges, ascending."""
        if self.take_lowest(first, end):
            return [(first, end)]
        removed: list[tuple[int, int]] = []
        if first >= end or self.total == 0:
            return removed
        if not self._starts:
            if end <= self._first or first >= self._end:
                return removed
            self._starts = [self._first]
            self._ends = [self._end]
        starts = self._starts
        ends = self._ends
        low = bisect_right(ends, first)
        kept: list[tuple[int, int]] = []
        high = low
        while high < len(starts) and starts[high] < end:
            start = starts[high]
            stop = ends[high]
            cut_first = max(start, first)
            cut_end = min(stop, end)
            removed.append((cut_first, cut_end))
            self.total -= cut_end - cut_first
            if start < cut_first:
                kept.append((start, cut_first))
            if cut_end < stop:
                kept.append((cut_end, stop))
            high += 1
        if high > low:
            starts[low:high] = [start for start, _ in kept]
            ends[low:high] = [stop for _, stop in kept]
        return removed

    def count_within(self, first: int, end: int) -> int:
        """Return the number of members in `[first, end)`."""
        if not self._starts:
            if self.total == 0 or end <= self._first or first >= self._end:
                return 0
            return min(self._end, end) - max(self._first, first)
        count = 0
        index = bisect_right(self._ends, first)
        while index < len(self._starts) and self._starts[index] < end:
            count += min(self._ends[index], end) - max(self._starts[index], first)
            index += 1
        return count

    def within(self, first: int, end: int) -> list[tuple[int, int]]:
        """Return the members of `[first, end)` as ranges, ascending."""
        found: list[tuple[int, int]] = []
        if not self._starts:
            if self.total > 0 and first < self._end and self._first < end:
                found.append((max(self._first, first), min(self._end, end)))
            return found
        index = bisect_right(self._ends, first)
        while index < len(self._starts) and self._starts[index] < end:
            found.append((max(self._starts[index], first), min(self._ends[index], end)))
            index += 1
        return found

    def outside(self, first: int, end: int) -> list[tuple[int, int]]:
        """Return the integers of `[first, end)` that are not members, as ranges, ascending."""
        missing: list[tuple[int, int]] = []
        for start, stop in self.within(first, end):
            if first < start:
                missing.append((first, start))
            first = stop
        if first < end:
            missing.append((first, end))
        return missing

    def next_range(self, member: int) -> tuple[int, int]:
        """Return the first range of members at or above `member`, cut at `member`; `(0, 0)` when there is none."""
        if self.total == 0 or member >= self.end():
            return 0, 0
        if not self._starts:
            return max(self._first, member), self._end
        index = bisect_right(self._ends, member)
        return max(self._starts[index], member), self._ends[index]

    def first_outside(self, first: int, end: int) -> tuple[int, int]:
        """Return the first range of `[first, end)` without members; `(end, end)` when there is none."""
        start, stop = self.next_range(first)
        if start <= first < stop:
            first = stop
            start, stop = self.next_range(first)
        if first >= end:
            return end, end
        if first < start < end:
            end = start
        return first, end

    def check(self) -> None:
        """Assert the invariants."""
        assert len(self._starts) == len(self._ends)
        assert self._starts or self.total == 0 or self._end - self._first == self.total, "one range without lists"
        previous = -1
        total = 0
        for start, end in self.ranges():
            assert previous < start < end, "ranges are sorted, disjoint and not adjacent"
            previous = end
            total += end - start
        assert total == self.total, "total counts the members"
