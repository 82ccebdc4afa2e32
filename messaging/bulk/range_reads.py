"""Plan reads of sequences: which batches and pages answer a read, and why sequences are missing.

A read is split into chunks of about the size that the reader asks for; the reader requests each next chunk. So a slow
reader costs no memory, and any number of readers may read the same range any number of times. A partition with a
retained log (messaging.bulk.retained_log) serves what was stored until it is trimmed, whatever consumers settled; one
without serves what is unsettled. Only stored messages are served. Planning changes nothing.
"""

from typing import Final, final

from sluicegate.messaging.bulk.log_segments import NO_PAGE
from sluicegate.messaging.bulk.retained_log import RetainedLog
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.outcomes import DISCARD_DAMAGED
from sluicegate.messaging.partitions.state.segments import Gap

CHUNK_BYTES_MAX: Final = 8 << 20  # as quotas count them; a page is not split, so a chunk may be one page larger
CHUNK_ROWS_MAX: Final = 65_536  # a page or batch is not split for it
CHUNK_RANGES_MAX: Final = 4096  # of sequences: a chunk of single messages takes 3 ms then


@final
class RangeRun:
    """Messages with consecutive sequences: rows `[start_row, stop_row)` of a batch."""

    __slots__ = ("batch", "first_sequence", "start_row", "stop_row")

    def __init__(self, first_sequence: int, batch: MessageBatch, start_row: int, stop_row: int) -> None:
        self.first_sequence = first_sequence
        self.batch = batch
        self.start_row = start_row
        self.stop_row = stop_row

    def __repr__(self) -> str:
        return f"RangeRun({self.first_sequence}..{self.first_sequence + self.stop_row - self.start_row - 1})"


@final
class RangePiece:
    """Wanted sequences, ascending ranges, of one batch in memory or of one page."""

    __slots__ = ("batch", "first", "page_first", "wanted")

    def __init__(self, first: int, batch: MessageBatch | None, page_first: int, wanted: list[tuple[int, int]]) -> None:
        self.first = first  # sequence of the batch's row 0
        self.batch = batch
        self.page_first = page_first
        self.wanted = wanted


@final
class RangePlan:
    """One chunk: pieces in order, and where the next chunk begins; `synced_end` is the end of what may be read now."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.next_sequence = first
        self.synced_end = first
        self.pieces: list[RangePiece] = []


@final
class _Source:
    """A segment of the log or of the ledger, whichever is read."""

    def __init__(self, first: int, end: int, size: int, batch: MessageBatch | None, page_first: int) -> None:
        self.first = first
        self.end = end
        self.usage_bytes = size
        self.batch = batch
        self.page_first = page_first


def plan_range(log: RetainedLog, first: int, end: int, bytes_max: int) -> RangePlan:
    """Plan a chunk of `[first, end)` of about `bytes_max`, at least one message if there is any."""
    ledger = log.ledger
    plan = RangePlan(first)
    plan.synced_end = log.synced_end()
    end = min(end, plan.synced_end)
    bytes_left = min(bytes_max, CHUNK_BYTES_MAX)
    ranges_left = CHUNK_RANGES_MAX
    rows_left = CHUNK_ROWS_MAX
    at = first
    while at < end and ranges_left > 0 and rows_left > 0 and bytes_left > 0:
        source = _source(log, at)
        if source is None or source.first >= end:
            at = end
            break
        at = max(at, source.first)
        stop = min(end, source.end)
        if source.batch is not None:
            stop, size = _cut(source.batch, at - source.first, stop - source.first, bytes_left)
            stop += source.first
        else:
            size = source.usage_bytes
            if plan.pieces and size > bytes_left:
                break
        wanted = [(at, stop)] if log.active else ledger.settled.outside(max(at, ledger.floor), stop)
        if wanted:
            plan.pieces.append(RangePiece(source.first, source.batch, source.page_first, wanted))
            bytes_left -= size
            ranges_left -= len(wanted)
            rows_left -= stop - at
        at = stop
    plan.next_sequence = at
    return plan


def _source(log: RetainedLog, sequence: int) -> _Source | None:
    if log.active:
        segment = log.at_or_after(sequence)
        if segment is None:
            return None
        return _Source(segment.first, segment.end, segment.usage_bytes, segment.batch, segment.page_first)
    unsettled = log.ledger.segments.at_or_after(sequence)
    while unsettled is not None and unsettled.publication is not None and unsettled.publication.refused:
        unsettled = log.ledger.segments.at_or_after(unsettled.end)  # its publisher was told that it was not stored
    if unsettled is None:
        return None
    page_first = NO_PAGE if unsettled.page is None else unsettled.page.first
    return _Source(unsettled.first, unsettled.end, unsettled.bytes_left, unsettled.batch, page_first)


def _cut(batch: MessageBatch, start_row: int, stop_row: int, bytes_max: int) -> tuple[int, int]:
    """Return the row at which about `bytes_max` are reached, and the bytes up to there."""
    whole = batch.usage_bytes(durable=True)
    if whole <= bytes_max:
        return stop_row, whole
    held = 0
    for row in range(start_row, stop_row):
        held += batch.usage_bytes_of(row, durable=True)
        if held >= bytes_max:
            return row + 1, held
    return stop_row, held


def runs_of(piece: RangePiece, page: list[tuple[int, MessageBatch]] | None) -> list[RangeRun]:
    """Return the messages of a piece: of its batch, or of the runs of its page, which was read meanwhile."""
    batches = page if piece.batch is None else [(piece.first, piece.batch)]
    runs: list[RangeRun] = []
    for batch_first, batch in batches or []:
        batch_end = batch_first + batch.count
        for first, end in piece.wanted:
            start, stop = max(first, batch_first), min(end, batch_end)
            if start < stop:
                runs.append(RangeRun(start, batch, start - batch_first, stop - batch_first))
    return runs


def gaps_of(log: RetainedLog, plan: RangePlan, runs: list[RangeRun], damaged: list[RangePiece]) -> list[Gap]:
    """Return every range between the plan's ends that the runs leave out, with the reason."""
    gaps: list[Gap] = []
    ledger = log.ledger
    for piece in damaged:
        for first, end in piece.wanted:
            if log.active and log.needs_page(piece.page_first):
                gaps.append(Gap(first, end, DISCARD_DAMAGED))
            else:  # a page that was deleted while it was read is not damaged
                unsettled = ledger.settled.outside(max(first, ledger.floor), end)
                gaps += [Gap(start, stop, DISCARD_DAMAGED) for start, stop in unsettled]
    at = plan.first
    explained = sorted(
        [*[(run.first_sequence, run.first_sequence + run.stop_row - run.start_row) for run in runs]]
        + [(gap.first, gap.end) for gap in gaps]
    )
    for first, end in [*explained, (plan.next_sequence, plan.next_sequence)]:
        if at < first:
            gaps += ledger.gaps.explain(at, first)
        at = max(at, end)
    gaps.sort()
    return gaps
