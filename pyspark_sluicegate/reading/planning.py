"""Plan batches and tasks: where the next batch of a stream ends, and the ranges that each of its tasks reads.

The partitions share a limit in rows or bytes in proportion to the sequences that each has waiting. The gateway says how
far a share reaches: it knows the sequences that a crash skipped, which have no rows.

Plans depend on their arguments only. A caller that passes the same offsets after a crash gets the same plan again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

from sluicegate import BlockingBulk

ALL: Final = 0  # no limit


@final
@dataclass(frozen=True)
class RangeToRead:
    """A range of a partition: the sequences from `first` to `end`, exclusive."""

    partition: int
    first: int
    end: int

    @property
    def count(self) -> int:
        """The number of sequences, each a row or in a gap."""
        return self.end - self.first


def next_ends(
    bulk: BlockingBulk, queue: str, firsts: Mapping[int, int], ends: Mapping[int, int], *, rows_max: int, bytes_max: int
) -> dict[int, int]:
    """Return the end of the batch in each partition that has something from `firsts` to `ends`.

    With a limit (ALL: none) each partition gives at least one message, while there are no more partitions than rows.
    Where there are skipped sequences only, the batch passes over all of them.
    """
    waiting = {each: end - firsts[each] for each, end in ends.items() if end > firsts[each]}
    if rows_max != ALL:
        rows = share_rows(waiting, rows_max)
        cuts = bulk.cut_ranges(queue, {each: firsts[each] for each in rows}, rows=rows)
    elif bytes_max != ALL:
        total = sum(waiting.values())
        usage_bytes = {each: max(1, bytes_max * count // total) for each, count in waiting.items()}
        cuts = bulk.cut_ranges(queue, {each: firsts[each] for each in waiting}, usage_bytes=usage_bytes)
    else:
        return {each: ends[each] for each in waiting}
    return {each: ends[each] if cut == firsts[each] else min(cut, ends[each]) for each, cut in cuts.items()}


def share_rows(waiting: Mapping[int, int], rows_max: int) -> dict[int, int]:
    """Return each partition's rows in a batch of at most `rows_max`: one, and a share of the rest in proportion.

    If there are more partitions than rows, the fullest ones give one each. The shares add up to `rows_max`, or to all
    waiting sequences when these are fewer.
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
    """Return the ranges in pieces of at most `split_rows`; with 0 unchanged."""
    if split_rows == ALL:
        return list(ranges)
    pieces: list[RangeToRead] = []
    for each in ranges:
        for first in range(each.first, each.end, split_rows):
            pieces.append(RangeToRead(each.partition, first, min(first + split_rows, each.end)))
    return pieces


def group(ranges: Sequence[RangeToRead], tasks_max: int) -> list[list[RangeToRead]]:
    """Return the ranges of each task: as even as whole ranges allow, one task for each range when `tasks_max` is 0.

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
