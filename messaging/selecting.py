"""Which ready message is next for a flow that selects: the oldest that its selector selects.

What a message is never changes, so each is looked at once for each selecting flow. A cursor says how far a flow has
looked, and a set which of the messages below it are ready again, after somebody else had them, and are to be looked at
after all. What is passed over stays ready, for others.

One turn looks at a bounded number of messages; a page is asked for when the cursor comes to it.
"""

from typing import Final

from messaging.flows import LedgerFlow
from messaging.ledger_state import LedgerState
from messaging.segments import Segment

LOOKS_PER_TURN: Final = 5000  # some two milliseconds, in which the node does nothing else


def next_selected(state: LedgerState, flow: LedgerFlow, limit: int) -> tuple[Segment, int, int] | None:
    """Return at most `limit` ready messages of one segment that the flow selects.

    None when there are none at hand: a page has to come first, or the next turn, or messages. Everything that is ready
    lies in `requeued`: the caller has gathered what was fresh.
    """
    selector = flow.flow.selector
    assert selector is not None, "the flow selects"
    while state.looks_left > 0:
        first, end = not_looked_at(state, flow)
        if first == end:
            return None
        segment = state.segments.at_or_after(first)
        assert segment is not None, "what is ready is in a segment"
        if not state.at_hand(segment):
            return None
        batch = segment.batch
        assert batch is not None
        ask_for_next_page(state, segment)
        stop = min(end, segment.end, first + state.looks_left)
        found = first
        while found < stop and not selector.matches(batch, found - segment.first):
            found += 1
        flow.passed_over(first, found)
        run_end = min(found + 1, stop)
        stop = min(stop, found + limit)
        while run_end < stop and selector.matches(batch, run_end - segment.first):
            run_end += 1
        state.looks_left -= run_end - first
        if found < run_end:
            return segment, found, run_end
    return None


def not_looked_at(state: LedgerState, flow: LedgerFlow) -> tuple[int, int]:
    """Return the oldest run of ready messages that a flow has not looked at; an empty one when there is none."""
    again = flow.again
    while again.total > 0:
        first, end = again.next_range(0)
        ready_first, ready_end = state.requeued.next_range(first)
        if ready_first < ready_end and ready_first < end:
            again.discard(first, ready_first)
            return ready_first, min(ready_end, end)
        again.discard(first, end)  # somebody has them, or they are gone
    first, end = state.requeued.next_range(flow.looked_to)
    flow.looked_to = first if first < end else state.next_sequence
    return first, end


def ask_for_next_page(state: LedgerState, segment: Segment) -> None:
    """Have the next page read while this one is looked at."""
    if segment.page is not None:
        following = state.segments.at_or_after(segment.end)
        if following is not None:
            state.at_hand(following)
