"""From what waits in each partition to batches, and from a batch to tasks.

Pure: numbers in, numbers out. That the same batch is planned the same way again, after any crash, is the caller's by
asking with the same offsets; nothing here depends on anything else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

ALL: Final = 0  # no limit


@final
@dataclass(frozen=True)
class RangeToRead:
    """A piece of a partition: sequences from `first` up to `end`, which is not part of it."""

    partition: int
    first: int
    end: int

    @property
    def count(self) -> int:
        """How many sequences, each a row or in a gap."""
        return self.end - self.first


def share_rows(waiting: Mapping[int, int], rows_max: int) -> dict[int, int]:
    """Return how many rows each partition gives to a batch of at most `rows_max`: one, and of the rest in proportion.

    When there are more partitions than rows, the fullest give one. The shares add up to `rows_max`, or to all that
    waits when that is less.
    """
    present = {partition: count for partition, count in waiting.items() if count > 0}
    total = sum(present.values())
    if rows_max == ALL or total <= rows_max:
        return present
    fullest_first = sorted(present, key=lambda partition: (-present[partition], partition))[:rows_max]
    rest, others = rows_max - len(fullest_first), sum(present[each] - 1 for each in fullest_first)
    shares = {each: 1 + (present[each] - 1) * rest // max(1, others) for each in fullest_first}
    left = rows_max - sum(shares.values())  # lost by rounding, so less than one for each that has more
    for each in fullest_first:
        if left and shares[each] < present[each]:
            shares[each] += 1
            left -= 1
    return shares


def cut(ranges: Sequence[RangeToRead], split_rows: int) -> list[RangeToRead]:
    """Return the ranges in pieces of at most `split_rows`; with 0 as they are."""
    if split_rows == ALL:
        return list(ranges)
    pieces: list[RangeToRead] = []
    for each in ranges:
        for first in range(each.first, each.end, split_rows):
            pieces.append(RangeToRead(each.partition, first, min(first + split_rows, each.end)))
    return pieces


def group(ranges: Sequence[RangeToRead], tasks_max: int) -> list[list[RangeToRead]]:
    """Return what each task reads: as even as whole ranges allow, a task for each range when `tasks_max` is 0.

    A task reads its ranges in ascending order of partition and sequence.
    """
    if tasks_max == ALL or len(ranges) <= tasks_max:
        return [[each] for each in ranges]
    tasks: list[list[RangeToRead]] = [[] for _ in range(tasks_max)]
    loads = [0] * tasks_max
    for each in sorted(ranges, key=lambda piece: (-piece.count, piece.partition, piece.first)):
        lightest = loads.index(min(loads))
        tasks[lightest].append(each)
        loads[lightest] += each.count
    return [sorted(task, key=lambda piece: (piece.partition, piece.first)) for task in tasks]
