"""What a partition does while slots of its queue move: it holds what it gains, or tells when what they left is settled.

Deliberately elsewhere: which partition does which (`rescaling`), and what may be delivered
(messaging.partitions.state.rescale_holds).
"""

from sluicegate.actors.messages.rescale_messages import (
    CutTaken,
    HoldSlots,
    OpenSource,
    RescaleOrder,
    Retire,
    SourceDrained,
    TakeCut,
)
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.state.rescale_holds import Holds


class RescalePart:
    """One partition's part in changes of the number of partitions. What is to be remembered is in its ledger."""

    def __init__(self, number: int, queue: Address) -> None:
        self._number = number
        self._queue = queue
        self.retired = False  # it ends, and nothing of it is needed any more

    def receive(self, ledger: Ledger, order: RescaleOrder) -> None:
        """Apply an order of the queue."""
        if isinstance(order, HoldSlots):
            holds = ledger.holds = ledger.holds or Holds()
            holds.close(order.number, order.slots_before, order.sources)
        elif isinstance(order, OpenSource):
            ledger.open_source(order.number)
        elif isinstance(order, Retire):
            self.retired = True
        else:
            assert isinstance(order, TakeCut)
            ledger.watched_cut = order.cut or ledger.next_sequence
            if not order.cut:
                self._queue.post(CutTaken(self._number, ledger.watched_cut))

    def look_at(self, ledger: Ledger) -> None:
        """Tell the queue when everything below the cut is settled; end what holds nothing any more."""
        if ledger.watched_cut and ledger.is_settled_below(ledger.watched_cut):
            ledger.watched_cut = 0
            self._queue.post(SourceDrained(self._number))
        if ledger.holds is not None and ledger.holds.are_over():
            ledger.holds = None
