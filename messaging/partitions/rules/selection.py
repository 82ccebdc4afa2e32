"""Select the next ready message for a flow that chooses: the oldest that it wants and that is of its groups.

A flow wants what its selector selects and what it has not declined.

A message never changes, so each such flow scans it once. A cursor says how far a flow has scanned, and a set which
messages below the cursor became ready again, after another flow had them, and have to be scanned after all. Skipped
messages stay ready, for other flows.

One turn scans a bounded number of messages; a page is requested when the cursor reaches it.
"""

from typing import Final, final

from sluicegate.messaging.partitions.state.flows import LedgerFlow
from sluicegate.messaging.partitions.state.segments import PAGE_WANTED, Segment
from sluicegate.messaging.partitions.state.state import LedgerState

SCANS_PER_TURN: Final = 5000  # simple ones: some two milliseconds, in which the node does nothing else

# What a flow may do with messages.
TAKE: Final = 0
PASS: Final = 1
WAIT: Final = 2  # another flow has to scan them first


class Choice:
    """Decides what a flow may do with the ready messages at its cursor. A class and not a Protocol, like `Address`."""

    def run(
        self, state: LedgerState, flow: LedgerFlow, segment: Segment, first: int, stop: int, limit: int
    ) -> tuple[int, int]:
        """Return what the flow may do with a segment's messages from `first` on, and the end of the run it applies to.

        The run ends before `stop`, and at most `limit` messages are to be taken. Each scan counts against
        `scan_budget`, by its weight; when that is used up, the run ends.
        """
        raise AssertionError("run is abstract")


@final
class BySelector(Choice):
    """A flow takes what it wants."""

    def run(
        self, state: LedgerState, flow: LedgerFlow, segment: Segment, first: int, stop: int, limit: int
    ) -> tuple[int, int]:
        """Return whether the message is wanted, and the end of the run of equal answers."""
        batch = segment.batch
        assert batch is not None, "it is in memory"
        is_wanted = flow.wants(batch, first - segment.first, first)
        state.scan_budget -= flow.scan_weight(batch, first - segment.first)
        if is_wanted:
            stop = min(stop, first + limit)
        end = first + 1
        while end < stop and state.scan_budget > 0 and flow.wants(batch, end - segment.first, end) == is_wanted:
            state.scan_budget -= flow.scan_weight(batch, end - segment.first)
            end += 1
        return TAKE if is_wanted else PASS, end


BY_SELECTOR: Final = BySelector()


def next_chosen(state: LedgerState, flow: LedgerFlow, limit: int, choice: Choice) -> tuple[Segment, int, int] | None:
    """Return at most `limit` ready messages of one segment that the flow takes.

    Return None while the flow waits: for a page, for the next turn, or for messages. Everything ready is in
    `requeued`: the caller has advanced the cursor to the end.
    """
    while state.scan_budget > 0:
        first, end = next_unscanned(state, flow)
        if first == end:
            return None
        segment = state.segments.at_or_after(first)
        assert segment is not None, "a ready message is in a segment"
        if not state.ensure_loaded(segment):
            return None
        ask_for_next_page(state, segment)
        stop = min(end, segment.end)
        found = first
        while found < stop and state.scan_budget > 0:
            verdict, end = choice.run(state, flow, segment, found, stop, limit)
            if verdict == PASS:
                found = end
                continue
            flow.passed_over(first, found)
            return (segment, found, end) if verdict == TAKE else None
        flow.passed_over(first, found)
    return None


def may_select(state: LedgerState, flow: LedgerFlow, sequence: int) -> bool:
    """Return whether a flow wants a message, or may want it because it is not in memory."""
    segment = state.segments.at_or_after(sequence)
    if segment is None or segment.batch is None:
        return flow.declined is None or sequence not in flow.declined
    return flow.wants(segment.batch, sequence - segment.first, sequence)


def next_unscanned(state: LedgerState, flow: LedgerFlow) -> tuple[int, int]:
    """Return the oldest run of ready messages that a flow has not scanned; an empty one when there is none."""
    again = flow.again
    while again.total > 0:
        first, end = again.next_range(0)
        ready_first, ready_end = state.requeued.next_range(first)
        if ready_first < ready_end and ready_first < end:
            again.discard(first, ready_first)
            return ready_first, min(ready_end, end)
        again.discard(first, end)  # another flow has them, or they are gone
    first, end = state.requeued.next_range(flow.scanned_to)
    flow.scanned_to = first if first < end else state.next_sequence
    return first, end


def ask_for_next_page(state: LedgerState, segment: Segment) -> None:
    """Have the next page read while this one is scanned."""
    if segment.page is not None:
        following = state.segments.at_or_after(segment.end)
        if following is not None:
            state.ensure_loaded(following)


# Whether a partition has more for a flow now: asked when a consumer wants its credit back.


def has_more_for(ledger: LedgerState, flow_id: int) -> bool:
    """Return whether more is to come for a flow of a ledger that has just delivered all it could.

    It is while a page is read, while a selecting flow has more to scan, and while messages wait for the consumer's
    socket. It is not while messages wait for their time, or while the flow, or all consumers together, are at their
    maximum: that can last for ever.
    """
    flow = ledger.flows.get(flow_id)
    if flow is None or flow.paused or not (flow.to_resend or ledger.has_ready()):
        return False
    window = flow.flow.window
    if window.used >= window.limit:
        return False
    if window.is_shut:
        return True
    if flow.to_resend:
        return window.room() > 0
    if flow.room(ledger.rules.unacked_count_max) == 0:
        return False
    if flow.selects() and ledger.scan_pending():
        return True
    pages = [segment.page for segment in ledger.segments.all()]
    return any(page is not None and page.state == PAGE_WANTED for page in pages)
