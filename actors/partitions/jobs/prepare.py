"""A partition's part in the commit of a transaction: settlements of a consumer wait here until the commit ends.

messaging.partitions.prepared holds the messages meanwhile; actors.transactions.commit is the commit.
"""

from typing import Any, final

from sluicegate.actors.messages.data import CommitEnded, PrepareSettlement
from sluicegate.actors.partitions.jobs.job import JobContext, PartitionJob
from sluicegate.actors.partitions.triggers import wake_waiters
from sluicegate.messaging.message.outcomes import ACCEPTED
from sluicegate.messaging.partitions.prepared import (
    PreparedRanges,
    prepare,
    release_prepared,
    restore_prepared,
    settle_prepared,
)


@final
class PreparedSettlement(PartitionJob):
    """Ranges that a commit settles. It is posted a CommitEnded when the commit ends."""

    def __init__(self, context: JobContext, ranges: PreparedRanges) -> None:
        super().__init__(context)
        self._ranges = ranges
        self.settlements: list[tuple[int, int, int]] = []  # written by the commit; empty if the queue is never written
        if context.ledger.durable:
            self.settlements = [(context.partition_id, first, end) for first, end in ranges.ranges]

    def answered(self, message: Any) -> None:
        """Handle the end of the commit."""
        assert isinstance(message, CommitEnded)
        self.over()
        context = self.context
        if not message.is_made:
            release_prepared(context.ledger, self._ranges, context.clock.wall_ms())
            return
        if context.trace is not None:
            context.trace.settled(self._ranges.flow.flow_id, self._ranges.ranges, ACCEPTED, context.clock.wall_ms())
        context.settled_count += settle_prepared(context.ledger, self._ranges)
        window = self._ranges.flow.window
        if window.keeps_waiting():  # the flow holds less: other partitions may have waited for that
            wake_waiters(window, context.runtime.dispatcher)

    def is_of(self, flow_id: int) -> bool:
        """Return whether the flow held these ranges."""
        return self._ranges.flow.flow_id == flow_id

    def reloaded(self) -> None:
        """Withhold what the commit may settle."""
        restore_prepared(self.context.ledger, self._ranges)

    def abandon(self) -> None:
        """End: the queue is deleted, and its part of the settlement with it."""
        self._ranges.end()
        super().abandon()


def begin_prepared(context: JobContext, order: PrepareSettlement) -> PreparedSettlement | None:
    """Carry out one request."""
    ranges = prepare(context.ledger, order.flow_id, order.epoch, order.ranges, order.delivery_count)
    return None if ranges is None else PreparedSettlement(context, ranges)


def holds_prepared(context: JobContext, flow_id: int) -> bool:
    """Return whether a pending commit may still return messages to a flow."""
    return any(isinstance(each, PreparedSettlement) and each.is_of(flow_id) for each in context.jobs.values())
