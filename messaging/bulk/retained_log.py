"""The retained log of a partition: messages kept for replay and durable cursors, whatever consumers have settled.

The log is a second, independent holder of the ledger's batches and pages: each of the two counts its rows in a
publication's `open_count`, and a page is deleted when neither needs it. So the ledger is unaffected, and a partition
whose queue asks for no log has none.

The log contains everything unsettled since it began. Settled messages are trimmed oldest first, once the queue's bounds
are exceeded and no reader holds them.

See also: reading (messaging.bulk.range_reads), the holds of readers (messaging.bulk.durable_cursors), and when to trim
(actors.partitions.partition).
"""

from bisect import bisect_right
from typing import Final, final

from mypy_extensions import i64

from sluicegate.messaging.bulk.log_segments import (
    NO_PAGE,
    LogSegment,
    journaled_segment,
    log_segments_of,
    paged_segment,
)
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.paging import PagePlan, PagePlanner, pages_written, plan_pages
from sluicegate.messaging.partitions.recovery import StoredPartition

HELD_BY_NOBODY: Final = 1 << 64  # above every sequence
UNBOUNDED: Final = 1 << 62  # above every count of rows and bytes
EXAMINED_MAX: Final = 256  # segments for each trim: what cannot be trimmed yet must not be walked again and again


@final
class RetentionRules:
    """How long settled messages are kept. Shared by a queue's partitions; the queue changes it. 0: no such bound."""

    def __init__(self, *, time_ms: int = 0, size_bytes: int = 0) -> None:
        self.time_ms = time_ms  # since the broker received the message
        self.size_bytes = size_bytes  # usage of the settled messages in each partition

    def on(self) -> bool:
        """Return whether settled messages are kept without a reader."""
        return self.time_ms > 0 or self.size_bytes > 0


