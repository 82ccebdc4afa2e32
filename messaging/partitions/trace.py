"""Record the deliveries and settlements of traced messages in one partition.

A traced delivery is remembered until the ledger takes it from the consumer, settled or not, for its span is the parent
of the settlement's span. Everything else is in the message.
"""

from typing import Final, final

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.outcomes import (
    ACCEPTED,
    FAILED,
    FAILED_ELSEWHERE,
    OUTCOMES,
    REJECTED,
    RELEASED,
    RELEASED_ELSEWHERE,
)
from sluicegate.messaging.observability.trace_records import GIVEN_BACK, DeliveryTraced, MoveTraced, SettlementTraced
from sluicegate.messaging.observability.tracing import Tracing
from sluicegate.messaging.partitions.state.effects import Delivery

HELD_MAX: Final = 10_000  # unsettled traced deliveries of a partition; settlements of further ones count as dropped

_NAMES: Final = {
    ACCEPTED: OUTCOMES[ACCEPTED],
    RELEASED: OUTCOMES[RELEASED],
    FAILED: OUTCOMES[FAILED],
    REJECTED: OUTCOMES[REJECTED],
    RELEASED_ELSEWHERE: OUTCOMES[RELEASED],
    FAILED_ELSEWHERE: OUTCOMES[FAILED],
}


@final
class QueueTrace:
    """The traces of one partition. `held` is empty while no traced message is with a consumer."""

    def __init__(self, tracing: Tracing, *, queue: str, partition: int) -> None:
        self.held: dict[int, tuple[int, DeliveryTraced]] = {}  # by sequence: the flow, and the delivery
        self._tracing = tracing
        self._queue = queue
        self._partition = partition

    def delivered(self, deliveries: list[Delivery], wall_ms: int) -> None:
        """Record the traced messages among deliveries."""
        for delivery in deliveries:
            batch = delivery.batch
            column = batch.headers()
            if column is None:
                continue
            for row in range(delivery.start_row, delivery.stop_row):
                context = self._tracing.context(batch, column[row], row)
                if context is None:
                    continue
                sequence = delivery.first_sequence + row - delivery.start_row
                flow = delivery.flow
                self._end(sequence, GIVEN_BACK, wall_ms)
                record = DeliveryTraced(
                    context,
                    delivery_id=self._tracing.new_span_id(),
                    vpn=self._tracing.vpn,
                    queue=self._queue,
                    partition=self._partition,
                    sequence=sequence,
                    topic=batch.topic_of(row),
                    client=flow.client,
                    protocol=flow.protocol,
                    delivery_count=delivery.delivery_count,
                    redelivered=delivery.redelivered,
                    arrived_ms=batch.received_ms,
                    delivered_ms=wall_ms,
                )
                self._tracing.buffer.add(record)
                if len(self.held) < HELD_MAX:
                    self.held[sequence] = (flow.flow_id, record)
                else:
                    self._tracing.buffer.dropped_count += 1

    def settled(self, flow_id: int, ranges: list[tuple[int, int]], outcome: int, wall_ms: int) -> None:
        """Record the outcome of the traced messages that a flow holds in these ranges."""
        for first, end in ranges:
            self._end_those_of(flow_id, first, end, _NAMES[outcome], wall_ms)

    def taken_back(self, flow_id: int, first: int, end: int, wall_ms: int) -> None:
        """Record that the queue took back, or dropped, what a flow held of `[first, end)`."""
        self._end_those_of(flow_id, first, end, GIVEN_BACK, wall_ms)

    def reloaded(self, wall_ms: int) -> None:
        """Record that no consumer holds anything any more."""
        for sequence in list(self.held):
            self._end(sequence, GIVEN_BACK, wall_ms)

    def moved(self, batch: MessageBatch, target: str, wall_ms: int) -> None:
        """Record the traced messages of a batch that moves to another queue."""
        for row, headers in enumerate(batch.headers() or []):
            context = self._tracing.context(batch, headers, row)
            if context is not None and headers is not None:
                reason = "" if headers.dead is None else headers.dead.reason
                self._tracing.buffer.add(
                    MoveTraced(
                        context,
                        vpn=self._tracing.vpn,
                        queue=self._queue,
                        target=target,
                        reason=reason,
                        moved_ms=wall_ms,
                    )
                )

    def _end_those_of(self, flow_id: int, first: int, end: int, outcome: str, wall_ms: int) -> None:
        if end - first <= len(self.held):
            sequences = [each for each in range(first, end) if each in self.held]
        else:
            sequences = [each for each in self.held if first <= each < end]
        for sequence in sequences:
            if self.held[sequence][0] == flow_id:
                self._end(sequence, outcome, wall_ms)

    def _end(self, sequence: int, outcome: str, wall_ms: int) -> None:
        held = self.held.pop(sequence, None)
        if held is not None:
            self._tracing.buffer.add(SettlementTraced(held[1], outcome=outcome, settled_ms=wall_ms))
