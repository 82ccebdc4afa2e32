"""Rebuild a partition's ledger from the store: cursor, pages, journal.

A message may be both in a page and in a journal record that was not deleted yet; the page counts. Settled messages are
known from the cursor and from the settlements in the journal. After a crash the earlier deliveries are unknown, so
everything recovered is flagged as possibly delivered before; after a clean stop they are known exactly.
"""

from typing import final

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.message.ranges import RangeSet
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.rules.expiry import hold_delayed, schedule_expiry
from sluicegate.messaging.partitions.state.flows import ORDER_NONE
from sluicegate.messaging.partitions.state.redelivery import NO_KEY
from sluicegate.messaging.partitions.state.segments import GAP_NEVER_USED, Marks, Page, Segment


@final
class StoredPage:
    """A page as in the store's directory of pages."""

    def __init__(self, first: int, end: int, usage_bytes: int, message_count: int, marks: Marks) -> None:
        self.first = first
        self.end = end
        self.usage_bytes = usage_bytes
        self.message_count = message_count
        self.marks = marks


@final
class StoredBatch:
    """Rows of a journal entry that went to this partition."""

    def __init__(self, first: int, batch: MessageBatch, publication: Publication) -> None:
        self.first = first
        self.batch = batch
        self.publication = publication


@final
class StoredPartition:
    """Everything that the store held of one partition."""

    def __init__(self, partition_id: int) -> None:
        self.partition_id = partition_id
        self.floor = 1
        self.next_sequence = 1  # the reserved bound after a crash, exact after a clean stop
        self.settled = RangeSet()
        self.redelivered: list[tuple[int, int, int]] = []  # first, end, failed deliveries; known after a clean stop
        self.delays: tuple[
            tuple[int, int, int], ...
        ] = ()  # of messaging.partitions.state.redelivery, when it was stopped cleanly
        self.pages: list[StoredPage] = []
        self.batches: list[StoredBatch] = []
        self.is_registered = False  # a cursor or a page exists: a purged partition has neither
        self.lacks_cursor = False  # it could not be read: earlier deliveries and the highest sequence are unknown
        self.is_offered_again = False  # some of it was settled, and has to be delivered again

    def settle(self, first: int, end: int) -> None:
        """Add settled sequences."""
        if end > self.floor:
            self.settled.add(max(first, self.floor), end)

    def known_end(self) -> int:
        """Return the end of the sequences known to have been used. A node may have reserved many more."""
        ends = [page.end for page in self.pages] + [each.first + each.batch.count for each in self.batches]
        if self.settled:
            ends.append(self.settled.end())
        return max([1, self.floor, *ends])

    def has_messages(self) -> bool:
        """Return whether any message is unsettled."""
        settled = RangeSet()
        settled.add(0, self.floor)
        for first, end in self.settled.ranges():
            settled.add(first, end)
        held = [(page.first, page.end) for page in self.pages]
        held += [(each.first, each.first + each.batch.count) for each in self.batches]
        return any(end - first > settled.count_within(first, end) for first, end in held)

    def offer_again(self, first: int, end: int) -> None:
        """Treat settled sequences as unsettled; those that are still stored will be delivered again."""
        self.is_offered_again = True
        if first < self.floor:
            self.settled.add(first, self.floor)
            self.floor = first
        self.settled.remove(first, end)


def restore(ledger: Ledger, stored: StoredPartition, *, was_clean: bool) -> None:
    """Fill an empty ledger, and count in each publication the rows that are still open here.

    A partition without its cursor is treated as after a crash. Left in the ledger's effects: pages that are no longer
    needed, and the sequences without a message (a crash skips reserved, unused ones), which are settled from now on.
    """
    was_clean = was_clean and not stored.lacks_cursor
    settled = RangeSet()
    settled.add(0, stored.floor)
    for first, end in stored.settled.ranges():
        settled.add(first, end)
    segments = _page_segments(ledger, stored, settled) + _batch_segments(stored, settled)
    segments.sort(key=_first_of)
    next_sequence = max(stored.next_sequence, settled.end())
    if segments:
        next_sequence = max(next_sequence, segments[-1].end)
    _settle_gaps(ledger, settled, segments, next_sequence)
    ledger.next_sequence = next_sequence
    ledger.floor = settled.lowest_end()
    settled.remove(0, ledger.floor)
    ledger.settled = settled
    ledger.ready_from = ledger.floor
    for segment in segments:
        ledger.segments.append(segment)
        ledger.may_expire = True
        ledger.waiting_count += segment.live_count
        ledger.waiting_bytes += segment.bytes_left
        if segment.batch is not None:
            ledger.memory_bytes += segment.batch.memory_bytes()
        else:
            ledger.paged_end = segment.end
    if not was_clean:
        ledger.suspect_end = next_sequence
    _restore_deliveries(ledger, stored, was_clean=was_clean)
    if was_clean and ledger.rules.redelivery_delay_ms > 0:
        _restore_delays(ledger, stored)
    for segment in segments:
        hold_delayed(ledger, segment, 0)
        schedule_expiry(ledger, segment)
    for segment in segments:  # last: publications outlive a ledger that could not be filled
        if segment.publication is not None:
            segment.publication.open_count += segment.live_count


