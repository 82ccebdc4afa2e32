"""Messages that wait for their own commit, in a queue that delivers nothing before it is stored.

Mostly a consumer has a message before the store has it, which saves the commit where it settles in time. In a crash
between the two the publisher sends the message again, and it comes twice. A queue with `deliver_after_commit` pays the
commit for each message, and after a crash a consumer knows nothing that the store does not.

Order is kept: what is stored waits while an older message of the partition is not.
"""

from sluicegate.messaging.partitions.rules.expiry import hold_delayed, schedule_expiry
from sluicegate.messaging.partitions.state.segments import Segment
from sluicegate.messaging.partitions.state.state import LedgerState


def hold_until_stored(state: LedgerState, segment: Segment) -> None:
    """Let the messages of a segment that has just come wait, unless they are stored already or never will be."""
    publication = segment.publication
    if publication is None or publication.confirmed:
        return
    state.gather_fresh()
    for first, end in state.requeued.remove(segment.first, segment.end):
        state.unstored.add(first, end)


def release_stored(state: LedgerState) -> None:
    """Make ready what has been stored meanwhile; what has to wait for its time goes on waiting for that."""
    while state.unstored.total > 0:
        segment = state.segments.at_or_after(state.unstored.lowest())
        assert segment is not None, "what waits for its commit is in a segment"
        publication = segment.publication
        if publication is not None and not publication.confirmed:
            return  # one that the store refused is taken back soon
        for first, end in state.unstored.remove(segment.first, segment.end):
            state.make_ready(first, end)
        hold_delayed(state, segment, 0)
        schedule_expiry(state, segment)
