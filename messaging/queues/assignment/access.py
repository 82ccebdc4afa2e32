"""Access to a queue that is not partitioned: exclusive (one flow after the other) or shared (all flows).

Such a queue has one partition, and more only while earlier ones drain.

Both machines, and the rebalancer of partitioned queues, answer the same events with the same kinds of moves.
"""

from typing import Protocol, final

from sluicegate.messaging.queues.assignment.rebalance import (
    ATTACH,
    DETACH,
    NO_FLOW,
    PARTITION_READY,
    READY,
    UNASSIGNED,
    Move,
    Rebalancer,
)
from sluicegate.messaging.queues.attributes import EXCLUSIVE
from sluicegate.messaging.queues.definition import QueueConfig


class Access(Protocol):
    """Decides which flow gets which partition."""

    status: str
    completed_count: int  # rebalances that have completed

    def bind(self, flow_id: int, client: str, now_ms: int) -> list[Move]:
        """Add a flow."""

    def unbind(self, flow_id: int, now_ms: int) -> list[Move]:
        """Remove a flow that left or was lost."""

    def drained(self, partition: int, epoch: int) -> list[Move]:
        """The owner of a paused partition holds no message of it any more."""

    def renew(self, partition: int) -> list[Move]:
        """A partition has lost its flows: assign it again, under a higher epoch."""

    def tick(self, now_ms: int) -> list[Move]:
        """Advance the clock."""

    def resize(self, partitions_count: int, now_ms: int) -> list[Move]:
        """Partitions were added after the others, or the last ones are empty and are removed."""

    def deadline_ms(self) -> int:
        """Return when `tick` is next needed; 0: not at all."""

    def partitions_of(self, flow_id: int) -> list[int]:
        """Return the partitions a flow receives from; it is active when there are any."""

    def partition_statuses(self, count: int) -> list[tuple[str, int, int]]:
        """Return status, owning flow (0: none or many) and epoch of each partition."""


@final
class ExclusiveAccess:
    """Only the flow that bound first receives; the others stand by in the order they bound."""

    def __init__(self, partitions_count: int = 1, epoch: int = 0) -> None:
        self.status: str = READY
        self.completed_count = 0
        self._partitions = list(range(partitions_count))
        self._epoch = epoch
        self._flow_ids: list[int] = []

    def bind(self, flow_id: int, client: str, now_ms: int) -> list[Move]:
        """Add a flow; the first becomes active."""
        self._flow_ids.append(flow_id)
        return self._activate() if len(self._flow_ids) == 1 else []

    def unbind(self, flow_id: int, now_ms: int) -> list[Move]:
        """Remove a flow; the next in line takes over from the active flow at once."""
        if flow_id not in self._flow_ids:
            return []
        was_active = self._flow_ids[0] == flow_id
        self._flow_ids.remove(flow_id)
        if not was_active:
            return []
        moves = [Move(DETACH, partition, flow_id, self._epoch) for partition in self._partitions]
        return moves + self._activate() if self._flow_ids else moves

    def drained(self, partition: int, epoch: int) -> list[Move]:
        """Do nothing: no partition is ever paused here."""
        return []

    def renew(self, partition: int) -> list[Move]:
        """Assign the partition to the active flow again."""
        if not self._flow_ids:
            return []
        self._epoch += 1
        return [Move(ATTACH, partition, self._flow_ids[0], self._epoch)]

    def tick(self, now_ms: int) -> list[Move]:
        """Do nothing: no state depends on time."""
        return []

    def resize(self, partitions_count: int, now_ms: int) -> list[Move]:
        """Attach the active flow to added partitions, and detach it from removed ones."""
        before, self._partitions = self._partitions, list(range(partitions_count))
        active = self._flow_ids[:1]
        return _resized(before, self._partitions, [(flow_id, self._epoch) for flow_id in active])

    def deadline_ms(self) -> int:
        """Return 0: no state depends on time."""
        return 0

    def partitions_of(self, flow_id: int) -> list[int]:
        """Return all partitions for the active flow. Callers must not change the list."""
        return self._partitions if self._flow_ids[:1] == [flow_id] else []

    def partition_statuses(self, count: int) -> list[tuple[str, int, int]]:
        """Return the state of each partition: all have the same."""
        status, owner = (PARTITION_READY, self._flow_ids[0]) if self._flow_ids else (UNASSIGNED, NO_FLOW)
        return [(status, owner, self._epoch)] * count

    def _activate(self) -> list[Move]:
        self._epoch += 1
        return [Move(ATTACH, partition, self._flow_ids[0], self._epoch) for partition in self._partitions]