def redelivered_ranges(ledger: Ledger) -> list[tuple[int, int, int]]:
    """Return what to store of earlier deliveries at a clean stop: (first, end, failed deliveries)."""
    ranges: list[tuple[int, int, int]] = []
    delivered_end = min(max(ledger.ready_from, ledger.suspect_end), ledger.next_sequence)
    failed = RangeSet()
    for sequence in sorted(ledger.failures):
        failed.add(sequence, sequence + 1)
    for start, stop in ledger.settled.outside(ledger.floor, delivered_end):
        for first, end in failed.outside(start, stop):
            ranges += [(run_first, run_end, 0) for run_first, run_end in _delivered_of(ledger, first, end)]
        for first, end in failed.within(start, stop):
            run_first = first
            for sequence in range(first + 1, end + 1):
                if sequence == end or ledger.failures[sequence] != ledger.failures[run_first]:
                    ranges.append((run_first, sequence, ledger.failures[run_first]))
                    run_first = sequence
    ranges.sort()
    return ranges


def _delivered_of(ledger: Ledger, first: int, end: int) -> list[tuple[int, int]]:
    """Return the parts of `[first, end)` that were delivered, or may have been."""
    suspects = [(first, min(end, ledger.suspect_end))] if first < ledger.suspect_end else []
    return suspects + ledger.undelivered.outside(max(first, ledger.suspect_end), end)


def _page_segments(ledger: Ledger, stored: StoredPartition, settled: RangeSet) -> list[Segment]:
    segments: list[Segment] = []
    for each in stored.pages:
        live = each.end - each.first - settled.count_within(each.first, each.end)
        if live == 0:
            ledger.effects.dropped_pages.append(each.first)
            continue
        size = each.usage_bytes * min(live, each.message_count) // max(1, each.message_count)
        segments.append(Segment(each.first, each.end, live, size, None, None, Page(each.first, live, each.marks)))
    return segments


def _batch_segments(stored: StoredPartition, settled: RangeSet) -> list[Segment]:
    paged = RangeSet()
    for page in stored.pages:
        paged.add(page.first, page.end)
    segments: list[Segment] = []
    for each in stored.batches:
        end = each.first + each.batch.count
        live = 0 if each.first in paged else end - each.first - settled.count_within(each.first, end)
        if live > 0:
            size = each.batch.usage_bytes(durable=True) * live // each.batch.count
            segments.append(Segment(each.first, end, live, size, each.batch, each.publication, None))
    return segments


def _settle_gaps(ledger: Ledger, settled: RangeSet, segments: list[Segment], next_sequence: int) -> None:
    """Settle the sequences outside all segments, so that a gap need not be told from a message later."""
    previous_end = 0
    for first, end in [*[(segment.first, segment.end) for segment in segments], (next_sequence, next_sequence)]:
        for gap_first, gap_end in settled.outside(previous_end, first):
            settled.add(gap_first, gap_end)
            ledger.gaps.note(GAP_NEVER_USED, gap_first, gap_end)
            if ledger.durable:
                ledger.effects.settle(gap_first, gap_end)
        previous_end = end


def _restore_deliveries(ledger: Ledger, stored: StoredPartition, *, was_clean: bool) -> None:
    """Restore what the last clean stop stored. After a crash since then, its counts are still a lower bound."""
    delivered = RangeSet()
    delivered_end = ledger.floor
    for first, end, failed_count in stored.redelivered:
        delivered.add(first, end)
        delivered_end = max(delivered_end, min(end, ledger.next_sequence))
        if failed_count > 0:
            for start, stop in ledger.settled.outside(max(first, ledger.floor), min(end, ledger.next_sequence)):
                for sequence in range(start, stop):
                    ledger.failures[sequence] = failed_count
    if was_clean or ledger.failures:
        ledger.ready_from = delivered_end
        for first, end in ledger.settled.outside(ledger.floor, delivered_end):
            ledger.requeued.add(first, end)
            for new_first, new_end in delivered.outside(first, end):  # overtaken while it waited for its time
                ledger.undelivered.add(new_first, new_end)


def _restore_delays(ledger: Ledger, stored: StoredPartition) -> None:
    """Continue the delays of messages that failed before the stop, and block what they blocked."""
    keeps_order = ledger.rules.order != ORDER_NONE and not ledger.rules.by_priority
    for sequence, due_ms, key in stored.delays:
        if sequence in ledger.requeued:
            ledger.requeued.discard(sequence, sequence + 1)
            ledger.redelivery_delays.resume(sequence, due_ms, key if keeps_order else NO_KEY)


def _first_of(segment: Segment) -> int:
    return segment.first