@final
class RetainedLog:
    """The log of one partition. It is inactive, and costs nothing, until a rule or a reader needs it.

    Invariants: segments ascend without overlap; a segment has a batch and a publication, or a page; `usage_bytes` and
    `memory_bytes` are their sums.
    """

    def __init__(self, ledger: Ledger, rules: RetentionRules) -> None:
        self.ledger = ledger
        self.rules = rules
        self.active = False
        self.usage_bytes = 0
        self.memory_bytes: i64 = 0
        self.bytes_end = 0  # usage of everything that was ever appended
        self._newest_ms = 0  # wall clock, when the newest message arrived, or later; 0: not known yet
        self.holds: dict[str, int] = {}  # reader -> it needs everything from this sequence on
        self._held_from = HELD_BY_NOBODY
        self._firsts: list[int] = []
        self._segments: list[LogSegment] = []
        self._pages: set[int] = set()
        self._pageable_from = 0  # no segment below waits for a page
        self._maintain_from = 0
        self._synced = 0

    # --- what comes in ---

    def append(self, first: int, batch: MessageBatch, publication: Publication | None) -> None:
        """Append a batch that the ledger has just numbered."""
        assert publication is not None, "only durable queues have a log"
        publication.opened(batch.count)
        self._add(journaled_segment(first, batch, publication))

    def open(self) -> None:
        """Activate the log, with what the ledger holds now."""
        assert not self.active, "a log is opened once"
        self.active = True
        for segment in self.ledger.segments.all():
            page, batch, publication = segment.page, segment.batch, segment.publication
            size = segment.bytes_left if batch is None else batch.usage_bytes(durable=True)
            if page is None and publication is not None and batch is not None:
                if not publication.refused:
                    self.append(segment.first, batch, publication)
                continue
            assert page is not None, "a durable segment is in the journal or in a page"
            last = self._segments[-1] if self._segments else None
            if last is not None and last.page_first == page.first:  # read back, one page is several segments
                self._grow(last, segment.end, size)
            else:
                self._add(paged_segment(page.first, segment.first, segment.end, size, page.marks.arrived_ms))

    def restore(self, stored: StoredPartition) -> None:
        """Activate the log with what the store held of the partition, settled or not. `count_rows` has to follow."""
        self.active = True
        for segment in log_segments_of(stored):
            self._add(segment)

    def count_rows(self) -> None:
        """Count the rows in their publications, once ledger and log are complete; publications outlive both."""
        for segment in self._segments:
            if segment.publication is not None:
                segment.publication.open_count += segment.end - segment.first

    def renewed(self, ledger: Ledger) -> "RetainedLog":
        """Return an inactive log for another ledger of the partition, with the same rules and holds."""
        log = RetainedLog(ledger, self.rules)
        log.holds = dict(self.holds)
        log._held_from = self._held_from
        return log

    # --- what goes ---

    def hold(self, reader: str, sequence: int) -> None:
        """Keep everything from `sequence` on for a reader; replaces an earlier hold of the reader."""
        self.holds[reader] = sequence
        self._held_from = min(self.holds.values())

    def release(self, reader: str) -> None:
        """End a reader's hold."""
        self.holds.pop(reader, None)
        self._held_from = min(self.holds.values()) if self.holds else HELD_BY_NOBODY

    def maintain(self, wall_ms: int) -> None:
        """Open, trim or close the log as rules and readers require; deletions are left in the ledger's effects."""
        if not self.rules.on() and not self.holds:
            if self.active:
                self._close()
            return
        if not self.active:
            self.open()
        self._newest_ms = self._newest_ms or wall_ms
        self._trim(wall_ms)

    def withdraw(self, first: int, end: int) -> None:
        """Remove messages that could not be stored: the publisher was told, and no reader may see them."""
        index = self._index_of(first)
        while index < len(self._segments) and self._segments[index].first < end:
            segment = self._segments[index]
            if segment.publication is not None and segment.publication.refused:
                self._release(segment)
                del self._segments[index]
                del self._firsts[index]
            else:
                index += 1

    def abandon(self) -> None:
        """Release everything: the queue is deleted. Of the effects only `released_publications` has to be applied."""
        for segment in self._segments:
            if segment.publication is not None:
                self.ledger.close(segment.publication, segment.end - segment.first)
        self._forget()

    def needs_page(self, page_first: int) -> bool:
        """Return whether the log needs a page, whatever the ledger needs."""
        return page_first in self._pages

    def droppable(self, page_firsts: list[int]) -> list[int]:
        """Return the pages, given up by the ledger or the log, that neither needs any more, each once."""
        return [each for each in dict.fromkeys(page_firsts) if each not in self._pages]

    # --- pages ---

    def plan_pages(self, *, page_bytes: int, bytes_to_free: int, through_record: int | None) -> list[PagePlan]:
        """Choose the oldest batches in memory, as messaging.partitions.paging.plan_pages does.

        An active log contains everything that the ledger has in the journal, so pages are planned from the log. Between
        its segments the ledger may have messages that the store refused and a consumer holds: a page never spans those.
        """
        if not self.active:
            return plan_pages(
                self.ledger, page_bytes=page_bytes, bytes_to_free=bytes_to_free, through_record=through_record
            )
        planner = PagePlanner(page_bytes=page_bytes, bytes_to_free=bytes_to_free, through_record=through_record)
        index = self._index_of(self._pageable_from)
        segments = self._segments
        while index < len(segments) and segments[index].batch is None:
            self._pageable_from = segments[index].end
            index += 1
        wanted = bytes_to_free > 0
        end = segments[index].first if index < len(segments) else 0
        while index < len(segments) and wanted:
            segment = segments[index]
            if end < segment.first and self._is_live(end, segment.first):
                planner.finish()
            end = segment.end
            wanted = planner.offer(segment.first, segment.end, segment.batch, segment.publication)
            index += 1
        return planner.finish()

    def pages_written(self, plan: PagePlan) -> None:
        """Replace the planned segments by the page, here and in the ledger: the store has it now."""
        pages_written(self.ledger, plan)
        if not self.active:
            return
        start = self._index_of(plan.first)
        stop = start
        size = 0
        while stop < len(self._segments) and self._segments[stop].first < plan.end:
            segment = self._segments[stop]
            size += segment.usage_bytes
            self._release(segment)
            stop += 1
        if start == stop:
            return  # trimmed meanwhile: the ledger drops the page, or deletes it later
        oldest = self._segments[start]
        page = paged_segment(plan.first, oldest.first, self._segments[stop - 1].end, size, oldest.arrived_ms)
        page.bytes_before = oldest.bytes_before
        self._segments[start:stop] = [page]
        self._firsts[start:stop] = [page.first]
        self.usage_bytes += size
        self._pages.add(plan.first)

    # --- what can be seen ---

    def at_or_after(self, sequence: int) -> LogSegment | None:
        """Return the segment that contains `sequence`, else the next one, else None."""
        index = self._index_of(sequence)
        return self._segments[index] if index < len(self._segments) else None

    def low(self) -> int:
        """Return the first sequence that may be read."""
        if self.active:
            return self._segments[0].first if self._segments else self.ledger.next_sequence
        return self.ledger.floor

    def settled_bytes(self) -> int:
        """Return the usage of what is kept beyond its settlement."""
        return max(0, self.usage_bytes - self.ledger.waiting_bytes) if self.active else 0

    def synced_end(self) -> int:
        """Return the first sequence that is neither in the store nor settled: the end of what may be read."""
        segments = self.ledger.segments
        while self._synced < self.ledger.next_sequence:
            publication: Publication | None = None
            if self.active:
                segment = self.at_or_after(self._synced)
                if segment is None:
                    break
                publication, first, end = segment.publication, segment.first, segment.end
            else:
                unsettled = segments.at_or_after(self._synced)
                if unsettled is None:
                    break
                publication, first, end = unsettled.publication, unsettled.first, unsettled.end
            if publication is not None and not publication.confirmed and not publication.refused:
                self._synced = max(self._synced, first)
                return self._synced
            self._synced = end
        self._synced = self.ledger.next_sequence
        return self._synced

    def settled_count(self, first: int, end: int) -> int:
        """Return the number of sequences of `[first, end)` that are kept beyond their settlement."""
        count = 0
        index = self._index_of(first)
        while index < len(self._segments) and self._segments[index].first < end:
            start, stop = max(first, self._segments[index].first), min(end, self._segments[index].end)
            unsettled = self.ledger.settled.outside(max(start, self.ledger.floor), stop)
            count += stop - start - sum([until - since for since, until in unsettled])
            index += 1
        return count

    def bytes_at(self, sequence: int) -> int:
        """Return the usage appended to the log before `sequence`; within a segment by average."""
        segment = self.at_or_after(sequence)
        if segment is None:
            return self.bytes_end
        behind = max(0, sequence - segment.first)
        return segment.bytes_before + segment.usage_bytes * behind // (segment.end - segment.first)

    def cut(self, first: int, *, bytes_max: int, rows_max: int) -> int:
        """Return the end of a range from `first` of at most this usage and this many rows. 0: no such bound.

        The range includes at least the rest of one segment by bytes, by average within it. Sequences between segments
        are not rows, so the result is `first` where no message follows.
        """
        bytes_left, rows_left = bytes_max or UNBOUNDED, rows_max or UNBOUNDED
        end = first
        while rows_left > 0 and (bytes_left > 0 or end == first):
            found = self._piece_from(end)
            if found is None:
                break
            start, stop, usage_bytes = found
            count = stop - start
            if usage_bytes > bytes_left and end > first:
                count = count * bytes_left // usage_bytes
            count = min(count, rows_left)
            if count <= 0:
                break
            end = start + count
            rows_left -= count
            bytes_left -= usage_bytes
        return end

    def _piece_from(self, sequence: int) -> tuple[int, int, int] | None:
        """Return the next sequences that have rows, from `sequence` on: first, end, usage by average."""
        if self.active:
            segment = self.at_or_after(sequence)
            if segment is None:
                return None
            first, end, size = segment.first, segment.end, segment.usage_bytes
        else:
            unsettled = self.ledger.segments.at_or_after(sequence)
            if unsettled is None:
                return None
            first, end, size = unsettled.first, unsettled.end, unsettled.bytes_left
        start = max(first, sequence)
        return start, end, size * (end - start) // (end - first)

    def first_since(self, wall_ms: int) -> int:
        """Return a sequence before which everything arrived before `wall_ms`; at most one page too early."""
        found = self.low()
        for segment in self._segments:
            if segment.arrived_ms >= wall_ms:
                break
            found = segment.first
        return found

    def check(self) -> None:
        """Assert the invariants."""
        assert self._firsts == [segment.first for segment in self._segments]
        previous_end = 0
        for segment in self._segments:
            assert previous_end <= segment.first < segment.end, "segments ascend without overlap"
            assert (segment.batch is None) == (segment.page_first != NO_PAGE), "a segment has a batch or a page"
            assert (segment.batch is None) == (segment.publication is None), "a batch in memory is in the journal"
            previous_end = segment.end
        assert sum([segment.usage_bytes for segment in self._segments]) == self.usage_bytes
        held = [segment.batch.memory_bytes() for segment in self._segments if segment.batch is not None]
        assert sum(held) == self.memory_bytes
        assert {each.page_first for each in self._segments if each.page_first != NO_PAGE} == self._pages
        if self.active:
            for unsettled in self.ledger.segments.all():
                if unsettled.publication is not None and unsettled.publication.refused:
                    continue  # a consumer settled it before it could not be stored
                found = self.at_or_after(unsettled.first)
                assert found is not None, "every unsettled message is in the log"
                assert found.first <= unsettled.first or unsettled.publication is not None

    def _add(self, segment: LogSegment) -> None:
        segment.bytes_before = self.bytes_end
        if segment.arrived_ms > 0:  # pages of earlier releases have no time of arrival; they are older
            for before in reversed(self._segments):
                if before.arrived_ms > 0:
                    break
                before.arrived_ms = segment.arrived_ms
        self._newest_ms = 0 if segment.batch is None else segment.arrived_ms  # the newest of a page may be new
        self._firsts.append(segment.first)
        self._segments.append(segment)
        self.bytes_end += segment.usage_bytes
        self.usage_bytes += segment.usage_bytes
        if segment.batch is not None:
            self.memory_bytes += segment.batch.memory_bytes()
        else:
            self._pages.add(segment.page_first)

    def _grow(self, segment: LogSegment, end: int, size: int) -> None:
        segment.end = end
        segment.usage_bytes += size
        self.usage_bytes += size
        self.bytes_end += size

    def _index_of(self, sequence: int) -> int:
        """Return the index of the segment that contains `sequence`, else of the next one."""
        index = bisect_right(self._firsts, sequence) - 1
        if index >= 0 and sequence < self._segments[index].end:
            return index
        return index + 1

    def _trim(self, wall_ms: int) -> None:
        """Remove the oldest settled segments that exceed a bound and that no reader holds."""
        too_old_ms = wall_ms - self.rules.time_ms if self.rules.time_ms else 0
        size_max = self.rules.size_bytes
        settled_bytes = self.settled_bytes()
        start = self._index_of(self._maintain_from)
        index = start
        kept: list[LogSegment] = []
        segments = self._segments
        finished = False
        while index < len(segments) and index - start < EXAMINED_MAX:
            segment = segments[index]
            over = (size_max > 0 and settled_bytes > size_max) or self._arrived_before(index, too_old_ms)
            if segment.end > self._held_from or (self.rules.on() and not over):
                finished = True
                break
            if self._is_live(segment.first, segment.end):
                kept.append(segment)
            else:
                self._release(segment)
                settled_bytes -= segment.usage_bytes
            index += 1
        self._maintain_from = 0 if finished or index == len(segments) else segments[index].first
        if len(kept) < index - start:
            segments[start:index] = kept
            self._firsts[start:index] = [segment.first for segment in kept]

    def _arrived_before(self, index: int, wall_ms: int) -> bool:
        """Return whether all of a segment arrived before `wall_ms`: not later than the oldest of the next segment."""
        following = self._segments[index + 1 : index + 2]
        newest_ms = following[0].arrived_ms if following else 0
        return (newest_ms or self._newest_ms) < wall_ms

    def _is_live(self, first: int, end: int) -> bool:
        """Return whether the ledger has messages in `[first, end)`, a range that no ledger segment exceeds."""
        segment = self.ledger.segments.at_or_after(first)
        return segment is not None and segment.first < end

    def _release(self, segment: LogSegment) -> None:
        """Release a segment, and its page in the store. The caller removes it from the lists."""
        self.usage_bytes -= segment.usage_bytes
        if segment.batch is not None:
            self.memory_bytes -= segment.batch.memory_bytes()
        if segment.publication is not None:
            self.ledger.close(segment.publication, segment.end - segment.first)
        if segment.page_first != NO_PAGE:
            self._pages.discard(segment.page_first)
            self.ledger.effects.dropped_pages.append(segment.page_first)

    def _close(self) -> None:
        """Deactivate the log, keeping only what the ledger keeps."""
        for segment in self._segments:
            page_is_live = segment.page_first != NO_PAGE and self._is_live(segment.first, segment.end)
            if page_is_live:
                self._pages.discard(segment.page_first)
            else:
                self._release(segment)
        self._forget()

    def _forget(self) -> None:
        self.active = False
        self.usage_bytes = self._newest_ms = 0
        self.memory_bytes = 0
        self._firsts = []
        self._segments = []
        self._pages = set()
        self._pageable_from = self._maintain_from = 0
