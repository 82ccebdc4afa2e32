"""Flows of a partition whose client goes or is away. It holds no rule: see messaging.partitions.parking,
messaging.partitions.unsent.
"""

from typing import TypeAlias, final

from sluicegate.actors.messages.partitions import (
    DeliverAgain,
    FoundSequences,
    GiveBack,
    LookUpSequences,
    Park,
    RestoreParked,
    Unpark,
)
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.parking import (
    deliver_again,
    deliver_kept,
    keeps,
    park,
    restore_parked,
    unpark,
    unsettled_among,
)
from sluicegate.messaging.partitions.state.effects import Delivery
from sluicegate.messaging.partitions.unsent import give_back

ParkingRequest: TypeAlias = Park | Unpark | RestoreParked | GiveBack | LookUpSequences | DeliverAgain
ParkingAnswer: TypeAlias = FoundSequences | list[tuple[int, int]] | None


@final
class Parking:
    """The parked flows of one partition."""

    def __init__(self) -> None:
        self.has_kept = False  # a client is back for which messages have waited

    def receive(self, ledger: Ledger, request: ParkingRequest) -> ParkingAnswer:
        """Carry out one request."""
        if isinstance(request, Park):
            park(ledger, request.flow_id, request.kept)
        elif isinstance(request, Unpark):
            unpark(ledger, request.flow)
            self.has_kept = True
        elif isinstance(request, RestoreParked):
            restore_parked(ledger, request.flow, request.epoch, request.kept)
        elif isinstance(request, GiveBack):
            give_back(ledger, request.flow_id, request.epoch, request.ranges)
        elif isinstance(request, DeliverAgain):
            self.has_kept = True
            return deliver_again(ledger, request.flow_id, request.epoch, request.ranges)
        else:
            return FoundSequences(unsettled_among(ledger, request.ranges), ledger.suspect_end)
        return None

    def deliver(self, ledger: Ledger) -> list[Delivery]:
        """Return what goes to clients that are back, before anything else does."""
        again = deliver_kept(ledger)
        self.has_kept = keeps(ledger)
        return again
