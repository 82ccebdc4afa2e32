"""What operators are told of the rebalances of a partitioned queue: their beginning, their end, and who gets what."""

from collections.abc import Callable

from sluicegate.actors.queues.core import QueueCore
from sluicegate.messaging.observability.events import (
    CLIENT_PARTITION_ASSIGNED,
    NOBODY,
    VPN_REBALANCE_COMPLETED,
    VPN_REBALANCE_STARTED,
    EventKind,
)
from sluicegate.messaging.queues.assignment.rebalance import ATTACH, Move, Rebalancer


class RebalanceTold:
    """How many rebalances of one queue operators were told of."""

    def __init__(self, core: QueueCore) -> None:
        self._core = core
        self._started_count = self._completed_count = 0

    def tell(self, moves: list[Move], event: Callable[[EventKind, str, str], None]) -> None:
        """Tell of moves in the words that tools look for: the queue is the 11th, or the client the 7th of the text."""
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
