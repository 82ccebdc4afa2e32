"""What a node that stops in good order leaves behind for the next start: the exact state of every partition."""

from sluicegate.actors.messages.queues import ClosedLedger
from sluicegate.storage.commit.planner import SpoolPlanner
from sluicegate.storage.records.cursor import CursorState


def last_cursors(closed: list[ClosedLedger], planner: SpoolPlanner) -> list[CursorState]:
    """Return the cursors to write last: the next start skips no sequences, and knows what was delivered and waits."""
    states = []
    for each in closed:
        cursor = planner.cursors[each.partition_id]
        cursor.next_sequence_reserved = each.next_sequence
        # What a replay offers again lies below the floor, and does not outlive the node.
        redelivered = [
            (max(first, cursor.floor), end, count) for first, end, count in each.redelivered if end > cursor.floor
        ]
        delays = tuple([delay for delay in each.delays if delay[0] >= cursor.floor])
        states.append(cursor.state(redelivered, delays))
    return states
