"""Pick messages of a partition by their sequences, in memory or in pages.

A page that is read for picking does not enter the partition's memory. A damaged page is skipped: it is quarantined and
counted when a consumer asks for it. A page that a failing store cannot read is requested again.
"""

from typing import Any, Final, final

from sluicegate.actors.messages.spool import PageRead, ReadPage
from sluicegate.actors.partitions.jobs.job import JobContext, PartitionJob
from sluicegate.messaging.message.batch import MessageBatch

READ_AGAIN_MS: Final = 1000  # between two attempts to read a page from a store that fails


@final
class PickAgain:
    """A job -> itself, later: the store may be read again."""


@final
class Picked:
    """Rows of one batch; row `i` has the sequence `first + i`."""

    def __init__(self, first: int, batch: MessageBatch, rows: list[int]) -> None:
        self.first = first
        self.batch = batch
        self.rows = rows


class PickJob(PartitionJob):
    """Walks over ranges of sequences, ascending, and ends with `complete`.

    `next_sequence` is its position: every message below was examined, or does not exist.
    """

    def __init__(self, context: JobContext, ranges: list[tuple[int, int]]) -> None:
        super().__init__(context)
        self.picked: list[Picked] = []
        self.next_sequence = ranges[0][0] if ranges else 0
        self._ranges = ranges
        self._index = 0

    def wants(self, sequence: int, batch: MessageBatch, row: int) -> bool:
        """Return whether to pick an unsettled message."""
        raise AssertionError("PickJob is abstract")

    def is_full(self) -> bool:
        """Return whether to stop picking."""
        return False

    def complete(self) -> None:
        """Handle the picked messages: all ranges are done."""
        raise AssertionError("PickJob is abstract")

    def run(self) -> None:
        """Continue until a page has to be read, or all is picked."""
        segments = self.context.ledger.segments
        while self._index < len(self._ranges) and not self.is_full():
            first, end = self._ranges[self._index]
            self.next_sequence = max(self.next_sequence, first)
            segment = segments.at_or_after(self.next_sequence)
            if segment is None or segment.first >= end or self.next_sequence >= end:
                self.next_sequence = max(self.next_sequence, end)
                self._index += 1
            elif segment.batch is not None:
                self._scan(segment.first, segment.batch, end)
            else:
                page, reader = segment.page, self.context.reader
                assert page is not None, "a segment that is not in memory is in a page"
                assert reader is not None, "only a durable queue has pages"
                reader.read(ReadPage(self, self.context.partition_id, page.first))
                return
        self.complete()

    def answered(self, message: Any) -> None:
        """Handle a page that was read."""
        if isinstance(message, PickAgain):
            self.run()
            return
        assert isinstance(message, PageRead)
        if message.failed:
            self.context.runtime.after(READ_AGAIN_MS, self._read_again)
            return
        segment = self.context.ledger.segments.at_or_after(self.next_sequence)
        before = self.next_sequence
        for first, batch in message.runs:
            while self.next_sequence < first + batch.count and self._index < len(self._ranges) and not self.is_full():
                start, end = self._ranges[self._index]
                self.next_sequence = max(self.next_sequence, start)
                self._scan(first, batch, end)
                if self.next_sequence < end:
                    break
                self._index += 1
        if self.next_sequence == before and segment is not None:
            self.next_sequence = segment.end  # it was damaged, and would be so again
        self.run()

    def _read_again(self) -> None:
        if id(self) in self.context.jobs:  # else its queue is deleted
            self.post(PickAgain())

    def _scan(self, first: int, batch: MessageBatch, end: int) -> None:
        """Examine the rows of a batch from `next_sequence` to `end`."""
        ledger = self.context.ledger
        rows: list[int] = []
        sequence = max(self.next_sequence, first)
        stop = min(end, first + batch.count)
        while sequence < stop and not self.is_full():
            is_here = sequence >= ledger.floor and sequence not in ledger.settled
            if is_here and self.wants(sequence, batch, sequence - first):
                rows.append(sequence - first)
            sequence += 1
        self.next_sequence = max(self.next_sequence, sequence)
        if rows:
            self.picked.append(Picked(first, batch, rows))


def ranges_of(sequences: list[int]) -> list[tuple[int, int]]:
    """Return ascending sequences as half-open ranges."""
    ranges: list[tuple[int, int]] = []
    for sequence in sequences:
        if ranges and ranges[-1][1] == sequence:
            ranges[-1] = (ranges[-1][0], sequence + 1)
        else:
            ranges.append((sequence, sequence + 1))
    return ranges
