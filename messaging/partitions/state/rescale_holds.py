"""Hold messages of slots that a partition gained, while older ones are unsettled in their former partition.

A message is checked when it would be delivered, not when it arrives: so a held backlog may be in pages, and a restart
needs no record of it. Deliveries skip held messages and remember where they are. When the source is drained they are
ready, behind the cursor: next in turn.

See also: when a source is drained (messaging.queues.assignment.slots); the deliveries (messaging.partitions.ledger).
"""

from typing import Final, final

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.keys import KeySource, key_hash_in
from sluicegate.messaging.message.ranges import RangeSet
from sluicegate.messaging.queues.assignment.slots import partition_in

NOT_HELD: Final = -1

# Each run of held messages between others costs 80 bytes here, and one more exception in the partition's cursor while
# messages after it are settled. At the limit the partition waits as a whole.
HELD_RUNS_MAX: Final = 10_000


@final
class RescaleHolds:
    """The messages that one partition holds. A ledger has none unless the number of its queue's partitions is changing.

    Invariants: a skipped message is unsettled, with no consumer, and below the ledger's `ready_from`; no message is
    skipped for a source that is not in `closed`.
    """

    def __init__(self) -> None:
        self.number = 0
        self.slots_before = b""
        self.closed: set[int] = set()  # sources that are not drained
        self.passed: dict[int, RangeSet] = {}  # by source

    def close(self, number: int, slots_before: bytes, sources: list[int]) -> None:
        """Hold, in partition `number`, the slots of the sources, until each source is opened."""
        self.number = number
        self.slots_before = slots_before
        self.closed = set(sources)
        self.closed.discard(number)

    def restarted(self) -> "RescaleHolds":
        """Return the same holds, with no message checked yet."""
        holds = RescaleHolds()
        holds.close(self.number, self.slots_before, list(self.closed))
        return holds

    def open(self, source: int) -> list[tuple[int, int]]:
        """End the hold for a source; return the messages skipped for it."""
        self.closed.discard(source)
        passed = self.passed.pop(source, None)
        return [] if passed is None else passed.ranges()

    def are_over(self) -> bool:
        """Return whether nothing is held, nor will be."""
        return not self.closed

    def is_full(self) -> bool:
        """Return whether no more runs can be skipped."""
        return sum([passed.ranges_count() for passed in self.passed.values()]) >= HELD_RUNS_MAX

    def count(self) -> int:
        """Return how many skipped messages wait for their source."""
        return sum([passed.total for passed in self.passed.values()])

    def free_run(
        self, batch: MessageBatch, batch_first: int, first: int, end: int, key_source: KeySource | None
    ) -> tuple[int, int]:
        """Return the first run of `[first, end)` that may be delivered, and skip held messages before it.

        `batch_first` is the sequence of the batch's first row. If all are held the run is `(end, end)`.
        """
        if not self.closed or (batch.headers() is None and key_source is None):
            return first, end
        while first < end:
            source = self.source_of(key_hash_in(key_source, batch, first - batch_first))
            if source == NOT_HELD:
                break
            self.passed.setdefault(source, RangeSet()).add(first, first + 1)
            first += 1
        stop = first
        while stop < end and self.source_of(key_hash_in(key_source, batch, stop - batch_first)) == NOT_HELD:
            stop += 1
        return first, stop

    def forget(self, first: int, end: int) -> None:
        """Forget `[first, end)`, which was taken otherwise."""
        for ranges in self.passed.values():
            ranges.discard(first, end)

    def source_of(self, key_hash: int) -> int:
        """Return the source that a message waits for, or NOT_HELD. A message without a key has no order to keep."""
        if key_hash < 0:
            return NOT_HELD
        source = partition_in(self.slots_before, key_hash)
        return source if source != self.number and source in self.closed else NOT_HELD
