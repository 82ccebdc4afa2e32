"""A partition's part in the commit of a transaction: settlements of a consumer wait here until the commit ends.

What that means for the messages is in messaging.partitions.prepared; the commit is in actors.transactions.commit.
"""

from typing import Any, final

from sluicegate.actors.messages.transactions import CommitEnded, PrepareSettlement
from sluicegate.actors.partitions.jobs.job import JobContext, PartitionJob
from sluicegate.actors.partitions.triggers import wake_waiters
from sluicegate.messaging.message.outcomes import ACCEPTED
from sluicegate.messaging.partitions.prepared import (
    PreparedRanges,
    give_back_prepared,
    prepare,
    settle_prepared,
    take_up_prepared,
)


@final
class PreparedSettlement(PartitionJob):
    """Ranges that a commit settles. It is told how the commit ended by being posted a CommitEnded."""

    def __init__(self, context: JobContext, ranges: PreparedRanges) -> None:
        super().__init__(context)
        self._ranges = ranges
        self.settlements: list[tuple[int, int, int]] = []  # to be written by the commit; none of what is never written
        if context.ledger.durable:
            self.settlements = [(context.partition_id, first, end) for first, end in ranges.ranges]

    def answered(self, message: Any) -> None:
        """Take the end of the commit."""
        assert isinstance(message, CommitEnded)
        self.over()
        context = self.context
        if not message.is_made:
            give_back_prepared(context.ledger, self._ranges, context.clock.wall_ms())
            return
        if context.trace is not None:
            context.trace.settled(self._ranges.flow.flow_id, self._ranges.ranges, ACCEPTED, context.clock.wall_ms())
        context.settled_count += settle_prepared(context.ledger, self._ranges)
        window = self._ranges.flow.window
        if window.keeps_waiting():  # the flow holds less: other partitions may have waited for that
            wake_waiters(window, context.runtime.dispatcher)

    def is_of(self, flow_id: int) -> bool:
        """Return whether a flow held them."""
        return self._ranges.flow.flow_id == flow_id

    def reloaded(self) -> None:
        """Keep from consumers what the commit may settle."""
        take_up_prepared(self.context.ledger, self._ranges)

    def abandon(self) -> None:
        """The queue is gone, and what is settled with it."""
        self._ranges.end()
        super().abandon()


def begin_prepared(context: JobContext, order: PrepareSettlement) -> PreparedSettlement | None:
    """Carry out one order."""
    ranges = prepare(context.ledger, order.flow_id, order.epoch, order.ranges, order.delivery_count)
    return None if ranges is None else PreparedSettlement(context, ranges)


def holds_prepared(context: JobContext, flow_id: int) -> bool:
    """Return whether a commit under way may still give messages back to a flow."""
    return any(isinstance(each, PreparedSettlement) and each.is_of(flow_id) for each in context.jobs.values())
