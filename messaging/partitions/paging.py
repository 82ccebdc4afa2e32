"""Move a partition's waiting messages between memory and the pages of the store.

A page is planned from segments that are already in the journal, is written by the spool, and only then replaces them.
It is read back when a consumer approaches, one page ahead of the deliveries.
"""

from functools import reduce
from typing import Final, final

from mypy_extensions import i64

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.outcomes import DISCARD_DAMAGED
from sluicegate.messaging.message.publication import UNWRITTEN, Publication
from sluicegate.messaging.message.ranges import RangeSet
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.rules.expiry import earlier, hold_delayed, next_change_ms, schedule_expiry
from sluicegate.messaging.partitions.rules.undeliverable import dead_letter_loaded
from sluicegate.messaging.partitions.state.segments import (
    PAGE_ABSENT,
    PAGE_LOADED,
    Page,
    Segment,
    marks_of,
    marks_together,
)

# Limit of loaded pages of which no consumer holds a message. The oldest are unloaded first: the store still has them.
PAGES_LOADED_MAX: Final = 8


@final
class PagePlan:
    """Segments that will be in one page once it is stored."""

    def __init__(
        self, first: int, end: int, runs: list[tuple[int, MessageBatch]], log_records: list[int] | None = None
    ) -> None:
        self.first = first
        self.end = end
        self.runs = runs  # first sequence and batch of each segment, ascending
        self.log_records = log_records  # for each run the log record that has the same batch; None: a run is in none


@final
class PagePlanner:
    """Collects segments, offered oldest first, into pages of about `page_bytes` of content."""

    def __init__(self, *, page_bytes: int, bytes_to_free: int, through_record: int | None) -> None:
        self.plans: list[PagePlan] = []
        self._page_bytes = page_bytes
        self._bytes_to_free = bytes_to_free
        self._through_record = through_record
        self._runs: list[tuple[int, MessageBatch]] = []
        self._log_records: list[int] | None = []
        self._page_held = 0
        self._end = 0

    def offer(self, first: int, end: int, batch: MessageBatch | None, publication: Publication | None) -> bool:
        """Add a run if it is in the journal and nowhere else; return whether more is wanted."""
        pageable = batch is not None and self._is_stored(publication)
        if not pageable or self._page_held >= self._page_bytes:
            self.finish()
        if pageable and batch is not None:
            self._runs.append((first, batch))
            self._note_record(batch, publication)
            self._page_held += batch.content_bytes()
            self._bytes_to_free -= batch.memory_bytes()
            self._end = end
        return self._bytes_to_free > 0

    def finish(self) -> list[PagePlan]:
        """Complete the current page; return all plans so far."""
        if self._runs:
            self.plans.append(PagePlan(self._runs[0][0], self._end, self._runs, self._log_records))
            self._runs = []
            self._log_records = []
            self._page_held = 0
        return self.plans

    def _note_record(self, batch: MessageBatch, publication: Publication | None) -> None:
        """Note the record that has a batch: it has the publication's, and a partition may have a selection of that."""
        if publication is None or publication.batch is not batch:
            self._log_records = None
        elif self._log_records is not None:
            self._log_records.append(int(publication.record_number))

    def _is_stored(self, publication: Publication | None) -> bool:
        """Return whether the publication is in the journal, in a record up to `through_record`, and nowhere else."""
        if publication is None or publication.record_number == UNWRITTEN or not publication.confirmed:
            return False  # numbered but unconfirmed: its record is being written, and that may fail
        return self._through_record is None or publication.record_number <= self._through_record


