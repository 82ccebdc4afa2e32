"""The segments of a retained log: consecutive sequences in a batch of the journal, or in a page."""

from bisect import bisect_right
from typing import Final, final

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.partitions.recovery import StoredPartition

NO_PAGE: Final = -1
_BEYOND: Final = 1 << 64  # every sequence


@final
class LogSegment:
    """Consecutive sequences `[first, end)`: the rows of one batch, or a part of one page."""

    __slots__ = (
        "arrived_ms",
        "batch",
        "bytes_before",
        "end",
        "first",
        "page_first",
        "publication",
        "usage_bytes",
    )

    def __init__(
        self,
        first: int,
        end: int,
        usage_bytes: int,
        arrived_ms: int,
        *,
        batch: MessageBatch | None,
        publication: Publication | None,
        page_first: int,
    ) -> None:
        self.first = first
        self.end = end
        self.usage_bytes = usage_bytes
        self.arrived_ms = arrived_ms  # wall clock, of the oldest, or later; 0: not known, of pages of earlier releases
        self.batch = batch
        self.publication = publication
        self.page_first = page_first  # key of its page in the store; NO_PAGE while the journal has it
        self.bytes_before = 0  # usage bytes appended to the log before it: the byte index

    def __repr__(self) -> str:
        return f"LogSegment({self.first}..{self.end - 1}, {'page' if self.batch is None else 'memory'})"


def journaled_segment(first: int, batch: MessageBatch, publication: Publication) -> LogSegment:
    """Return the segment of a batch that is in the journal, or will be."""
    return LogSegment(
        first,
        first + batch.count,
        batch.usage_bytes(durable=True),
        batch.received_ms,
        batch=batch,
        publication=publication,
        page_first=NO_PAGE,
    )


def paged_segment(page_first: int, first: int, end: int, usage_bytes: int, arrived_ms: int) -> LogSegment:
    """Return the segment of a page of the store."""
    return LogSegment(first, end, usage_bytes, arrived_ms, batch=None, publication=None, page_first=page_first)


def log_segments_of(stored: StoredPartition) -> list[LogSegment]:
    """Return what the store held of a partition, settled or not, ascending; what is in a page, as the page."""
    pages = sorted([(each.first, each.end) for each in stored.pages])
    found = [
        paged_segment(each.first, each.first, each.end, each.usage_bytes, each.marks.arrived_ms)
        for each in stored.pages
    ]
    for each in stored.batches:
        if not _lies_in(pages, each.first):
            found.append(journaled_segment(each.first, each.batch, each.publication))
    found.sort(key=_first_of)
    return found


def _lies_in(pages: list[tuple[int, int]], sequence: int) -> bool:
    """Return whether one of the ascending segments contains the sequence."""
    index = bisect_right(pages, (sequence, _BEYOND)) - 1
    return index >= 0 and sequence < pages[index][1]


def _first_of(segment: LogSegment) -> int:
    return segment.first
