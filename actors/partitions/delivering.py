"""What a partition delivers, on its way to the consumers. Who gets what is decided in messaging.partitions.ledger."""

from typing import final

from mypy_extensions import i64

from sluicegate.actors.messages.data import Deliveries
from sluicegate.actors.runtime.clock import Clock
from sluicegate.actors.runtime.inbox import Inbox
from sluicegate.messaging.partitions.state.effects import Delivery
from sluicegate.messaging.partitions.state.flows import Flow
from sluicegate.messaging.partitions.trace import QueueTrace


@final
class Delivering:
    """The way out of one partition, and how much went it."""

    def __init__(self, clock: Clock, partition: Inbox, number: int, trace: QueueTrace | None) -> None:
        self.delivered_count: i64 = 0
        self.redelivered_count: i64 = 0
        self._clock = clock
        self._partition = partition
        self._number = number
        self._trace = trace  # None: nothing of this queue is traced

    def hand(self, deliveries: list[Delivery]) -> None:
        """Hand deliveries to their consumers, to each its own together."""
        if self._trace is not None:
            self._trace.delivered(deliveries, self._clock.wall_ms())
        if len(deliveries) == 1:
            only = deliveries[0]
            self._count(only)
            only.flow.address.hand(Deliveries(only.flow, self._partition, self._number, deliveries))
            return
        by_flow: dict[Flow, list[Delivery]] = {}
        for delivery in deliveries:
            self._count(delivery)
            by_flow.setdefault(delivery.flow, []).append(delivery)
        for flow, its in by_flow.items():
            flow.address.hand(Deliveries(flow, self._partition, self._number, its))

    def _count(self, delivery: Delivery) -> None:
        count = delivery.stop_row - delivery.start_row
        self.delivered_count += count
        if delivery.redelivered:
            self.redelivered_count += count
