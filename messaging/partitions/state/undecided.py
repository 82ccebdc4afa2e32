"""Commits under way that settle messages of a ledger, and deliveries that wait until they are decided.

What such a commit took from its consumer is the consumer's again when the commit is not made. If the consumer was lost
meanwhile it is anybody's, and it is older than what others were given since. So where a ledger keeps an order, nothing
is delivered then before the commit is decided: that is a commit's time. It is the whole partition and not the key that
waits, for whoever would have to know the keys of what lies in pages.

Deliberately elsewhere: what is taken and how it comes back (messaging.partitions.prepared).
"""

from typing import final

from sluicegate.messaging.partitions.state.flows import LedgerFlow


@final
class Undecided:
    """Whom the commits under way took something from: a flow under an epoch, once for each commit."""

    __slots__ = ("_taken_from",)

    def __init__(self) -> None:
        self._taken_from: list[tuple[int, int]] = []

    def begin(self, flow_id: int, epoch: int) -> None:
        """A commit took something."""
        self._taken_from.append((flow_id, epoch))

    def end(self, flow_id: int, epoch: int) -> None:
        """It is decided."""
        self._taken_from.remove((flow_id, epoch))

    def of_lost_flows(self, flows: dict[int, LedgerFlow]) -> bool:
        """Return whether one took from a flow that does not take part any more; `flows` are those that do."""
        for flow_id, epoch in self._taken_from:
            flow = flows.get(flow_id)
            if flow is None or flow.epoch != epoch:
                return True
        return False
