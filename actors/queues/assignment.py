"""Handoffs and rebalances of a partitioned queue: acknowledgements of consumers, and events for operators.

Consumers whose selectors differ get an event, too: what the owner of a partition does not select waits there.

messaging.queues.assignment.rebalance decides when a partition is handed over.
"""

from collections.abc import Callable

from sluicegate.actors.messages.queues import AcknowledgeHandoff, Assignment, BindFlow
from sluicegate.actors.queues.core import QueueCore
from sluicegate.messaging.observability.events import (
    CLIENT_PARTITION_ASSIGNED,
    NOBODY,
    VPN_REBALANCE_COMPLETED,
    VPN_REBALANCE_STARTED,
    VPN_SELECTORS_DIFFER,
    VPN_SELECTORS_DIFFER_CLEAR,
    EventKind,
    as_word,
)
from sluicegate.messaging.queues.assignment.rebalance import ATTACH, Move, Rebalancer


class HandoffAcks:
    """What each acknowledging flow of one queue was told last."""

    def __init__(self, core: QueueCore) -> None:
        self._core = core
        self._notified: dict[int, list[tuple[int, int, int]]] = {}

    def binds(self, message: BindFlow) -> None:
        """Record whether a flow that is about to be bound acknowledges."""
        access = self._core.access
        if message.acknowledges and isinstance(access, Rebalancer):
            access.acknowledging.add(message.flow_id)

    def acknowledge(self, message: AcknowledgeHandoff) -> list[Move]:
        """Return the moves that a consumer's acknowledgement permits."""
        access = self._core.access
        moves: list[Move] = []
        if isinstance(access, Rebalancer):
            for partition, epoch in message.partitions:
                moves += access.acknowledge(message.flow_id, partition, epoch)
        return moves

    def notify(self) -> None:
        """Send every acknowledging flow its partitions, if they have changed."""
        access = self._core.access
        if not isinstance(access, Rebalancer):
            return
        told, self._notified = self._notified, {}
        for flow_id in access.acknowledging:
            assignment = self._notified[flow_id] = access.assignment_of(flow_id)
            if told.get(flow_id) != assignment:
                self._core.flows[flow_id].address.post(Assignment(flow_id, assignment))


class RebalanceEvents:
    """The events of a queue's rebalances: their beginning, their end, and the assignments."""

    def __init__(self, core: QueueCore) -> None:
        self._core = core
        self._started_count = self._completed_count = 0

    def report(self, moves: list[Move], event: Callable[[EventKind, str, str], None]) -> None:
        """Emit moves in words that tools parse: the queue is the 11th word, or the client the 7th."""
        access = self._core.access
        if not isinstance(access, Rebalancer):
            return
        name = self._core.config.name
        if access.started_count > self._started_count:
            event(VPN_REBALANCE_STARTED, NOBODY, f"Partitioned queue rebalance started on queue {name}")
        for move in moves:
            if move.kind == ATTACH:
                client = self._core.flows[move.flow_id].client
                event(
                    CLIENT_PARTITION_ASSIGNED,
                    client,
                    f"Assigned client {client} queue {name} partition {move.partition}",
                )
        if access.completed_count > self._completed_count:
            event(VPN_REBALANCE_COMPLETED, NOBODY, f"Partitioned queue rebalance completed on queue {name}")
        self._started_count, self._completed_count = access.started_count, access.completed_count


class SelectorEvents:
    """The events of a partitioned queue whose consumers have different selectors, or selectors and none."""

    def __init__(self, core: QueueCore) -> None:
        self._core = core
        self._differ = False

    def review(self, bound: str = "") -> None:
        """Compare the selectors after a consumer came, which is named, or after one went."""
        core = self._core
        hint = core.selector_hint()
        if bool(hint) == self._differ:
            return
        self._differ = bool(hint)
        name = as_word(core.config.name)
        if hint:
            text = (
                f"Client {as_word(bound)} bound to partitioned queue {name} with another selector than others: {hint}"
            )
            core.events.emit(VPN_SELECTORS_DIFFER, text)
        else:
            core.events.emit(VPN_SELECTORS_DIFFER_CLEAR, f"The consumers of queue {name} no longer differ in selectors")
