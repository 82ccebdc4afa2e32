"""Hold messages until their own commit, in a queue that delivers only stored messages.

Other queues deliver a message before it is stored, which saves the commit if the consumer settles in time. After a
crash between the two, the publisher sends the message again, and it is delivered twice. A queue with
`deliver_after_commit` pays the commit for each message, and its consumers never have a message that the store lost.

Order is kept: a stored message waits while an older message of the partition is not stored.
"""

from sluicegate.messaging.partitions.rules.expiry import hold_delayed, schedule_expiry
from sluicegate.messaging.partitions.state.segments import Segment
from sluicegate.messaging.partitions.state.state import LedgerState


def hold_until_stored(state: LedgerState, segment: Segment) -> None:
    """Hold the messages of a new segment, unless they are stored already or never will be."""
    publication = segment.publication
    if publication is None or publication.confirmed:
        return
    state.advance_cursor()
    for first, end in state.requeued.remove(segment.first, segment.end):
        state.unstored.add(first, end)


def release_stored(state: LedgerState) -> None:
    """Make ready what has been stored meanwhile; messages with a later time of delivery continue to wait."""
    while state.unstored.total > 0:
        segment = state.segments.at_or_after(state.unstored.lowest())
        assert segment is not None, "a message that waits for its commit is in a segment"
        publication = segment.publication
        if publication is not None and not publication.confirmed:
            return  # the store refused it; it is withdrawn soon
        for first, end in state.unstored.remove(segment.first, segment.end):
            state.make_ready(first, end)
        hold_delayed(state, segment, 0)
        schedule_expiry(state, segment)