def plan_pages(ledger: Ledger, *, page_bytes: int, bytes_to_free: int, through_record: int | None) -> list[PagePlan]:
    """Choose the oldest batches in memory, about `bytes_to_free` of them, in pages of about `page_bytes` of content.

    Batches that are not yet in the journal are skipped: durability comes first, and may make them unnecessary. With
    `through_record` only batches of journal records up to that one are chosen.
    """
    planner = PagePlanner(page_bytes=page_bytes, bytes_to_free=bytes_to_free, through_record=through_record)
    segments = ledger.segments
    segment = segments.at_or_after(ledger.pageable_from)
    while segment is not None and segment.page is not None:  # so the next call does not walk over it again
        ledger.pageable_from = segment.end
        segment = segments.at_or_after(segment.end)
    wanted = bytes_to_free > 0
    while segment is not None and wanted:
        wanted = planner.offer(segment.first, segment.end, segment.batch, segment.publication)
        segment = segments.at_or_after(segment.end)
    return planner.finish()


def pages_written(ledger: Ledger, plan: PagePlan) -> None:
    """Replace the planned segments by their page: it is stored now."""
    ledger.paged_end = max(ledger.paged_end, plan.end)
    segments = ledger.segments.overlapping(plan.first, plan.end)
    if not segments:
        ledger.effects.dropped_pages.append(plan.first)
        return
    live = 0
    bytes_left = 0
    for segment in segments:
        assert segment.batch is not None, "a run is planned once"
        assert segment.publication is not None, "a run is planned once"
        live += segment.live_count
        bytes_left += segment.bytes_left
        ledger.memory_bytes -= segment.batch.memory_bytes()
        ledger.close(segment.publication, segment.live_count)
    page = Page(plan.first, live, reduce(marks_together, [marks_of(batch) for _, batch in plan.runs]))
    first = segments[0].first  # later than the page's own first sequence when that was settled meanwhile
    absent = Segment(first, segments[-1].end, live, bytes_left, None, None, page)
    ledger.segments.replace(segments, [absent])
    schedule_expiry(ledger, absent)


def page_loaded(ledger: Ledger, page_first: int, runs: list[tuple[int, MessageBatch]]) -> None:
    """Put the messages of a page back into memory. A page that is no longer awaited is ignored."""
    ledger.pages_read_in_time.discard(page_first)
    absent = _absent_segment(ledger, page_first)
    if absent is None or absent.page is None:
        return
    in_page = RangeSet()
    pieces: list[tuple[int, int, MessageBatch | None]] = []
    for first, run in runs:
        in_page.add(first, first + run.count)
        pieces.append((first, first + run.count, run))
    # The page has to contain all that the ledger counts in it, or the store has an error: a message found nowhere is
    # lost. One that a consumer has is lost when it comes back.
    for first, end in in_page.outside(absent.first, absent.end):
        ledger.give_up(first, end, DISCARD_DAMAGED)
        pieces += [(start, stop, None) for start, stop in ledger.settled.outside(max(first, ledger.floor), end)]
    if absent.live_count == 0:
        return
    loaded: list[Segment] = []
    live_left = absent.live_count
    bytes_left = absent.bytes_left
    for first, end, batch in sorted(pieces, key=_first_of):
        live = _live_count(ledger, first, end)
        if live > 0:
            share = bytes_left * live // live_left  # the last segment takes the remainder, so quotas add up
            loaded.append(Segment(first, end, live, share, batch, None, absent.page))
            live_left -= live
            bytes_left -= share
            if batch is not None:
                ledger.memory_bytes += batch.memory_bytes()
    absent.page.state = PAGE_LOADED
    ledger.segments.replace([absent], loaded)
    _unload_pages(ledger)
    ledger.loaded_pages[page_first] = absent.page
    for segment in loaded:
        if not segment.is_lost():
            hold_delayed(ledger, segment, ledger.applied_ms)
            schedule_expiry(ledger, segment)
    if ledger.selecting_count > 0:
        dead_letter_loaded(ledger, ledger.groups, absent.first, absent.end)


def _first_of(piece: tuple[int, int, MessageBatch | None]) -> int:
    return piece[0]


def is_awaited(ledger: Ledger, page_first: int) -> bool:
    """Return whether messages of this page are wanted and not in memory."""
    return _absent_segment(ledger, page_first) is not None


