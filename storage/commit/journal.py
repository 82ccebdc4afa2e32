"""Which records the journal holds, and through which of them it may be cut off at its head.

Records go oldest first, so one that is needed keeps all that came after it. What may go waits for company: cutting it
off writes the cursors of all partitions that have changed. But it does not wait while it takes up room, or a store
could be full of records that nobody needs.

See also: what is written with a cut, and when there is a commit (storage.commit.planner).
"""

from collections import deque
from typing import Final, final

from sluicegate.messaging.message.publication import Publication

RECORDS_TRIMMED_MIN: Final = 64
# Of messages in records that nothing needs: a quarter of the smallest map there may be. A broker that writes 100 MB/s
# cuts off every 40 ms.
SPENT_BYTES_MAX: Final = 4 << 20


@final
class JournalSlot:
    """One record of the journal: how many of its publications are still needed."""

    __slots__ = ("bytes_held", "needed_count", "number", "partition_ids")

    def __init__(self, number: int, needed: list[Publication], bytes_held: int) -> None:
        self.number = number
        self.needed_count = len(needed)
        self.partition_ids = {match.partition_id for each in needed for match in each.matches}
        self.bytes_held = bytes_held  # about; of all its messages


@final
class JournalIndex:
    """The records of the journal, oldest first.

    Invariants: slots ascend by number; what is cut off is a run from the head that nothing needs.
    """

    def __init__(self, records_trimmed_min: int) -> None:
        self.records_trimmed_min = records_trimmed_min
        self.slots: deque[JournalSlot] = deque()
        self.holds_too_much = False  # in records at its head that nothing needs
        self._by_number: dict[int, JournalSlot] = {}

    def add(self, number: int, publications: list[Publication], needed: list[Publication]) -> None:
        """Take up a record with these publications, of which some are needed."""
        slot = JournalSlot(number, needed, sum([each.batch.memory_bytes() for each in publications]))
        self.slots.append(slot)
        self._by_number[number] = slot

    def take_back(self) -> None:
        """Forget the newest record: it was not written."""
        del self._by_number[self.slots.pop().number]
        self.measure_head()

    def released(self, number: int) -> None:
        """Note that a publication of a record is needed no more. A record that is not here was cut off."""
        slot = self._by_number.get(number)
        if slot is not None:
            assert slot.needed_count > 0, "a publication is drained once"
            slot.needed_count -= 1
            if slot.needed_count == 0:
                self.measure_head()

    def readopt(self, number: int) -> None:
        """Note that a publication of a record is needed by one more object: a partition was read back from it."""
        slot = self._by_number.get(number)
        if slot is not None:
            slot.needed_count += 1
            self.measure_head()

    def measure_head(self) -> None:
        """See whether what nothing needs is worth a commit."""
        self.holds_too_much = self._spent(0)[2] >= SPENT_BYTES_MAX

    def trimmed_through(self, unwritten: int) -> int:
        """Return through which record to cut off, of those that are not `unwritten`; 0: what may go has no company."""
        through, count, size = self._spent(unwritten)
        return through if count >= self.records_trimmed_min or size >= SPENT_BYTES_MAX else 0

    def cut_off(self, through: int) -> None:
        """Forget records that are not in the store any more."""
        while self.slots and self.slots[0].number <= through:
            del self._by_number[self.slots.popleft().number]
        self.measure_head()

    def _spent(self, unwritten: int) -> tuple[int, int, int]:
        """Return the last number, the count and the bytes of the run at the head that nothing needs."""
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
