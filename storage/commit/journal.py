"""The records of the log with messages that no page has, and the first record that is needed for them.

A record is needed while one of its messages is neither settled nor in a page. It keeps all later records, because the
log is trimmed at its head. So what keeps the head of a long log is moved into pages.

See also: the checkpoint that trims the log (storage.commit.checkpoint), the time of a commit (storage.commit.planner).
"""

from collections import deque
from typing import final

from sluicegate.messaging.message.publication import Publication


@final
class LogSlot:
    """One record of the log with messages, and the number of its publications that are still needed."""

    __slots__ = ("needed_count", "number", "partition_ids", "start")

    def __init__(self, number: int, needed: list[Publication], start: int) -> None:
        self.number = number
        self.needed_count = len(needed)
        self.partition_ids = tuple({match.partition_id for each in needed for match in each.matches})
        self.start = start  # bytes of the log before it, since the start of the process


@final
class LogIndex:
    """The records of the log from the first needed one on, oldest first.

    Invariant: slots ascend by number, and the first of them is needed.
    """

    def __init__(self) -> None:
        self.slots: deque[LogSlot] = deque()
        self.end = 0  # bytes of the log, since the start of the process
        self._by_number: dict[int, LogSlot] = {}

    def add(self, number: int, needed: list[Publication], record_bytes: int) -> None:
        """Add a record with these needed publications."""
        if needed:
            slot = LogSlot(number, needed, self.end)
            self.slots.append(slot)
            self._by_number[number] = slot
        self.end += record_bytes

    def take_back(self, number: int) -> None:
        """Remove the newest record: it was not written."""
        if self.slots and self.slots[-1].number == number:
            self.slots.pop()
            del self._by_number[number]

    def released(self, number: int) -> bool:
        """Note that a publication of a record is no longer needed; return whether the head of the log is not either."""
        slot = self._by_number.get(number)
        if slot is None:
            return False
        assert slot.needed_count > 0, "a publication is drained once"
        slot.needed_count -= 1
        count = len(self.slots)
        while self.slots and self.slots[0].needed_count == 0:
            del self._by_number[self.slots.popleft().number]
        return len(self.slots) < count

    def readopt(self, number: int) -> None:
        """Note one more user of a publication of a record: a partition was read back from the log."""
        slot = self._by_number.get(number)
        if slot is not None:
            slot.needed_count += 1

    def needed_from(self, end: int) -> int:
        """Return the number of the first needed record, and `end` when none is needed."""
        return min(self.slots[0].number, end) if self.slots else end

    def needed_bytes(self) -> int:
        """Return the bytes of the log from the first needed record on."""
        return self.end - self.slots[0].start if self.slots else 0

    def page_out(self, *, records: int, size: int) -> tuple[int, set[int]]:
        """Return the last of the first `records`, or of the first `size` bytes, and the partitions that keep these.

        At least the first needed record is among them.
        """
        through = 0
        partition_ids: set[int] = set()
        for slot in self.slots:
            first = self.slots[0]
            if slot is not first and (slot.number - first.number >= records or slot.start - first.start >= size):
                break
            through = slot.number
            if slot.needed_count > 0:
                partition_ids.update(slot.partition_ids)
        return through, partition_ids
