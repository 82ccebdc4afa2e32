"""Promises about sequences: one sequence stands for one message for ever, and is reserved before it is used.

A message that a named publisher sends again has one sequence in a partition.
"""

from collections.abc import Callable, Mapping

from simulation.judge.targets import Violation
from simulation.wires.mqtt_tap import number_of
from sluicegate.storage.interface import CommitJob
from sluicegate.storage.records.journal import decode_journal_record


class SequenceBook:
    """Every sequence that a commit wrote, over all lives of the node."""

    def __init__(self, reserved: Mapping[int, int], *, is_stored_once: Callable[[int, int], bool]) -> None:
        self._reserved = reserved  # partition id -> the first sequence that is not reserved, in the log by now
        self._is_stored_once = is_stored_once  # told a partition id and the number of a message
        self._sequences: dict[tuple[int, int], int] = {}  # partition id, number of a message that is stored once
        self._messages: dict[tuple[int, int], int] = {}  # partition id, sequence -> message number
        self._gone: set[int] = set()

    def committed(self, job: CommitJob) -> None:
        """Check the rows of a commit. Rows for partitions that are gone do not count."""
        self._gone.difference_update([each.partition_id for each in job.reservations])  # of a queue never stored
        self._gone.update(job.partition_purges)
        if job.record is None:
            return
        for batch, matches in decode_journal_record(job.record).entries:
            numbers = [number_of(payload) for payload in batch.payloads()]
            for partition_id, first, rows in matches:
                its_rows = range(batch.count) if rows is None else rows
                for sequence, row in enumerate(its_rows, first):
                    self._wrote(partition_id, sequence, numbers[row])

    def _wrote(self, partition_id: int, sequence: int, number: int) -> None:
        if partition_id in self._gone:
            return
        place = (partition_id, sequence)
        if self._messages.setdefault(place, number) != number:
            raise Violation(f"{place} stood for message {self._messages[place]} and now for {number}")
        self.note_place(partition_id, sequence, number)
        reserved = self._reserved.get(partition_id, 0)
        if sequence >= reserved:
            raise Violation(f"{place} was written while only sequences below {reserved} were reserved")

    def note_place(self, partition_id: int, sequence: int, number: int) -> None:
        """A message lies in a partition. Raises Violation when it is there already, and may be there once."""
        if self._is_stored_once(partition_id, number):
            first = self._sequences.setdefault((partition_id, number), sequence)
            if first != sequence:
                raise Violation(f"message {number} is stored twice in partition {partition_id}: {first}, {sequence}")