@final
class SharedAccess:
    """Every flow receives; the ledger delivers to the flow that holds least."""

    def __init__(self, partitions_count: int = 1, epoch: int = 0) -> None:
        self.status: str = READY
        self.completed_count = 0
        self._partitions = list(range(partitions_count))
        self._epochs: dict[int, int] = {}
        self._epoch = epoch

    def bind(self, flow_id: int, client: str, now_ms: int) -> list[Move]:
        """Add a flow; it receives at once."""
        self._epoch += 1
        self._epochs[flow_id] = self._epoch
        return [Move(ATTACH, partition, flow_id, self._epoch) for partition in self._partitions]

    def unbind(self, flow_id: int, now_ms: int) -> list[Move]:
        """Remove a flow."""
        epoch = self._epochs.pop(flow_id, 0)
        return [Move(DETACH, partition, flow_id, epoch) for partition in self._partitions] if epoch else []

    def drained(self, partition: int, epoch: int) -> list[Move]:
        """Do nothing: no partition is ever paused here."""
        return []

    def renew(self, partition: int) -> list[Move]:
        """Assign the partition to every flow again."""
        moves: list[Move] = []
        for flow_id in self._epochs:
            self._epoch += 1
            self._epochs[flow_id] = self._epoch
            moves.append(Move(ATTACH, partition, flow_id, self._epoch))
        return moves

    def tick(self, now_ms: int) -> list[Move]:
        """Do nothing: no state depends on time."""
        return []

    def resize(self, partitions_count: int, now_ms: int) -> list[Move]:
        """Attach every flow to added partitions, and detach all from removed ones."""
        before, self._partitions = self._partitions, list(range(partitions_count))
        return _resized(before, self._partitions, list(self._epochs.items()))

    def deadline_ms(self) -> int:
        """Return 0: no state depends on time."""
        return 0

    def partitions_of(self, flow_id: int) -> list[int]:
        """Return all partitions for every bound flow. Callers must not change the list."""
        return self._partitions if flow_id in self._epochs else []

    def partition_statuses(self, count: int) -> list[tuple[str, int, int]]:
        """Return the state of each partition: all have the same."""
        return [(PARTITION_READY if self._epochs else UNASSIGNED, NO_FLOW, self._epoch)] * count


def _resized(before: list[int], partitions: list[int], flows: list[tuple[int, int]]) -> list[Move]:
    """Return the moves for flows, given with their epochs, that have all partitions."""
    moves: list[Move] = []
    for flow_id, epoch in flows:
        moves += [Move(DETACH, each, flow_id, epoch) for each in before[len(partitions) :]]
        moves += [Move(ATTACH, each, flow_id, epoch) for each in partitions[len(before) :]]
    return moves


def access_for(config: QueueConfig, *, partitions_count: int, epoch: int = 0) -> Access:
    """Return the machine for a queue's access type. `epoch` is the last epoch of any assignment."""
    if config.partitioned():
        return Rebalancer(
            partitions_count,
            delay_ms=config.partition_rebalance_delay_s * 1000,
            handoff_ms=config.partition_rebalance_max_handoff_time_s * 1000,
            epoch=epoch,
        )
    if config.access_type == EXCLUSIVE:
        return ExclusiveAccess(partitions_count, epoch)
    return SharedAccess(partitions_count, epoch)
