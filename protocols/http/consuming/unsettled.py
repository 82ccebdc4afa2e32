"""The messages that one HTTP flow has delivered and its worker has not settled, each under a delivery number.

A worker names single deliveries in URLs, so each has an entry of its own. Its lock is the time the worker has left.
"""

from itertools import islice
from typing import final

from sluicegate.actors.messages.data import Settle, settle_from
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.partitions.state.unsettled import DeliverySource


@final
class UnsettledMessage:
    """One delivery: row `row` of `batch`."""

    __slots__ = (
        "batch", "delivery_count", "first_of_group", "locked_until_ms", "number", "redelivered", "row", "sequence",
        "source", "was_delivered",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        source: DeliverySource,
        sequence: int,
        batch: MessageBatch,
        row: int,
        redelivered: bool,
        delivery_count: int,
        first_of_group: bool,
        locked_until_ms: int,
    ) -> None:
        self.number = number  # of the delivery, from 1 within its flow
        self.source = source
        self.sequence = sequence
        self.batch = batch
        self.row = row
        self.redelivered = redelivered
        self.delivery_count = delivery_count
        self.first_of_group = first_of_group  # the first message of its group that this flow gets
        self.locked_until_ms = locked_until_ms  # 0: for as long as the flow lives
        self.was_delivered = False  # a reader has had it, and its worker may have it

    def payload(self) -> bytes:
        """Return the payload."""
        return self.batch.payloads()[self.row]

    def settle(self, outcome: int) -> Settle:
        """Return what its partition is told of its outcome."""
        return settle_from(self.source, self.sequence, self.sequence + 1, outcome)

    def __repr__(self) -> str:
        return f"UnsettledMessage({self.number}, partition {self.source.partition_number}, sequence {self.sequence})"


@final
class UnsettledMessages:
    """The unsettled deliveries of one flow.

    Invariants: the first in `_by_number` has the lock that ends first, for all locks of a flow last equally long; no
    two are of one partition and sequence; what waits is unsettled.
    """

    def __init__(self) -> None:
        self._by_number: dict[int, UnsettledMessage] = {}
        self._by_sequence: dict[tuple[int, int], UnsettledMessage] = {}
        self._waiting: dict[int, None] = {}  # numbers that no reader has taken, in the order readers take them in

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._by_number)

    @property
    def waiting_count(self) -> int:
        """How many no reader has taken."""
        return len(self._waiting)

    def add(self, message: UnsettledMessage) -> UnsettledMessage | None:
        """Note a delivery, which waits for a reader.

        Return the older one of the same message, which its queue has taken back meanwhile.
        """
        key = (message.source.partition_number, message.sequence)
        older = self._by_sequence.get(key)
        if older is not None:
            self.take(older.number)
        self._by_number[message.number] = message
        self._by_sequence[key] = message
        self._waiting[message.number] = None
        return older

    def get(self, number: int) -> UnsettledMessage | None:
        """Return a delivery, None when it is not unsettled."""
        return self._by_number.get(number)

    def take(self, number: int) -> UnsettledMessage | None:
        """Remove a delivery; return it, None when it is not unsettled."""
        message = self._by_number.pop(number, None)
        if message is not None:
            del self._by_sequence[(message.source.partition_number, message.sequence)]
            self._waiting.pop(number, None)
        return message

    def contains(self, message: UnsettledMessage) -> bool:
        """Return whether this very delivery is unsettled; that of another flow may have its number."""
        return self._by_number.get(message.number) is message

    def show(self, count_max: int) -> list[UnsettledMessage]:
        """Return what has waited longest: a reader has it now, and its worker may have it."""
        shown = self.take_waiting(count_max)
        for message in shown:
            message.was_delivered = True
        return shown

    def take_waiting(self, count_max: int) -> list[UnsettledMessage]:
        """Return what has waited longest: a reader has it now, who says himself what of it is shown."""
        taken = [self._by_number[number] for number in islice(self._waiting, count_max)]
        for message in taken:
            del self._waiting[message.number]
        return taken

    def waiting(self) -> list[int]:
        """Return the numbers that no reader has taken."""
        return list(self._waiting)

    def stop_waiting(self) -> list[int]:
        """Have nothing wait any more; return the numbers of what was never shown. The rest a worker may have."""
        waiting, self._waiting = self._waiting, {}
        return [number for number in waiting if not self._by_number[number].was_delivered]

    def wait_again(self, after: int) -> None:
        """Have all above a number wait for a reader, and nothing else."""
        self._waiting = dict.fromkeys(sorted([each for each in self._by_number if each > after]))

    def take_others(self, partitions: set[int]) -> list[UnsettledMessage]:
        """Remove and return the deliveries of other partitions than these."""
        others = [each for each in self._by_number.values() if each.source.partition_number not in partitions]
        for message in others:
            self.take(message.number)
        return others

    def expired(self, now_ms: int) -> list[int]:
        """Return the numbers of what has been locked until now, in the order of the locks."""
        expired: list[int] = []
        for message in self._by_number.values():
            if not 0 < message.locked_until_ms <= now_ms:
                break
            expired.append(message.number)
        return expired

    def extend(self, message: UnsettledMessage, locked_until_ms: int) -> None:
        """Lock an unsettled delivery for longer than all others."""
        del self._by_number[message.number]
        message.locked_until_ms = locked_until_ms
        self._by_number[message.number] = message

    def check(self) -> None:
        """Assert the invariants."""
        assert len(self._by_number) == len(self._by_sequence)
        locks = [each.locked_until_ms for each in self._by_number.values()]
        assert locks == sorted(locks), "the first has the lock that ends first"
        for key, message in self._by_sequence.items():
            assert key == (message.source.partition_number, message.sequence)
            assert self._by_number[message.number] is message
        assert self._waiting.keys() <= self._by_number.keys()