def _unload_pages(ledger: Ledger) -> None:
    """Unload pages of which no consumer holds a message, when there are too many."""
    if len(ledger.loaded_pages) < PAGES_LOADED_MAX:
        return
    idle = [page for page in ledger.loaded_pages.values() if not _is_held(ledger, page)]
    for page in idle[: len(idle) - PAGES_LOADED_MAX + 1]:
        _unload(ledger, page)


def _is_held(ledger: Ledger, page: Page) -> bool:
    """Return whether some message of a loaded page is with a consumer, or moving to another queue."""
    segments = _segments_of(ledger, page)
    first, end = segments[0].first, segments[-1].end
    held = [ledger.moving, *[flow.in_flight for flow in ledger.flows.values()]]
    return any(ranges.count_within(first, end) > 0 for ranges in held)


def _unload(ledger: Ledger, page: Page) -> None:
    """Replace a page's messages in memory by the page. Its marks become those of the remaining messages."""
    segments = _segments_of(ledger, page)
    bytes_left = 0
    left: list[MessageBatch] = []
    page.next_ms, page.next_rules = 0, ledger.rules_seen
    for segment in segments:
        page.next_ms = earlier(page.next_ms, next_change_ms(ledger, segment))
        batch = segment.batch
        assert batch is not None
        bytes_left += segment.bytes_left
        ledger.memory_bytes -= batch.memory_bytes()
        for first, end in ledger.settled.outside(max(segment.first, ledger.floor), segment.end):
            left.append(batch.select(list(range(first - segment.first, end - segment.first))))
    page.marks = reduce(marks_together, [marks_of(batch) for batch in left])
    page.state = PAGE_ABSENT
    del ledger.loaded_pages[page.first]
    absent = Segment(segments[0].first, segments[-1].end, page.live_count, bytes_left, None, None, page)
    ledger.segments.replace(segments, [absent])
    schedule_expiry(ledger, absent)


def _segments_of(ledger: Ledger, page: Page) -> list[Segment]:
    """Return the remaining segments of a loaded page, at least one."""
    segments: list[Segment] = []
    segment = ledger.segments.at_or_after(page.first)
    while segment is not None and segment.page is page:
        segments.append(segment)
        segment = ledger.segments.at_or_after(segment.end)
    return segments


def _absent_segment(ledger: Ledger, page_first: int) -> Segment | None:
    """Return the segment that is in this page and not in memory, if it still exists."""
    segment = ledger.segments.at_or_after(page_first)
    if segment is None or segment.batch is not None or segment.page is None or segment.page.first != page_first:
        return None
    return segment


def _live_count(ledger: Ledger, first: int, end: int) -> int:
    return sum([stop - start for start, stop in ledger.settled.outside(max(first, ledger.floor), end)])


def page_damaged(ledger: Ledger, page_first: int) -> int:
    """Give up the messages of a page that cannot be read; return how many unsettled ones it held."""
    ledger.pages_read_in_time.discard(page_first)
    absent = _absent_segment(ledger, page_first)
    if absent is None or absent.page is None:
        return 0
    absent.page.state = PAGE_ABSENT  # messages that consumers hold are requested and given up when they come back
    return ledger.give_up(absent.first, absent.end, DISCARD_DAMAGED)


PARTITION_BYTES_MAX: Final = 4 << 20  # a partition with more than this is a backlog, however much memory is free
PARTITION_BYTES_MIN: Final = 64 << 10  # two pages: less would page what consumers are about to take


@final
class MemoryBudget:
    """Bytes of message batches in memory, over all partitions, and the share of each. Shared on the loop."""

    def __init__(self, *, bytes_max: i64) -> None:
        self.bytes_max = bytes_max
        self.used_bytes: i64 = 0

    def count(self, change: i64) -> None:
        """Add the change of a partition's bytes."""
        self.used_bytes += change

    def share(self) -> i64:
        """Return how much one partition may hold now. It shrinks as the budget fills, and never reaches zero."""
        free = self.bytes_max - self.used_bytes
        if free <= 0:
            return PARTITION_BYTES_MIN
        return min(PARTITION_BYTES_MAX, max(PARTITION_BYTES_MIN, free // 4))
