"""Rebuilding a partition's ledger from what the store held: cursor, pages, journal.

A message may be in both a page and a journal record that had not been deleted yet; the page counts. What was settled
is known from the cursor and from the settlements in the journal. After a crash nobody knows what had been delivered,
so everything recovered is flagged as possibly delivered before; after a clean stop it is known exactly.
"""

from typing import final

from messaging.batch import MessageBatch
from messaging.ledger import Ledger
from messaging.publication import Publication
from messaging.ranges import RangeSet
from messaging.segments import Page, Segment


@final
class StoredPage:
    """A page as the directory of the store shows it."""

    def __init__(self, first: int, end: int, payload_bytes: int, message_count: int) -> None:
        self.first = first
        self.end = end
        self.payload_bytes = payload_bytes
        self.message_count = message_count


@final
class StoredBatch:
    """Rows of a journal entry that went to this partition."""

    def __init__(self, first: int, batch: MessageBatch, publication: Publication) -> None:
        self.first = first
        self.batch = batch
        self.publication = publication


@final
class StoredPartition:
    """Everything the store held of one partition."""

    def __init__(self, partition_id: int) -> None:
        self.partition_id = partition_id
        self.floor = 1
        self.next_sequence = 1  # the reserved bound after a crash, exact after a clean stop
        self.settled = RangeSet()
        self.redelivered: list[tuple[int, int, int]] = []  # first, end, failed deliveries; known after a clean stop
        self.pages: list[StoredPage] = []
        self.batches: list[StoredBatch] = []

    def settle(self, first: int, end: int) -> None:
        """Note settled sequences."""
        if end > self.floor:
            self.settled.add(max(first, self.floor), end)


def restore(ledger: Ledger, stored: StoredPartition, *, was_clean: bool) -> None:
    """Fill an empty ledger. Publications none of whose rows are needed here any more are left in its effects."""
    floor = stored.floor
    if stored.settled.total > 0 and stored.settled.starts[0] <= floor:
        floor = max(floor, stored.settled.ends[0])
    segments = _page_segments(stored, floor)
    paged = RangeSet()
    for page in stored.pages:
        paged.add(page.first, page.end)
    for each in stored.batches:
        end = each.first + each.batch.count
        live = 0 if each.first in paged else _live_count(stored, floor, each.first, end)
        each.publication.open_count += live
        if live > 0:
            size = each.batch.payload_bytes * live // each.batch.count
            segments.append(Segment(each.first, end, live, size, each.batch, each.publication, None))
    segments.sort(key=lambda segment: segment.first)
    highest = max([segment.end for segment in segments], default=floor)
    ledger.next_sequence = max(stored.next_sequence, highest, floor)
    ledger.settled.add(0, floor)
    for first, end in stored.settled.ranges():
        ledger.settled.add(first, end)
    ledger.settled.remove(0, floor)
    ledger.floor = ledger.next_sequence if not segments else max(floor, segments[0].first)
    ledger.settled.remove(0, ledger.floor)
    ledger.ready_from = ledger.floor
    for segment in segments:
        ledger.segments.append(segment)
        ledger.waiting_count += segment.live_count
        ledger.waiting_bytes += segment.bytes_left
        if segment.batch is not None:
            ledger.memory_bytes += segment.batch.memory_bytes()
    if not was_clean:
        ledger.suspect_end = ledger.next_sequence
        return
    for first, end, failed_count in stored.redelivered:
        for sequence in range(first, end):
            ledger.failures[sequence] = failed_count
        ledger.requeued.add(first, end)
        ledger.ready_from = max(ledger.ready_from, end)


def redelivered_ranges(ledger: Ledger) -> list[tuple[int, int, int]]:
    """Return what is to be known of earlier deliveries after a clean stop: (first, end, failed deliveries)."""
    ranges: list[tuple[int, int, int]] = []
    for start, stop in ledger.requeued.ranges():
        first = start
        for sequence in range(start + 1, stop + 1):
            if sequence == stop or ledger.failures.get(sequence, 0) != ledger.failures.get(first, 0):
                ranges.append((first, sequence, ledger.failures.get(first, 0)))
                first = sequence
    return ranges


def _page_segments(stored: StoredPartition, floor: int) -> list[Segment]:
    segments: list[Segment] = []
    for each in stored.pages:
        span = each.end - each.first
        live = _live_count(stored, floor, each.first, each.end) - (span - each.message_count)
        if live > 0:
            page = Page(each.first, each.end, live)
            size = each.payload_bytes * live // each.message_count
            segments.append(Segment(each.first, each.end, live, size, None, None, page))
    return segments


def _live_count(stored: StoredPartition, floor: int, first: int, end: int) -> int:
    unsettled_from = max(first, floor)
    return max(0, end - unsettled_from) - stored.settled.count_within(unsettled_from, end)
