"""The sequences of one partition: segments of unsettled messages, and the reasons of the gaps.

A segment is a batch in memory or a page in the store. Gaps are for readers of ranges, who count what they get. Their
reasons are recorded as they arise and live as long as the process: sequences that went before the last start are called
settled. Ranges of gaps are kept up to a limit; the oldest are forgotten first, and are then called settled as well.
"""

from bisect import bisect_right
from heapq import heappop, heappush
from typing import Final, NamedTuple, final

from mypy_extensions import i64, mypyc_attr

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.headers import PRIORITY_DEFAULT, PRIORITY_MAX, Headers
from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.message.ranges import RangeSet

PRIORITIES_ALL: Final = (1 << PRIORITY_MAX + 1) - 1
TIME_MAX: Final = (1 << 63) - 1

GAP_SETTLED: Final = "settled"  # consumed, or gone for a reason that is no longer known
GAP_NEVER_USED: Final = "never_used"  # skipped by a crash, or lost with a damaged record: see the quarantine
GAP_MOVED: Final = "moved"  # it is in another queue: the dead message queue, or the target of an operator's move

GAP_RANGES_MAX: Final = 4096  # per reason and partition: 64 KiB; scattered discards beyond it lose their reason


class Marks(NamedTuple):
    """Bounds for every message of a segment, known without reading it. Times are wall clock, in milliseconds.

    A page carries its marks in its directory row, so a partition with a million messages on disk knows from some
    thousand rows when the next of them may expire or become due, and which priorities there are. A page is read when
    its marks say that it may be time, and its messages decide.
    """

    arrived_ms: int  # when the oldest arrived
    expires_ms: int  # the earliest expiry that a publisher set; 0: none
    not_before_ms: int  # the earliest time of delivery that a publisher set; 0: a message may be delivered at once
    priorities: int  # bit p is set when a message may have priority p


# Marks of a page whose row has none: its messages have to be read.
UNKNOWN_MARKS: Final = Marks(0, 1, 0, PRIORITIES_ALL)


def marks_of(batch: MessageBatch) -> Marks:
    """Return the marks of all rows of a batch."""
    column = batch.headers()
    if column is None:
        return Marks(batch.received_ms, 0, 0, 1 << PRIORITY_DEFAULT)
    expires_ms = 0
    not_before_ms = TIME_MAX
    priorities = 0
    for headers in column:
        if headers is None:
            not_before_ms = 0
            priorities |= 1 << PRIORITY_DEFAULT
            continue
        if headers.expires_at_ms > 0 and (expires_ms == 0 or headers.expires_at_ms < expires_ms):
            expires_ms = min(headers.expires_at_ms, TIME_MAX)
        not_before_ms = min(not_before_ms, max(headers.not_before_ms, 0))
        priorities |= 1 << min(headers.priority, PRIORITY_MAX)
    return Marks(batch.received_ms, expires_ms, not_before_ms, priorities)


def marks_together(one: Marks, other: Marks) -> Marks:
    """Return the combined marks of two segments."""
    if one.expires_ms == 0 or other.expires_ms == 0:
        expires_ms = max(one.expires_ms, other.expires_ms)
    else:
        expires_ms = min(one.expires_ms, other.expires_ms)
    return Marks(
        min(one.arrived_ms, other.arrived_ms),
        expires_ms,
        min(one.not_before_ms, other.not_before_ms),
        one.priorities | other.priorities,
    )


def has_delays(column: list[Headers | None]) -> bool:
    """Return whether some message may not be delivered at once."""
    return any(headers is not None and headers.not_before_ms > 0 for headers in column)


PAGE_ABSENT: Final = 0  # its messages are in the store only
PAGE_WANTED: Final = 1  # requested, not read yet
PAGE_LOADED: Final = 2  # its segments have their batches again
NO_GENERATION: Final = -1

# A chunk is what an insertion or removal moves in memory: 2 KiB of pointers, cheaper than the search for the place.
CHUNK_SEGMENTS_MAX: Final = 256


@final
class Page:
    """A page of the store that holds a segment of a partition. It is deleted when nothing in it is unsettled."""

    __slots__ = ("first", "live_count", "marks", "next_ms", "next_rules", "state")

    def __init__(self, first: int, live_count: int, marks: Marks) -> None:
        self.first = first  # its key in the store
        self.live_count = live_count
        self.marks = marks  # of all its messages, or of the remaining ones
        # When time next affects its messages, 0: never. Valid for rules of that generation.
        self.next_ms: i64 = 0
        self.next_rules: i64 = NO_GENERATION
        self.state = PAGE_ABSENT

    def __repr__(self) -> str:
        return f"Page({self.first}, live={self.live_count}, state={self.state})"


