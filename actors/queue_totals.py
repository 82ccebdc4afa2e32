"""What queues have counted since the node started, those that are gone included.

Metrics add up the queues of sessions, and what all queues refused. A session that ends must not take its share out of
such a sum: a counter that falls is taken for one that began anew, and all that is left in it for new.
"""

from dataclasses import dataclass, field
from typing import Final, TypeVar, final

from actors.messages import QueueOverview
from messaging.queue_config import is_named

Key = TypeVar("Key")


@final
@dataclass(slots=True)
class QueueTotals:
    """Counts of one queue, or of several. None of them ever falls."""

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

    def add(self, overview: QueueOverview) -> None:
        """Count what a queue has counted."""
        self.accepted_count += overview.accepted_count
        self.rebalances_count += overview.rebalances_count
        _add(self.bind_refusals, overview.bind_refusals)
        for each in overview.partitions:
            self.delivered_count += each.delivered_count
            self.redelivered_count += each.redelivered_count
            self.settled_count += each.settled_count
            self.annotations_lost_count += each.remarks_lost_count
            self.lock_losses_count += each.lock_losses_count
            _add(self.discards, each.discards)
            _add(self.buried, each.buried)


@final
class GoneQueues:
    """What the queues of a message VPN that were deleted had counted."""

    def __init__(self) -> None:
        self.refusals: dict[int, int] = {}  # verdict of messaging.refusals -> messages refused to their publishers
        self.drops: dict[int, int] = {}  # verdict -> messages dropped there, and nobody heard of it
        self.sessions: Final = QueueTotals()  # of those that are shown as one; a named one takes its own with it

    def add(self, name: str, overview: QueueOverview) -> None:
        """Keep what a queue has counted, which is about to go."""
        _add(self.refusals, overview.refusals)
        _add(self.drops, overview.drops)
        if not is_named(name):
            self.sessions.add(overview)


def _add(totals: dict[Key, int], counts: dict[Key, int]) -> None:
    for key, count in counts.items():
        totals[key] = totals.get(key, 0) + count
