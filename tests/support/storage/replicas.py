"""An owner and standbys of one log, each with a store of its own, and what a recovery finds in these."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from sluicegate.storage.commit.checkpoint import PartitionCursor
from sluicegate.storage.interface import (
    CheckpointJob,
    CommitJob,
    PageKey,
    PageWrite,
    Reservation,
    Store,
    Table,
    TableWrite,
)
from sluicegate.storage.log.record import encode_log_record, record_of
from sluicegate.storage.records.journal import JournalEntry, Match, Settlement, encode_journal_record
from sluicegate.storage.records.page import Run, encode_page
from sluicegate.storage.replication.log import ReplicatedLog
from sluicegate.storage.replication.messages import Begin
from sluicegate.storage.replication.replica import Replica
from sluicegate.storage.replication.stream import Stream
from sluicegate.storage.store.standby import Standby
from sluicegate.storage.store.store import SpoolStore
from support.cores.messages import batch_of
from support.storage.answers import answered

BEGIN: Final = Begin(incarnation=7, broker="edge")
RESERVED: Final = 1000


class Content(NamedTuple):
    """What an owner would serve from a store."""

    next_record_number: int
    cursors: dict[int, tuple[int, list[tuple[int, int]], int]]
    messages: dict[tuple[int, int], bytes]  # by partition and sequence
    rows: dict[Table, dict[bytes, bytes]]
    quarantined_count: int


def opened(folder: Path, incarnation: int = BEGIN.incarnation) -> SpoolStore:
    """Open a store, without the syncs that no power failure tests here."""
    return SpoolStore.open(folder, map_bytes_max=16 << 20, reserve_bytes=1 << 20, sync=False, incarnation=incarnation)


def content_of(store: Store) -> Content:
    """Return what a recovery finds: messages that are not settled, and whatever else counts."""
    recovery = store.recover()
    cursors: dict[int, PartitionCursor] = {}
    for partition_id, stored in recovery.cursors.items():
        cursors[partition_id] = cursor = PartitionCursor(partition_id, stored.floor, stored.next_sequence)
        for first, end in stored.settled:
            cursor.settle(first, end)
    messages: dict[tuple[int, int], bytes] = {}
    for number, journal in recovery.journal:
        for entry, matches in journal.entries:
            for match in matches:
                rows = range(entry.count) if match.rows is None else match.rows
                for place, row in enumerate(rows):
                    messages[match.partition_id, match.first_sequence + place] = entry.payloads()[row]
        if number > recovery.applied:
            for partition_id, first, end in journal.settlements:
                if partition_id in cursors:
                    cursors[partition_id].settle(first, end)
    for page in recovery.pages:
        for first, batch in store.read_page(page.partition_id, page.summary.first_sequence).runs:
            for place, payload in enumerate(batch.payloads()):
                messages[page.partition_id, first + place] = payload
    served = {
        (partition_id, sequence): payload
        for (partition_id, sequence), payload in messages.items()
        if partition_id in cursors and not is_settled(cursors[partition_id], sequence)
    }
    tables = {table: dict(found) for table, found in recovery.tables.items()}
    known = {each: (one.floor, one.settled.ranges(), one.next_sequence_reserved) for each, one in cursors.items()}
    return Content(recovery.next_record_number, known, served, tables, len(recovery.quarantined))


def is_settled(cursor: PartitionCursor, sequence: int) -> bool:
    """Return whether a message is settled."""
    return sequence < cursor.floor or sequence in cursor.settled


class Following:
    """A standby with its end of the log."""

    def __init__(self, folder: Path, stream: Stream, name: str) -> None:
        self.store: Final = opened(folder)
        self.replica: Final = Replica(name, "0")
        self.standby: Final = Standby(self.store, self.replica)
        self.log: Final = ReplicatedLog(
            self.replica, stream, wall_ms=lambda: 0, take=self.standby.take, rng=random.Random(1)
        )
        self.stream: Final = stream

    async def read_all(self) -> None:
        """Read to the end of the stream."""
        end = (await answered(self.stream.bounds)).last
        while self.replica.read_through < end:
            await answered(self.log.read)


class Owner:
    """An owner that commits random jobs, and makes checkpoints with an account of its own."""

    def __init__(self, folder: Path, stream: Stream) -> None:
        self.store: Final = opened(folder)
        self.log: Final = ReplicatedLog(
            Replica("owner", "0"), stream, wall_ms=lambda: 0, take=lambda _: None, rng=random.Random(1)
        )
        self.cursors: Final[dict[int, PartitionCursor]] = {}
        self.next_sequences: Final[dict[int, int]] = {}
        self.open: Final[dict[tuple[int, int], tuple[int, bytes]]] = {}  # messages of the log: record, payload
        self.paged: Final[dict[PageKey, range]] = {}
        self._next_partition = 1
        self._staging = 0  # the partition whose messages are staged in pages; 0: there is none
        self._last_number = 0

    async def begin(self) -> None:
        """Take over."""
        while self.log.replica.begin is None:
            await answered(self.log.read)
        await self.log.take_over(1)

    async def commit_random(self, rng: random.Random) -> None:
        """Commit some of everything."""
        job = CommitJob(number=self.log.replica.next_number())
        if not self.cursors or rng.random() < 0.2:
            self._add_partition(job, rng.choice([1, 5]))
        elif rng.random() < 0.3:
            cursor = self.cursors[rng.choice(list(self.cursors))]
            cursor.next_sequence_reserved += RESERVED
            job.reservations.append(Reservation(cursor.partition_id, cursor.floor, cursor.next_sequence_reserved))
        entries = [self._publication(job, rng) for _ in range(rng.choice([0, 1, 1, 2]))]
        settlements = self._settlements(rng)
        if entries or settlements:
            job = replace(job, record=encode_journal_record(entries, settlements))
        if rng.random() < 0.15:
            self._stage(job, rng)
        for _ in range(rng.choice([0, 0, 1, 3])):
            key, value = b"%d" % rng.randrange(6), rng.choice([None, rng.randbytes(rng.randrange(1, 40))])
            job.table_writes.append(TableWrite(rng.choice([Table.RETAINED, Table.SESSIONS]), key, value))
        if rng.random() < 0.1:
            self._purge(job, rng.choice(list(self.cursors)))
        await self.commit(job)

    async def commit(self, job: CommitJob) -> None:
        """Commit a job to the log, and then here."""
        number = await self.log.append(encode_log_record(record_of(job)))
        self.store.commit(replace(job, number=number))
        self._last_number = number

    def checkpoint_random(self, rng: random.Random) -> None:
        """Make a checkpoint: some messages move into pages, pages of settled messages go."""
        job = CheckpointJob(applied=self._last_number, needed_from=0)
        for partition_id, sequence in [each for each in self.open if rng.random() < 0.5]:
            _, payload = self.open.pop((partition_id, sequence))
            self.paged[PageKey(partition_id, sequence)] = range(sequence, sequence + 1)
            job.page_writes.append(PageWrite(partition_id, encode_page([Run(sequence, batch_of([payload]))])))
        for key, sequences in list(self.paged.items()):
            cursor = self.cursors[key.partition_id]
            if all(is_settled(cursor, each) for each in sequences):
                job.page_deletes.append(key)
                del self.paged[key]
        job.cursor_puts.extend([cursor.state([]) for cursor in self.cursors.values()])
        needed_from = min([number for number, _ in self.open.values()], default=self._last_number + 1)
        self.store.checkpoint(replace(job, needed_from=needed_from))

    def _add_partition(self, job: CommitJob, floor: int) -> int:
        partition_id = self._next_partition
        self._next_partition += 1
        self.cursors[partition_id] = PartitionCursor(partition_id, floor, floor + RESERVED)
        self.next_sequences[partition_id] = floor
        job.reservations.append(Reservation(partition_id, floor, floor + RESERVED))
        return partition_id

    def _publication(self, job: CommitJob, rng: random.Random) -> JournalEntry:
        payloads = [rng.randbytes(rng.choice([1, 10, 3000])) for _ in range(rng.randrange(1, 4))]
        matches: list[Match] = []
        there = [each for each in self.cursors if each != self._staging]
        for partition_id in rng.sample(there, min(len(there), rng.randrange(1, 3))):
            rows = None if rng.random() < 0.5 else sorted(rng.sample(range(len(payloads)), rng.randrange(1, 2)))
            first = self.next_sequences[partition_id]
            matches.append(Match(partition_id, first, rows))
            taken = range(len(payloads)) if rows is None else rows
            for place, row in enumerate(taken):
                self.open[partition_id, first + place] = (job.number, payloads[row])
            self.next_sequences[partition_id] = first + len(taken)
        return JournalEntry(batch_of(payloads), matches)

    def _settlements(self, rng: random.Random) -> list[Settlement]:
        share = rng.choice([0.0, 0.2, 0.8])
        found = [each for each in self.open if rng.random() < share]
        found += [
            (key.partition_id, each) for key, those in self.paged.items() for each in those if rng.random() < share
        ]
        for partition_id, sequence in found:
            self.open.pop((partition_id, sequence), None)
            self.cursors[partition_id].settle(sequence, sequence + 1)
        return [Settlement(partition_id, sequence, sequence + 1) for partition_id, sequence in found]

    def _stage(self, job: CommitJob, rng: random.Random) -> None:
        if self._staging not in self.cursors:
            self._staging = self._add_partition(job, 1)
        first = self.next_sequences[self._staging]
        payloads = [rng.randbytes(20) for _ in range(rng.randrange(1, 4))]
        self.next_sequences[self._staging] = first + len(payloads)
        self.paged[PageKey(self._staging, first)] = range(first, first + len(payloads))
        job.staged_pages.append(PageWrite(self._staging, encode_page([Run(first, batch_of(payloads))])))

    def _purge(self, job: CommitJob, partition_id: int) -> None:
        job.partition_purges.append(partition_id)
        del self.cursors[partition_id]
        for message in [each for each in self.open if each[0] == partition_id]:
            del self.open[message]
        for key in [each for each in self.paged if each.partition_id == partition_id]:
            del self.paged[key]
