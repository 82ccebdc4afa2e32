"""Consumers that acknowledge handoffs: what each is told of its partitions, and what it says to that.

Only a partitioned queue hands anything over. When is decided in messaging.queues.assignment.rebalance.
"""

from sluicegate.actors.messages.handoff_messages import AcknowledgeHandoff, Assignment
from sluicegate.actors.messages.queues import BindFlow
from sluicegate.actors.queues.core import QueueCore
from sluicegate.messaging.queues.assignment.rebalance import Move, Rebalancer


class AssignmentsTold:
    """What the acknowledging flows of one queue were told last."""

    def __init__(self, core: QueueCore) -> None:
        self._core = core
        self._told: dict[int, list[tuple[int, int, int]]] = {}

    def binds(self, message: BindFlow) -> None:
        """Note whether a flow that is about to be bound acknowledges."""
        access = self._core.access
        if message.acknowledges and isinstance(access, Rebalancer):
            access.acknowledging.add(message.flow_id)

    def acknowledge(self, message: AcknowledgeHandoff) -> list[Move]:
        """Return the moves that a consumer's word allows."""
        access = self._core.access
        moves: list[Move] = []
        if isinstance(access, Rebalancer):
            for partition, epoch in message.partitions:
                moves += access.acknowledge(message.flow_id, partition, epoch)
        return moves

    def tell(self) -> None:
        """Tell every flow that acknowledges what it has, if that has changed."""
        access = self._core.access
        if not isinstance(access, Rebalancer):
            return
        told, self._told = self._told, {}
        for flow_id in access.acknowledging:
            assignment = self._told[flow_id] = access.assignment_of(flow_id)
            if told.get(flow_id) != assignment:
                self._core.flows[flow_id].address.post(Assignment(flow_id, assignment))
