"""The partition actor: an interpreted shell that passes everything to the compiled partition."""

from sluicegate.actors.messages.data import WAKE
from sluicegate.actors.messages.partitions import Attach, Detach, PartitionOverview, Pause
from sluicegate.actors.partitions.partition import Partition
from sluicegate.actors.runtime.actor import LoopActor
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.partitions.recovery import StoredPartition


class PartitionActor(LoopActor):
    """A partition's place in the actor tree."""

    def __init__(self, cell: ActorCell, partition: Partition) -> None:
        super().__init__(cell, partition)
        self._partition = partition

    def on_start(self) -> None:
        """Deliver what a recovery, or an instance that failed, left ready."""
        self.cell.inbox.post(WAKE)

    def on_failing_too_often(self) -> None:
        """Have the ledger made anew from the store."""
        self._partition.ask_for_a_new_ledger()

    def replay(self) -> None:
        """Have the ledger made anew with what was chosen to be offered again. Until then everything waits."""
        self.cell.suspended = True
        self._partition.ask_for_a_new_ledger()

    def reload(self, stored: StoredPartition) -> None:
        """Take what the store has in the place of the ledger that failed, and go on.

        What the queue said of flows meanwhile is void: it gives the partition out anew.
        """
        inbox = self.cell.inbox
        inbox.items = [message for message in inbox.items if not isinstance(message, Attach | Pause | Detach)]
        self._partition.reload(stored)
        self.cell.resume()

    def overview(self) -> PartitionOverview:
        """Return how the partition stands now: for whoever is about to end it, and cannot wait for an answer."""
        return self._partition.overview()

    def on_stop(self) -> None:
        """Give back what the partition counted for."""
        self._partition.close(self.cell.inbox.items)
