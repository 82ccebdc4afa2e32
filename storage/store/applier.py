"""What a standby keeps account of: which of its log is still needed, and when its state is to follow the log.

An owner knows this from its partitions. A standby has none: it has the records. Each brings messages, settlements,
reservations and deletions, so the cursors follow from them, and a record is needed while one of its messages is not
settled. This is the account of a start (`storage.catalog.recovery`), made as records come.

It is pure and has no clock: how much has come says when a checkpoint is due. Wills, expiry and whatever else depends on
the time are the owner's. Pages stay as they are: a message that has no page stays in the log until it is settled, and
pages of settled messages are dropped by the owner that this replica becomes, which knows what is kept for replays.
"""

from collections import deque
from typing import Final, NamedTuple, final

from sluicegate.storage.commit.checkpoint import CheckpointPlanner, PartitionCursor
from sluicegate.storage.commit.planner import LOG_BYTES_MAX, LOG_SHARE_MAX
from sluicegate.storage.interface import CheckpointJob, Recovery, Reservation
from sluicegate.storage.log.record import LogRecord
from sluicegate.storage.log.tail import growth_of
from sluicegate.storage.records.journal import Sequences, Settlement, decode_journal_summary, summary_of


class _Slot(NamedTuple):
    """A record with messages."""

    number: int
    added: list[Sequences]


@final
class Applier:
    """The account of one store, for the checkpoints that a standby makes."""

    def __init__(self, recovery: Recovery, map_bytes_max: int) -> None:
        """Begin with what a store of such a size has; reads the journal of the recovery to its end."""
        self._applied = recovery.applied
        self._cursors: Final[dict[int, PartitionCursor]] = {}
        self._planner: Final = CheckpointPlanner(self._cursors, min(LOG_BYTES_MAX, map_bytes_max // LOG_SHARE_MAX))
        self._slots: Final[deque[_Slot]] = deque()
        for partition_id, stored in recovery.cursors.items():
            cursor = PartitionCursor(partition_id, stored.floor, stored.next_sequence)
            for first, end in stored.settled:
                cursor.settle(first, end)
            self._cursors[partition_id] = cursor
        records = 0
        for number, journal in recovery.journal:
            if number > recovery.applied:
                records += 1
                self._settle(journal.settlements)
            self._add(number, summary_of(journal).added)
        self._planner.recovered(records)
        self._applied = max(recovery.applied, recovery.next_record_number - 1)

    def taken(self, number: int, record: LogRecord, record_bytes: int) -> None:
        """Apply a record that is in the log. Raises DamagedRecord, UnsupportedFormat."""
        journal = None
        if record.journal is not None:
            journal = decode_journal_summary(record.journal, f"log record {number}")
        for reservation in record.reservations:
            self._reserve(reservation)
        if journal is not None:
            self._settle(journal.settlements)
            self._add(number, journal.added)
        for partition_id in record.partition_purges:
            self._planner.forget(partition_id)
            self._planner.purged(partition_id)
        self._planner.committed(record_bytes, growth_of(record), 0)
        self._applied = number

    def is_due(self) -> bool:
        """Return whether so much has come that a checkpoint is worth its writes."""
        return self._planner.due_ms() == 0

    def needed_from(self) -> int:
        """Return the number of the first record with a message that is not settled; the next one when all are."""
        slots = self._slots
        while slots and not self._is_needed(slots[0]):
            slots.popleft()
        return slots[0].number if slots else self._applied + 1

    def begin(self) -> CheckpointJob:
        """Return a checkpoint of all that was taken. `end` follows before anything else is taken."""
        return self._planner.next_checkpoint(applied=self._applied, needed_from=self.needed_from()).job

    def end(self, overhead_bytes: int | None) -> None:
        """Note that the checkpoint was made, and what the next one writes beside its content; None: it failed.

        After one that failed another one is due as before.
        """
        if overhead_bytes is None:
            self._planner.failed()
        else:
            self._planner.succeeded(overhead_bytes)

    def _reserve(self, reservation: Reservation) -> None:
        partition_id, floor, next_sequence = reservation
        cursor = self._cursors.get(partition_id)
        if cursor is None:
            cursor = self._cursors[partition_id] = PartitionCursor(partition_id, floor, next_sequence)
        cursor.next_sequence_reserved = max(cursor.next_sequence_reserved, next_sequence)
        self._planner.changed(partition_id)

    def _settle(self, settlements: list[Settlement]) -> None:
        for partition_id, first, end in settlements:
            cursor = self._cursors.get(partition_id)
            if cursor is not None:  # else the partition is deleted
                cursor.settle(first, end)
                self._planner.changed(partition_id)

    def _add(self, number: int, added: list[Sequences]) -> None:
        if added:
            self._slots.append(_Slot(number, added))

    def _is_needed(self, slot: _Slot) -> bool:
        for partition_id, first, end in slot.added:
            cursor = self._cursors.get(partition_id)
            if cursor is None:  # the partition is deleted, and no other one gets its number
                continue
            first = max(first, cursor.floor)
            if first < end and cursor.settled.count_within(first, end) < end - first:
                return True
        return False
