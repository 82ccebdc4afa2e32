"""Select the next ready message by priority: the highest first, and the oldest of those.

There is no structure beside the ledger's: for each priority a cursor below which no message of it is ready, and the
marks of pages, which tell the priorities in them. So a backlog on disk costs no memory, and a page is read only for a
priority that it contains.
"""

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.headers import PRIORITY_DEFAULT, PRIORITY_MAX
from sluicegate.messaging.partitions.state.segments import Segment
from sluicegate.messaging.partitions.state.state import LedgerState


def next_by_priority(state: LedgerState, limit: int) -> tuple[Segment, int, int] | None:
    """Return at most `limit` ready messages of one segment and priority; None when a page has to be read first.

    Everything ready is in `requeued`: the caller has advanced the cursor to the end.
    """
    cursors = state.ready_from_of
    for priority in range(PRIORITY_MAX, -1, -1):
        at = cursors[priority]
        while at < state.next_sequence:
            first, end = state.requeued.next_range(at)
            if first == end:
                at = state.next_sequence
                break
            segment = state.segments.at_or_after(first)
            assert segment is not None, "a ready message is in a segment"
            batch = segment.batch
            if batch is None:
                assert segment.page is not None
                if segment.page.marks.priorities >> priority & 1 == 0:
                    at = segment.end
                    continue
                state.ensure_loaded(segment)  # requests it
                cursors[priority] = first
                return None
            stop = min(end, segment.end)
            run_first, run_end = _run_of(batch, first - segment.first, stop - segment.first, priority)
            if run_first < run_end:
                found = segment.first + run_first
                cursors[priority] = found
                return segment, found, min(segment.first + run_end, found + limit)
            at = stop
        cursors[priority] = at
    return None


def _run_of(batch: MessageBatch, start: int, stop: int, priority: int) -> tuple[int, int]:
    """Return the first consecutive rows of `[start, stop)` with this priority; `(stop, stop)` for none."""
    column = batch.headers()
    if column is None:
        return (start, stop) if priority == PRIORITY_DEFAULT else (stop, stop)
    found = stop
    for row in range(start, stop):
        headers = column[row]
        has = PRIORITY_DEFAULT if headers is None else min(headers.priority, PRIORITY_MAX)
        if has == priority:
            if found == stop:
                found = row
        elif found != stop:
            return found, row
    return found, stop
