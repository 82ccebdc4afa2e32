"""What queues have counted since the node started, what is gone of them included.

Metrics add up the partitions of a queue, the queues of sessions, and what all queues refused. A partition that retires
or a session that ends must not take its share out of such a sum: a counter that falls is taken for one that began
anew, and all that is left in it for new.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar, final

from sluicegate.messaging.queues.definition import is_named

if TYPE_CHECKING:
    from sluicegate.actors.messages.queues import PartitionOverview, QueueOverview

Key = TypeVar("Key")


@final
@dataclass(slots=True)
class QueueTotals:
    """Counts of one queue, of part of it, or of several. None of them ever falls."""

    accepted_count: int = 0
    delivered_count: int = 0
    redelivered_count: int = 0
    settled_count: int = 0
    annotations_lost_count: int = 0
    lock_losses_count: int = 0
    rebalances_count: int = 0
    bind_refusals: dict[str, int] = field(default_factory=dict)  # reason -> binds
    discards: dict[str, int] = field(default_factory=dict)  # reason -> messages
    buried: dict[str, int] = field(default_factory=dict)  # reason -> messages

    def add(self, totals: "QueueTotals") -> None:
        """Count what others have counted."""
        self.accepted_count += totals.accepted_count
        self.delivered_count += totals.delivered_count
        self.redelivered_count += totals.redelivered_count
        self.settled_count += totals.settled_count
        self.annotations_lost_count += totals.annotations_lost_count
        self.lock_losses_count += totals.lock_losses_count
        self.rebalances_count += totals.rebalances_count
        _add(self.bind_refusals, totals.bind_refusals)
        _add(self.discards, totals.discards)
        _add(self.buried, totals.buried)

    def add_partition(self, overview: "PartitionOverview") -> None:
        """Count what a partition has counted."""
        self.delivered_count += overview.delivered_count
        self.redelivered_count += overview.redelivered_count
        self.settled_count += overview.settled_count
        self.annotations_lost_count += overview.remarks_lost_count
        self.lock_losses_count += overview.lock_losses_count
        _add(self.discards, overview.discards)
        _add(self.buried, overview.buried)


@final
class GoneQueues:
    """What the queues of a message VPN that were deleted had counted."""

    def __init__(self) -> None:
        self.refusals: dict[
            int, int
        ] = {}  # verdict of messaging.message.refusals -> messages refused to their publishers
        self.drops: dict[int, int] = {}  # verdict -> messages dropped there, and nobody heard of it
        self.sessions: Final = QueueTotals()  # of those that are shown as one; a named one takes its own with it

    def add(self, name: str, overview: "QueueOverview") -> None:
        """Keep what a queue has counted, which is about to go."""
        _add(self.refusals, overview.refusals)
        _add(self.drops, overview.drops)
        if not is_named(name):
            self.sessions.add(overview.totals)


def _add(totals: dict[Key, int], counts: dict[Key, int]) -> None:
    for key, count in counts.items():
        totals[key] = totals.get(key, 0) + count
