"""The settled and reserved sequences of a partition, as commits and checkpoints write them."""

from typing import Final, final

from sluicegate.messaging.message.ranges import RangeSet
from sluicegate.storage.records.cursor import CursorRecord

# Per partition and reservation; a crash skips what is left of it. Consumers get messages before they are on disk, so
# half of it has to outlast the slowest commit: half a second at a million messages per second in one partition.
SEQUENCES_RESERVED: Final = 1 << 20


@final
class PartitionCursor:
    """The settled sequences of a partition, as the next commits will store them."""

    def __init__(self, partition_id: int, floor: int, next_sequence_reserved: int) -> None:
        self.partition_id = partition_id
        self.floor = floor
        self.settled = RangeSet()  # above the floor
        self.next_sequence_reserved = next_sequence_reserved

    def settle(self, first: int, end: int) -> None:
        """Note `[first, end)` as settled."""
        if first > self.floor:
            self.settled.add(first, end)
            return
        if end > self.floor:
            self.floor = end
        settled = self.settled
        while settled.total > 0 and settled.lowest() <= self.floor:
            if settled.lowest_end() > self.floor:
                self.floor = settled.lowest_end()
            settled.discard(settled.lowest(), settled.lowest_end())

    def state(
        self, redelivered: list[tuple[int, int, int]], delays: tuple[tuple[int, int, int], ...] = ()
    ) -> CursorRecord:
        """Return the form that is written."""
        return CursorRecord(
            self.partition_id, self.floor, self.settled.ranges(), self.next_sequence_reserved, redelivered, delays
        )
