"""The partition actor: an interpreted shell that passes every message to the compiled partition."""

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
        """Deliver what a recovery, or a failed instance, left ready."""
        self.cell.inbox.post(WAKE)

    def on_failing_too_often(self) -> None:
        """Have the ledger reloaded from the store."""
        self._partition.ask_for_a_new_ledger()

    def replay(self) -> None:
        """Have the ledger reloaded with the messages chosen for replay. Until then all messages wait."""
        self.cell.suspended = True
        self._partition.ask_for_a_new_ledger()

    def reload(self, stored: StoredPartition) -> None:
        """Replace the failed ledger by the stored state, and continue.

        Earlier messages of the queue about flows are void: it assigns the partition again.
        """
        inbox = self.cell.inbox
        inbox.items = [message for message in inbox.items if not isinstance(message, Attach | Pause | Detach)]
        self._partition.reload(stored)
        self.cell.resume()

    def overview(self) -> PartitionOverview:
        """Return the figures of the partition at once: for a caller that is about to end it."""
        return self._partition.overview()

    def on_stop(self) -> None:
        """Return the usage of the partition."""
        self._partition.close(self.cell.inbox.items)