@final
@mypyc_attr(free_list_len=1)
class Segment:
    """Consecutive sequences `[first, end)` whose messages are the rows of one batch, or in a page.

    Invariants: with a batch, row `i` has sequence `first + i`; without one there is a page. `live_count` counts the
    unsettled sequences and is never 0 in a list. Those of a lost segment are all with a consumer, or moving.
    """

    __slots__ = ("batch", "bytes_left", "end", "expires_ms", "first", "live_count", "page", "publication")

    def __init__(
        self,
        first: i64,
        end: i64,
        live_count: i64,
        bytes_left: i64,
        batch: MessageBatch | None,
        publication: Publication | None,
        page: Page | None,
    ) -> None:
        self.first = first
        self.end = end
        self.live_count = live_count
        self.bytes_left = bytes_left  # usage of the unsettled messages, by average; 0 with the last of them
        self.batch = batch
        self.publication = publication  # keeps it in the journal; None once paged, or when it is not durable
        self.page = page
        self.expires_ms = 0  # no message of the batch expires earlier; 0: none expires

    def is_lost(self) -> bool:
        """Return whether its page is in memory, and did not contain it: a consumer may settle it, but not return it."""
        return self.batch is None and self.page is not None and self.page.state == PAGE_LOADED

    def __repr__(self) -> str:
        where = "page" if self.batch is None else "memory"
        return f"Segment({self.first}..{self.end - 1}, live={self.live_count}, {where})"


@final
class _Chunk:
    """A run of neighbours in the list, with their first sequences in a list for the search."""

    __slots__ = ("firsts", "segments")

    def __init__(self, segments: list[Segment]) -> None:
        self.segments = segments
        self.firsts = [segment.first for segment in segments]


@final
class SegmentList:
    """Segments in sequence order, without overlap; sequences between them are settled.

    A segment is removed when its last message is settled, wherever it is: one message that no consumer settles must not
    keep everything after it. So removal in the middle has to be cheap, and the list is split into chunks. With 200,000
    one-message segments a removal at the head costs 0.3 us; from one flat list it cost 40.

    Invariants: no chunk is empty, except the only one; chunks and segments ascend; beside a `_lone` segment there is
    none.
    """

    def __init__(self) -> None:
        # The only segment, if it came when there was none: where each message comes alone, one is settled before the
        # next comes, and the lists would cost 1,400 instructions for it.
        self._lone: Segment | None = None
        self._chunks: list[_Chunk] = [_Chunk([])]
        self._chunk_firsts: list[int] = [0]  # a lower bound for each chunk, above all sequences of the chunk before
        self._count: i64 = 0

    def __len__(self) -> int:
        return self._count

    def append(self, segment: Segment) -> None:
        """Add a segment after all others."""
        if self._count == 0:
            self._lone = segment
            self._count = 1
            return
        self._line_up()
        chunk = self._chunks[-1]
        if len(chunk.firsts) >= CHUNK_SEGMENTS_MAX:
            chunk = _Chunk([segment])
            self._chunks.append(chunk)
            self._chunk_firsts.append(segment.first)
        else:
            chunk.segments.append(segment)
            chunk.firsts.append(segment.first)
        self._count += 1

    def at_or_after(self, sequence: int) -> Segment | None:
        """Return the segment that contains `sequence`, else the next one, else None."""
        lone = self._lone
        if lone is not None:
            return lone if sequence < lone.end else None
        head = self._chunks[0].segments
        if head and sequence < head[0].end:  # the oldest: what a consumer that keeps up takes, without a search
            return head[0]
        number = self._chunk_of(sequence)
        chunk = self._chunks[number]
        index = bisect_right(chunk.firsts, sequence) - 1
        if index >= 0:
            segment = chunk.segments[index]
            if sequence < segment.end:
                return segment
        index += 1
        if index < len(chunk.segments):
            return chunk.segments[index]
        return self._chunks[number + 1].segments[0] if number + 1 < len(self._chunks) else None

    def overlapping(self, first: int, end: int) -> list[Segment]:
        """Return the segments that share a sequence with `[first, end)`."""
        found: list[Segment] = []
        segment = self.at_or_after(first)
        while segment is not None and segment.first < end:
            found.append(segment)
            if segment.end >= end:
                break
            segment = self.at_or_after(segment.end)
        return found

    def all(self) -> list[Segment]:
        """Return every segment."""
        if self._lone is not None:
            return [self._lone]
        return [segment for chunk in self._chunks for segment in chunk.segments]

    def remove(self, segment: Segment) -> None:
        """Remove a segment."""
        if segment is self._lone:
            self._lone = None
            self._count = 0
            return
        head = self._chunks[0]
        if head.segments and head.segments[0] is segment:
            head.segments.pop(0)
            head.firsts.pop(0)
            self._count -= 1
            if not head.firsts:
                self._drop_empty(0)
            return
        number = self._chunk_of(segment.first)
        chunk = self._chunks[number]
        index = bisect_right(chunk.firsts, segment.first) - 1
        assert chunk.segments[index] is segment, "a segment is removed once"
        del chunk.segments[index]
        del chunk.firsts[index]
        self._count -= 1
        if not chunk.firsts:
            self._drop_empty(number)

    def replace(self, old: list[Segment], new: list[Segment]) -> None:
        """Replace one or more neighbours by segments within their range."""
        self._line_up()
        place = self._chunk_of(old[0].first)
        for segment in old:
            number = self._chunk_of(segment.first)
            chunk = self._chunks[number]
            index = bisect_right(chunk.firsts, segment.first) - 1
            assert chunk.segments[index] is segment, "a replaced segment is in the list"
            del chunk.segments[index]
            del chunk.firsts[index]
            if not chunk.firsts and number != place:
                self._drop_empty(number)
        self._count += len(new) - len(old)
        if place + 1 < len(self._chunks):  # the old segments may have reached into it, so the new ones may as well
            self._chunk_firsts[place + 1] = max(self._chunk_firsts[place + 1], old[-1].end)
        chunk = self._chunks[place]
        if new:
            index = bisect_right(chunk.firsts, new[0].first)
            chunk.segments[index:index] = new
            chunk.firsts[index:index] = [segment.first for segment in new]
        if not chunk.firsts:
            self._drop_empty(place)
        elif len(chunk.firsts) > 2 * CHUNK_SEGMENTS_MAX:
            self._split(place)

    def check(self) -> None:
        """Assert the invariants."""
        segments = self.all()
        assert len(segments) == self._count
        assert self._lone is None or self._chunks[0].segments == []
        assert len(self._chunks) == 1 or [] not in [chunk.segments for chunk in self._chunks]
        for number, chunk in enumerate(self._chunks):
            assert chunk.firsts == [segment.first for segment in chunk.segments]
            assert not chunk.firsts or self._chunk_firsts[number] <= chunk.firsts[0]
            assert number == 0 or self._chunks[number - 1].firsts[-1] < self._chunk_firsts[number]
        previous_end = 0
        for segment in segments:
            assert previous_end <= segment.first < segment.end, "segments ascend without overlap"
            assert 0 < segment.live_count <= segment.end - segment.first
            assert segment.batch is not None or segment.page is not None, "a segment has a batch or a page"
            assert segment.batch is None or segment.batch.count == segment.end - segment.first
            previous_end = segment.end

    def _line_up(self) -> None:
        """Move the lone segment, if there is one, into the chunks."""
        lone = self._lone
        if lone is not None:
            self._lone = None
            self._chunks[0].segments.append(lone)
            self._chunks[0].firsts.append(lone.first)

    def _chunk_of(self, sequence: int) -> int:
        """Return the number of the chunk that has a segment with this first sequence, or would have it."""
        if len(self._chunk_firsts) == 1:
            return 0
        number = bisect_right(self._chunk_firsts, sequence) - 1
        return number if number > 0 else 0

    def _drop_empty(self, number: int) -> None:
        if len(self._chunks) > 1:
            del self._chunks[number]
            del self._chunk_firsts[number]
        if number == 0:
            self._chunk_firsts[0] = 0

    def _split(self, number: int) -> None:
        segments = self._chunks[number].segments
        parts = [
            _Chunk(segments[start : start + CHUNK_SEGMENTS_MAX])
            for start in range(0, len(segments), CHUNK_SEGMENTS_MAX)
        ]
        lowest = self._chunk_firsts[number]
        self._chunks[number : number + 1] = parts
        self._chunk_firsts[number : number + 1] = [lowest, *[part.firsts[0] for part in parts[1:]]]


