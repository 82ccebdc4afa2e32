"""The records in the journal, and the number of the last record that may be trimmed from its head.

Records are trimmed oldest first, so a needed record keeps all later records. Trimming waits until several records can
go, because each trim writes the cursors of all changed partitions. It does not wait when the unneeded records take too
much room: otherwise they could fill the store.

See also: the writes of a trim, and the time of a commit (storage.commit.planner).
"""

from collections import deque
from typing import Final, final

from sluicegate.messaging.message.publication import Publication

RECORDS_TRIMMED_MIN: Final = 64
# Limit of messages in unneeded records: a quarter of the smallest possible map. A broker that writes 100 MB/s trims
# every 40 ms.
SPENT_BYTES_MAX: Final = 4 << 20


@final
class JournalSlot:
    """One record of the journal, with the number of its publications that are still needed."""

    __slots__ = ("bytes_held", "needed_count", "number", "partition_ids")

    def __init__(self, number: int, needed: list[Publication], bytes_held: int) -> None:
        self.number = number
        self.needed_count = len(needed)
        self.partition_ids = {match.partition_id for each in needed for match in each.matches}
        self.bytes_held = bytes_held  # approximate, of all its messages


@final
class JournalIndex:
    """The records of the journal, oldest first.

    Invariants: slots ascend by number; only a run of unneeded records at the head is trimmed.
    """

    def __init__(self, records_trimmed_min: int) -> None:
        self.records_trimmed_min = records_trimmed_min
        self.slots: deque[JournalSlot] = deque()
        self.holds_too_much = False  # in unneeded records at its head
        self._by_number: dict[int, JournalSlot] = {}

    def add(self, number: int, publications: list[Publication], needed: list[Publication]) -> None:
        """Add a record with these publications, of which some are needed."""
        slot = JournalSlot(number, needed, sum([each.batch.memory_bytes() for each in publications]))
        self.slots.append(slot)
        self._by_number[number] = slot

    def take_back(self) -> None:
        """Remove the newest record: it was not written."""
        del self._by_number[self.slots.pop().number]
        self.measure_head()

    def released(self, number: int) -> None:
        """Note that a publication of a record is no longer needed. A record that is missing here was trimmed."""
        slot = self._by_number.get(number)
        if slot is not None:
            assert slot.needed_count > 0, "a publication is drained once"
            slot.needed_count -= 1
            if slot.needed_count == 0:
                self.measure_head()

    def readopt(self, number: int) -> None:
        """Note one more user of a publication of a record: a partition was read back from it."""
        slot = self._by_number.get(number)
        if slot is not None:
            slot.needed_count += 1
            self.measure_head()

    def measure_head(self) -> None:
        """Check whether the unneeded records are worth a commit."""
        self.holds_too_much = self._spent(0)[2] >= SPENT_BYTES_MAX

    def trimmed_through(self, unwritten: int) -> int:
        """Return the last record to trim, excluding `unwritten` ones; 0 while too few records can go."""
        through, count, size = self._spent(unwritten)
        return through if count >= self.records_trimmed_min or size >= SPENT_BYTES_MAX else 0

    def cut_off(self, through: int) -> None:
        """Remove records that are no longer in the store."""
        while self.slots and self.slots[0].number <= through:
            del self._by_number[self.slots.popleft().number]
        self.measure_head()

    def _spent(self, unwritten: int) -> tuple[int, int, int]:
        """Return the last number, the count and the bytes of the unneeded run at the head."""
        through = 0
        count = 0
        size = 0
        for slot in self.slots:
            if slot.needed_count > 0 or slot.number == unwritten:
                break
            through = slot.number
            count += 1
            size += slot.bytes_held
        return through, count, size
