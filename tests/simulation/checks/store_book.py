"""Promises of the store: what a start would find is what was committed, whatever checkpoints were made meanwhile.

The book has what commits said, over all lives of the node: messages and their settlements, reserved sequences, rows,
deleted partitions. After each checkpoint, and at each start, it reads the store as a start does, and compares. So these
are found: a checkpoint that includes settlements of a commit that was not made, a page deleted before the settlements
of its messages were committed, a log that was trimmed too far, a page with messages of a record that was refused, and
reservations and rows that were lost.
"""

from simulation.judge.targets import Violation
from simulation.machine.memory_store import MemoryStore
from sluicegate.messaging.message.ranges import RangeSet
from sluicegate.storage.catalog.recovered import read_partitions
from sluicegate.storage.errors import DamagedRecord
from sluicegate.storage.interface import CheckpointJob, CommitJob, PageKey, PageWrite, Recovery, Table
from sluicegate.storage.log.record import page_key_of
from sluicegate.storage.records.journal import decode_journal_record
from sluicegate.storage.records.page import decode_page

SHOWN_MAX = 5


class StoreBook:
    """What commits said."""

    def __init__(self) -> None:
        self.reserved: dict[int, int] = {}  # partition id -> the first sequence that is not reserved
        self.is_stopping = False  # the node stops in order: it gives back what it had reserved
        self._unsettled: dict[int, set[int]] = {}  # partition id -> sequences of stored messages
        self._damaged: dict[int, set[int]] = {}  # of a quarantined page, and not settled: the log may have them yet
        self._settled: dict[int, RangeSet] = {}
        self._rows: dict[Table, dict[bytes, bytes]] = {table: {} for table in Table}
        self._gone: set[int] = set()
        self._in_pages: dict[PageKey, set[int]] = {}

    def committed(self, job: CommitJob) -> None:
        """Note a record that is in the log."""
        for partition_id, _, next_sequence in job.reservations:
            self._gone.discard(partition_id)  # its number was given to a queue that was never stored
            self.reserved[partition_id] = max(next_sequence, self.reserved.get(partition_id, 0))
        for write in job.staged_pages:
            self._wrote(write.partition_id, self._note_page(write))
        if job.record is not None:
            record = decode_journal_record(job.record)
            for batch, matches in record.entries:
                for partition_id, first, rows in matches:
                    count = batch.count if rows is None else len(rows)
                    self._wrote(partition_id, set(range(first, first + count)))
            for partition_id, first, end in record.settlements:
                self._settled.setdefault(partition_id, RangeSet()).add(first, end)
                for left in (self._unsettled.get(partition_id, set()), self._damaged.get(partition_id, set())):
                    left.difference_update([each for each in left if first <= each < end])
        for row in job.table_writes:
            if row.value is None:
                self._rows[row.table].pop(row.key, None)
            else:
                self._rows[row.table][row.key] = row.value
        for partition_id in job.partition_purges:
            self._gone.add(partition_id)
            self.reserved.pop(partition_id, None)
            self._unsettled.pop(partition_id, None)
            self._damaged.pop(partition_id, None)
            self._settled.pop(partition_id, None)

    def checkpointed(self, store: MemoryStore, job: CheckpointJob) -> None:
        """Note a checkpoint that was made. Raises Violation."""
        for write in job.page_writes:
            self._note_page(write)
        for damage in job.page_quarantines:
            if not damage.stays:  # the node gives up its messages by a later commit
                lost = self._in_pages.get(PageKey(damage.partition_id, damage.first_sequence), set())
                unsettled = self._unsettled.get(damage.partition_id, set())
                self._damaged.setdefault(damage.partition_id, set()).update(lost & unsettled)
                unsettled.difference_update(lost)
        if self.is_stopping:
            self.reserved.update({cursor.partition_id: cursor.next_sequence for cursor in job.cursor_puts})
        self.compare(store.recover())

    def compare(self, recovery: Recovery) -> None:
        """Hold what a start finds against what was committed. Raises Violation."""
        for table in Table:
            if dict(recovery.tables[table]) != self._rows[table]:
                raise Violation(f"the store has other rows of {table} than were committed")
        for partition_id, reserved in self.reserved.items():
            cursor = recovery.cursors.get(partition_id)
            if cursor is None or cursor.next_sequence < reserved:
                raise Violation(
                    f"{reserved} sequences of partition {partition_id} were reserved, the store has {cursor}"
                )
        partitions, _ = read_partitions(recovery)
        for partition_id in {*partitions, *self._unsettled} - self._gone:
            stored = partitions.get(partition_id)
            found: set[int] = set()
            if stored is not None:
                for page in stored.pages:
                    found |= self._in_pages[PageKey(partition_id, page.first)]
                for each in stored.batches:
                    found |= set(range(each.first, each.first + each.batch.count))
                found = {each for each in found if each >= stored.floor and each not in stored.settled}
            self._compare_messages(partition_id, found)

    def check_pages(self, pages: dict[PageKey, bytes], unapplied_purges: set[int]) -> None:
        """No page of a deleted partition stays. Raises Violation."""
        left = {key for key in pages if key.partition_id in self._gone - unapplied_purges}
        if left:
            raise Violation(f"pages of deleted partitions stay in the store: {sorted(left)}")

    def _compare_messages(self, partition_id: int, found: set[int]) -> None:
        expected = self._unsettled.get(partition_id, set())
        if lost := sorted(expected - found):
            raise Violation(f"partition {partition_id} would lose {len(lost)} messages: {lost[:SHOWN_MAX]}")
        if more := sorted(found - expected - self._damaged.get(partition_id, set())):
            settled = self._settled.get(partition_id, RangeSet())
            what = "are settled" if more[0] in settled else "were never committed"
            raise Violation(
                f"{len(more)} messages of partition {partition_id} would come that {what}: {more[:SHOWN_MAX]}"
            )

    def _wrote(self, partition_id: int, sequences: set[int]) -> None:
        if partition_id not in self._gone:
            settled = self._settled.setdefault(partition_id, RangeSet())
            new = {each for each in sequences if each not in settled}
            self._unsettled.setdefault(partition_id, set()).update(new)

    def _note_page(self, write: PageWrite) -> set[int]:
        try:
            runs = decode_page(write.page).runs
        except DamagedRecord as error:
            raise Violation(f"a page is written that cannot be read: {error}") from error
        sequences = {run.first_sequence + row for run in runs for row in range(run.batch.count)}
        self._in_pages[page_key_of(write)] = sequences
        return sequences
