"""Work of a partition that waits for others: for pages to be read, for a commit that moves messages elsewhere.

An errand outlives the turn that began it, and the actor too when that is restarted. What it is answered with it takes
in a turn of the partition: it leaves each answer in the partition's inbox, and the partition hands it back.
"""

from typing import Any, final

from actors.clock import Clock
from actors.runtime import Runtime
from actors.spool_io import StoreReader
from messaging.address import Address
from messaging.admission import QueueGate
from messaging.ledger import Ledger
from messaging.queue_trace import QueueTrace
from messaging.routing import QueueTarget


@final
class ErrandPlace:
    """The partition that errands are run for, and what they need of its surroundings."""

    def __init__(
        self,
        runtime: Runtime,
        address: Address,
        *,
        ledger: Ledger,
        queue_name: str,
        number: int,
        partition_id: int,
        gate: QueueGate,
        reader: StoreReader | None,
        targets: dict[str, QueueTarget],
        trace: QueueTrace | None,
    ) -> None:
        self.runtime = runtime
        self.clock: Clock = runtime.clock
        self.rng = runtime.rng
        self.address = address
        self.ledger = ledger
        self.queue_name = queue_name
        self.number = number
        self.partition_id = partition_id
        self.gate = gate  # of the queue itself
        self.reader = reader
        self.targets = targets  # every queue of the node by name
        self.trace = trace  # None: nothing of this queue is traced
        self.under_way: dict[int, Errand] = {}
        self.burying_count = 0  # messages on their way to the dead message queue
        self.settled_count = 0  # messages that transactions settled

    def go_on_with(self, ledger: Ledger) -> None:
        """Take up a ledger that was made anew from the store."""
        self.ledger = ledger
        for errand in self.under_way.values():
            errand.reloaded()


class Errand(Address):
    """One errand. It is answered by being posted to, like any address."""

    def __init__(self, place: ErrandPlace) -> None:
        self.place = place
        place.under_way[id(self)] = self

    def post(self, message: object) -> None:
        """Leave an answer with the partition, for its next turn."""
        self.place.address.post(ErrandAnswer(self, message))

    def answered(self, message: Any) -> None:
        """Go on, in a turn of the partition."""
        raise AssertionError("an errand knows what it waits for")

    def reloaded(self) -> None:
        """The ledger was made anew."""

    def abandon(self) -> None:
        """The queue is gone: tell whoever waits for this errand how far it came."""
        self.over()

    def over(self) -> None:
        """Nothing is waited for any more."""
        self.place.under_way.pop(id(self), None)


@final
class ErrandAnswer:
    """An errand -> its partition: handle this answer in your turn."""

    def __init__(self, errand: Errand, message: object) -> None:
        self.errand = errand
        self.message = message
