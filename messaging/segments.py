"""The unsettled stretch of one partition as a list of segments: batches in memory, and pages in the store."""

from bisect import bisect_right
from typing import Final, final

from messaging.batch import MessageBatch
from messaging.publication import Publication

PAGE_ABSENT: Final = 0  # its messages are in the store only
PAGE_WANTED: Final = 1  # asked for, not here yet
PAGE_LOADED: Final = 2  # its segments hold their batches again


@final
class Page:
    """A page of the store that holds a stretch of a partition. It goes when nothing in it is unsettled."""

    __slots__ = ("end", "first", "live_count", "state")

    def __init__(self, first: int, end: int, live_count: int) -> None:
        self.first = first  # also its key in the store
        self.end = end
        self.live_count = live_count
        self.state = PAGE_ABSENT

    def __repr__(self) -> str:
        return f"Page({self.first}..{self.end - 1}, live={self.live_count}, state={self.state})"


@final
class Segment:
    """Consecutive sequences `[first, end)` whose messages are the rows of one batch, or lie in a page.

    Invariants: with a batch, row `i` has sequence `first + i`; without one there is a page. `live_count` counts the
    unsettled sequences.
    """

    __slots__ = ("batch", "bytes_left", "end", "first", "live_count", "page", "publication")

    def __init__(
        self,
        first: int,
        end: int,
        live_count: int,
        bytes_left: int,
        batch: MessageBatch | None,
        publication: Publication | None,
        page: Page | None,
    ) -> None:
        self.first = first
        self.end = end
        self.live_count = live_count
        self.bytes_left = bytes_left  # payload bytes of the unsettled ones, by average; 0 with the last of them
        self.batch = batch
        self.publication = publication  # what keeps it in the journal; None once paged, or when it is not durable
        self.page = page

    def __repr__(self) -> str:
        where = "page" if self.batch is None else "memory"
        return f"Segment({self.first}..{self.end - 1}, live={self.live_count}, {where})"


@final
class SegmentList:
    """Segments in sequence order, without overlap; gaps between them are sequences that hold no message.

    Invariants: `firsts[i] == segments[i].first`; `segments[i].end <= segments[i + 1].first`.
    """

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self._firsts: list[int] = []

    def __len__(self) -> int:
        return len(self.segments)

    def append(self, segment: Segment) -> None:
        """Add a segment behind all others."""
        self.segments.append(segment)
        self._firsts.append(segment.first)

    def at_or_after(self, sequence: int) -> int:
        """Return the index of the segment that holds `sequence`, else of the next one, else the length."""
        index = bisect_right(self._firsts, sequence) - 1
        if index >= 0 and sequence < self.segments[index].end:
            return index
        return index + 1

    def drop_settled_head(self) -> list[Segment]:
        """Remove and return the leading segments in which nothing is unsettled."""
        segments = self.segments
        count = 0
        while count < len(segments) and segments[count].live_count == 0:
            count += 1
        if count == 0:
            return []
        dropped = segments[:count]
        del segments[:count]
        del self._firsts[:count]
        return dropped

    def replace(self, index: int, end: int, segments: list[Segment]) -> None:
        """Put `segments` in the place of those at `[index, end)`."""
        self.segments[index:end] = segments
        self._firsts[index:end] = [segment.first for segment in segments]

    def check(self) -> None:
        """Assert the invariants."""
        assert self._firsts == [segment.first for segment in self.segments]
        previous_end = 0
        for segment in self.segments:
            assert previous_end <= segment.first < segment.end, "segments ascend without overlap"
            assert 0 <= segment.live_count <= segment.end - segment.first
            assert segment.batch is not None or segment.page is not None, "a segment's messages are somewhere"
            assert segment.batch is None or segment.batch.count == segment.end - segment.first
            previous_end = segment.end
