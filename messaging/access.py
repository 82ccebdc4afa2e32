"""Who consumes from a queue without partitions: one flow after the other, or all of them.

Both machines, and the rebalancer of partitioned queues, answer the same events with the same kind of moves.
"""

from typing import Protocol, final

from messaging.queue_attributes import EXCLUSIVE
from messaging.queue_config import QueueConfig
from messaging.rebalance import ATTACH, DETACH, NO_FLOW, PARTITION_READY, READY, UNASSIGNED, Move, Rebalancer


class Access(Protocol):
    """Decides which flow gets which partition."""

    status: str
    completed_count: int  # rebalances that have come to their end

    def bind(self, flow_id: int, client: str, now_ms: int) -> list[Move]:
        """Add a flow."""

    def unbind(self, flow_id: int, now_ms: int) -> list[Move]:
        """Remove a flow, whether it left or was lost."""

    def drained(self, partition: int, epoch: int) -> list[Move]:
        """The owner of a paused partition holds nothing of it any more."""

    def renew(self, partition: int) -> list[Move]:
        """A partition has forgotten its flows: give it, under a higher epoch, to those who have it or are to."""

    def tick(self, now_ms: int) -> list[Move]:
        """Bring time."""

    def deadline_ms(self) -> int:
        """Return when `tick` is next needed; 0: not at all."""

    def partitions_of(self, flow_id: int) -> list[int]:
        """Return the partitions a flow receives from; it is active when there are any."""

    def partition_statuses(self, count: int) -> list[tuple[str, int, int]]:
        """Return status, owning flow (0: none or many) and epoch of each partition."""


@final
class ExclusiveAccess:
    """Only the flow that bound first receives; the others stand by in the order they bound."""

    def __init__(self, epoch: int = 0) -> None:
        self.status: str = READY
        self.completed_count = 0
        self._epoch = epoch
        self._flow_ids: list[int] = []

    def bind(self, flow_id: int, client: str, now_ms: int) -> list[Move]:
        """Add a flow; the first becomes active."""
        self._flow_ids.append(flow_id)
        return self._activate() if len(self._flow_ids) == 1 else []

    def unbind(self, flow_id: int, now_ms: int) -> list[Move]:
        """Remove a flow; the next in line takes over from the active one at once."""
        if flow_id not in self._flow_ids:
            return []
        was_active = self._flow_ids[0] == flow_id
        self._flow_ids.remove(flow_id)
        if not was_active:
            return []
        moves = [Move(DETACH, 0, flow_id, self._epoch)]
        return moves + self._activate() if self._flow_ids else moves

    def drained(self, partition: int, epoch: int) -> list[Move]:
        """Nothing is ever paused here."""
        return []

    def renew(self, partition: int) -> list[Move]:
        """Give the partition to the active flow again."""
        return self._activate() if self._flow_ids else []

    def tick(self, now_ms: int) -> list[Move]:
        """Time changes nothing here."""
        return []

    def deadline_ms(self) -> int:
        """Return 0: time changes nothing here."""
        return 0

    def partitions_of(self, flow_id: int) -> list[int]:
        """Return partition 0 for the active flow."""
        return [0] if self._flow_ids[:1] == [flow_id] else []

    def partition_statuses(self, count: int) -> list[tuple[str, int, int]]:
        """Return the state of the queue's one partition."""
        if not self._flow_ids:
            return [(UNASSIGNED, NO_FLOW, self._epoch)]
        return [(PARTITION_READY, self._flow_ids[0], self._epoch)]

    def _activate(self) -> list[Move]:
        self._epoch += 1
        return [Move(ATTACH, 0, self._flow_ids[0], self._epoch)]


@final
class SharedAccess:
    """Every flow receives; the ledger gives to whoever holds least."""

    def __init__(self, epoch: int = 0) -> None:
        self.status: str = READY
        self.completed_count = 0
        self._epochs: dict[int, int] = {}
        self._epoch = epoch

    def bind(self, flow_id: int, client: str, now_ms: int) -> list[Move]:
        """Add a flow; it receives at once."""
        self._epoch += 1
        self._epochs[flow_id] = self._epoch
        return [Move(ATTACH, 0, flow_id, self._epoch)]

    def unbind(self, flow_id: int, now_ms: int) -> list[Move]:
        """Remove a flow."""
        epoch = self._epochs.pop(flow_id, 0)
        return [Move(DETACH, 0, flow_id, epoch)] if epoch else []

    def drained(self, partition: int, epoch: int) -> list[Move]:
        """Nothing is ever paused here."""
        return []

    def renew(self, partition: int) -> list[Move]:
        """Give the partition to every flow again."""
        moves: list[Move] = []
        for flow_id in self._epochs:
            self._epoch += 1
            self._epochs[flow_id] = self._epoch
            moves.append(Move(ATTACH, 0, flow_id, self._epoch))
        return moves

    def tick(self, now_ms: int) -> list[Move]:
        """Time changes nothing here."""
        return []

    def deadline_ms(self) -> int:
        """Return 0: time changes nothing here."""
        return 0

    def partitions_of(self, flow_id: int) -> list[int]:
        """Return partition 0 for every bound flow."""
        return [0] if flow_id in self._epochs else []

    def partition_statuses(self, count: int) -> list[tuple[str, int, int]]:
        """Return the state of the queue's one partition."""
        return [(PARTITION_READY if self._epochs else UNASSIGNED, NO_FLOW, self._epoch)]


def access_for(config: QueueConfig, *, epoch: int = 0) -> Access:
    """Return the machine for a queue's kind. `epoch` is the last one that its one partition was given out under."""
    if config.partitioned():
        return Rebalancer(
            config.partition_count,
            delay_ms=config.partition_rebalance_delay_s * 1000,
            handoff_ms=config.partition_rebalance_max_handoff_time_s * 1000,
        )
    return ExclusiveAccess(epoch) if config.access_type == EXCLUSIVE else SharedAccess(epoch)
