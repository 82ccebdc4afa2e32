"""The commits and checkpoints of one owner: random ones of every kind, on the account of what its store had."""

from dataclasses import replace
from random import Random
from typing import Final

from simulation.replicas.broker.state import TABLE, Change, Message, State, state_of
from sluicegate.storage.commit.checkpoint import PartitionCursor
from sluicegate.storage.interface import (
    CheckpointJob,
    CommitJob,
    PageKey,
    PageWrite,
    Reservation,
    Store,
    TableWrite,
)
from sluicegate.storage.records.journal import JournalEntry, Match, Settlement, encode_journal_record
from sluicegate.storage.records.page import Run, encode_page
from support.cores.messages import batch_of
from support.storage.replicas import content_of, is_settled

RESERVED: Final = 20  # sequences at a time
PARTITIONS_MAX: Final = 4
ROWS: Final = 6
SIZES: Final = (1, 30, 30, 400, 3_000)  # bytes; a message of the stream has less than the largest


class Load:
    """What one owner knows of its store, and what it does next."""

    def __init__(self, store: Store) -> None:
        """Read what a store has."""
        recovery = store.recover()
        self.state: Final[State] = state_of(content_of(store))
        self.next_number = recovery.next_record_number
        self._cursors: Final[dict[int, PartitionCursor]] = {}
        self._next_sequences: Final[dict[int, int]] = {}
        self._in_log: Final[dict[Message, int]] = {}  # messages that no page has: their record
        self._paged: Final[dict[PageKey, range]] = {}
        for partition_id, stored in recovery.cursors.items():
            cursor = self._cursors[partition_id] = PartitionCursor(partition_id, stored.floor, stored.next_sequence)
            for first, end in stored.settled:
                cursor.settle(first, end)
            self._next_sequences[partition_id] = stored.next_sequence  # what was in use below is not known
        for page in recovery.pages:
            runs = store.read_page(page.partition_id, page.summary.first_sequence).runs
            first = page.summary.first_sequence
            self._paged[PageKey(page.partition_id, first)] = range(
                first, max([at + len(b.payloads()) for at, b in runs])
            )
        for number, journal in recovery.journal:
            for entry, matches in journal.entries:
                for match in matches:
                    count = entry.count if match.rows is None else len(match.rows)
                    for place in range(count):
                        message = Message(match.partition_id, match.first_sequence + place)
                        if message in self.state.messages:
                            self._in_log[message] = number
            for partition_id, first, end in journal.settlements if number > recovery.applied else ():
                if partition_id in self._cursors:
                    self._cursors[partition_id].settle(first, end)

    # --- commits ---

    def draw(self, number: int, rng: Random) -> tuple[Change, CommitJob]:
        """Return a commit. Nothing here changes before `committed`."""
        change = Change(number)
        job = CommitJob(number=self.next_number, uses_reserve=rng.random() < 0.3)
        entries: list[JournalEntry] = []
        if len(self.state.partitions) == PARTITIONS_MAX and rng.random() < 0.03:
            change.purges.append(rng.choice(list(self.state.partitions)))
            job.partition_purges.extend(change.purges)
        elif not job.uses_reserve:
            entries = self._publish(change, job, rng)
        settlements = self._settle(change, rng)
        if entries or settlements:
            job = replace(job, record=encode_journal_record(entries, settlements))
        change.rows[b"last"] = b"%d" % number
        if rng.random() < 0.3:
            change.rows[b"%d" % rng.randrange(ROWS)] = rng.choice((None, rng.randbytes(rng.choice(SIZES))))
        job.table_writes.extend([TableWrite(TABLE, key, value) for key, value in change.rows.items()])
        return change, job

    def _publish(self, change: Change, job: CommitJob, rng: Random) -> list[JournalEntry]:
        if len(self.state.partitions) < PARTITIONS_MAX and rng.random() < 0.3:
            self._reserve(change, job, change.number, end=1 + RESERVED)  # no other one gets its number
        there = list(self._cursors)
        if not there:
            return []
        entries = []
        next_sequences = dict(self._next_sequences)
        for _ in range(rng.choice((1, 1, 3))):
            count = rng.choice((1, 1, 2, 5))
            payloads = [
                b"%d.%d " % (change.number, len(change.published) + place) + rng.randbytes(rng.choice(SIZES))
                for place in range(count)
            ]
            matches = []
            for partition_id in rng.sample(there, min(len(there), rng.choice((1, 1, 2)))):
                first = next_sequences[partition_id]
                next_sequences[partition_id] = first + count
                reserved = change.partitions.get(partition_id, self.state.partitions[partition_id])
                if first + count > reserved:
                    self._reserve(change, job, partition_id, end=first + count + RESERVED)
                matches.append(Match(partition_id, first, None))
                for place, payload in enumerate(payloads):
                    change.published[Message(partition_id, first + place)] = payload
            entries.append(JournalEntry(batch_of(payloads), matches))
        return entries

    def _reserve(self, change: Change, job: CommitJob, partition_id: int, *, end: int) -> None:
        cursor = self._cursors.get(partition_id)
        change.partitions[partition_id] = end
        job.reservations.append(Reservation(partition_id, 1 if cursor is None else cursor.floor, end))

    def _settle(self, change: Change, rng: Random) -> list[Settlement]:
        share = rng.choice((0.0, 0.2, 0.8))
        change.settled = [
            each for each in self.state.messages if each.partition_id not in change.purges and rng.random() < share
        ]
        return [Settlement(each.partition_id, each.sequence, each.sequence + 1) for each in change.settled]

    def committed(self, change: Change, next_number: int, number: int) -> None:
        """Take that a commit is stored, as a record of that number."""
        self.next_number = next_number
        self.state.apply(change)
        for partition_id, end in change.partitions.items():
            cursor = self._cursors.get(partition_id)
            if cursor is None:
                cursor = self._cursors[partition_id] = PartitionCursor(partition_id, 1, end)
                self._next_sequences[partition_id] = 1
            cursor.next_sequence_reserved = end
        for message in change.published:
            self._in_log[message] = number
            behind = max(self._next_sequences[message.partition_id], message.sequence + 1)
            self._next_sequences[message.partition_id] = behind
        for message in change.settled:
            self._in_log.pop(message, None)
            self._cursors[message.partition_id].settle(message.sequence, message.sequence + 1)
        for partition_id in change.purges:
            self._cursors.pop(partition_id, None)
            for message in [each for each in self._in_log if each.partition_id == partition_id]:
                del self._in_log[message]
            for key in [each for each in self._paged if each.partition_id == partition_id]:
                del self._paged[key]

    # --- checkpoints ---

    def checkpoint(self, rng: Random) -> CheckpointJob:
        """Return a checkpoint: some messages move into pages, and pages of settled ones go. It is made at once."""
        job = CheckpointJob(applied=self.next_number - 1, needed_from=0)
        for message in [each for each in self._in_log if rng.random() < 0.5]:
            del self._in_log[message]
            self._paged[PageKey(*message)] = range(message.sequence, message.sequence + 1)
            page = encode_page([Run(message.sequence, batch_of([self.state.messages[message]]))])
            job.page_writes.append(PageWrite(message.partition_id, page))
        for key, sequences in list(self._paged.items()):
            cursor = self._cursors[key.partition_id]
            if all(is_settled(cursor, each) for each in sequences):
                job.page_deletes.append(key)
                del self._paged[key]
        job.cursor_puts.extend([cursor.state([]) for cursor in self._cursors.values()])
        return replace(job, needed_from=min(self._in_log.values(), default=self.next_number))