@final
class SegmentSchedule:
    """The times (wall clock, milliseconds) at which segments have to be checked, each with a sequence in the segment.

    A priority queue, earliest first. An entry is a hint: its segment may be gone or may have other times by then, and
    the caller checks. So nothing is ever removed from the middle.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, at_ms: int, sequence: int) -> None:
        """Have the segment with this sequence checked at this time or soon after."""
        heappush(self._entries, (at_ms, sequence))

    def next_ms(self) -> int:
        """Return the earliest time; 0 when there is none."""
        return self._entries[0][0] if self._entries else 0

    def take_due(self, now_ms: int) -> int:
        """Remove one entry whose time has come and return its sequence; -1 when there is none."""
        if not self._entries or self._entries[0][0] > now_ms:
            return -1
        return heappop(self._entries)[1]

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()


class Gap(NamedTuple):
    """Sequences `[first, end)` without messages, and the reason."""

    first: int
    end: int
    reason: str


@final
class GapReasons:
    """Reasons for the sequences of one partition that no consumer settled."""

    def __init__(self) -> None:
        self._ranges: dict[str, RangeSet] = {}

    def note(self, reason: str, first: int, end: int) -> None:
        """Record why `[first, end)` went. The reasons are those of messaging.message.outcomes, and GAP_NEVER_USED."""
        ranges = self._ranges.get(reason)
        if ranges is None:
            ranges = self._ranges[reason] = RangeSet()
        ranges.add(first, end)
        if ranges.ranges_count() > GAP_RANGES_MAX:
            ranges.discard(ranges.lowest(), ranges.lowest_end())

    def explain(self, first: int, end: int) -> list[Gap]:
        """Return the gaps of `[first, end)`, none of which holds a message, each with its reason, ascending."""
        explained: list[Gap] = []
        known = RangeSet()
        for reason, ranges in self._ranges.items():
            for start, stop in ranges.within(first, end):
                explained.append(Gap(start, stop, reason))
                known.add(start, stop)
        explained += [Gap(start, stop, GAP_SETTLED) for start, stop in known.outside(first, end)]
        explained.sort()
        return explained
