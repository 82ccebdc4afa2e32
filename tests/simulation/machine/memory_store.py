"""A store in memory with real record bytes and every failure that a disk can have.

The image outlives the node: a power failure leaves the records that were appended, and the state of the last
checkpoint. Bytes are encoded and decoded with the store's own record formats, and each is read back when it is written.
What the log changes is found by the store's own code (`storage.log`). What the file system and LMDB add (segments,
transactions, space) is simulated here.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from simulation.machine.image import Image, MemoryLog
from sluicegate.storage.environment.identity import Positions
from sluicegate.storage.errors import CommitInDoubt, PageNotFound, StoreDamaged, StoreFailed, StoreFull
from sluicegate.storage.interface import (
    CheckpointJob,
    CommitJob,
    LogEntry,
    PageEntry,
    PageKey,
    PageWrite,
    Quarantined,
    Recovery,
    StoreUsage,
    Table,
)
from sluicegate.storage.log.record import decode_log_record, encode_log_record, page_key_of, record_of
from sluicegate.storage.log.replay import Replay
from sluicegate.storage.log.tail import LogTail, TailChanges
from sluicegate.storage.records.cursor import decode_cursor, encode_cursor
from sluicegate.storage.records.journal import JournalRecord, decode_journal_record, encode_journal_record
from sluicegate.storage.records.linked_page import Link
from sluicegate.storage.records.page import PageRuns, decode_page, decode_page_summary, encode_page
from sluicegate.storage.records.table import decode_row, stored_key

RESERVE_SHARE = 8  # of the map, one part of so many
LEFT_SHARE = 0.3  # of the appends that fail, and whose record is on the disk all the same
VOID_SHARE = 0.5  # of the appends that fail after one of these, and void its record


@dataclass
class Faults:
    """What goes wrong next. The simulation sets it, the store obeys."""

    full: bool = False  # commits that bring messages are refused
    failures_left: int = 0  # so many commits are refused by the system, whatever they do
    checkpoint_failures_left: int = 0  # so many checkpoints, for the same reason
    checkpoints_full_left: int = 0  # so many checkpoints find no room
    broken: bool = False  # the store's own pages are damaged: nothing can be committed until the next start
    reads_fail: int = 0  # so many reads of pages are refused
    refused: Callable[[], None] = lambda: None  # is told of each commit that is refused
    rng: Random = field(default_factory=lambda: Random(0))  # seeded anew by each step

    def end(self) -> None:
        """Mend the disk."""
        self.full = False
        self.failures_left = self.checkpoint_failures_left = self.checkpoints_full_left = 0


class Witness(Protocol):
    """Sees what was done to the store."""

    def committed(self, job: CommitJob) -> None:
        """A record is in the log."""

    def checkpointed(self, store: "MemoryStore", job: CheckpointJob) -> None:
        """A checkpoint is made."""


class MemoryStore:
    """One life of the store, from open to close or power failure."""

    def __init__(self, image: Image, faults: Faults, witness: Witness, *, segment_records: int, map_bytes: int) -> None:
        """Open the image. A segment of its log takes so many records."""
        self._map_bytes = map_bytes
        self._image = image
        self._faults = faults
        self._witness = witness
        self._segment_records = segment_records
        self._torn = f"log record {image.torn} was cut off" if image.torn else ""
        image.torn = 0
        if image.leftover is not None:
            image.segments[-1][image.leftover.number] = encode_log_record(record_of(image.leftover))
            witness.committed(image.leftover)
        self._was_clean = image.clean and image.last_number <= image.positions.applied
        self._tail = LogTail()
        for number, record in Replay(MemoryLog(image), image.positions).unapplied():
            self._tail.add(number, record)
        self._last_number = image.last_number
        image.begin_segment()
        self._quarantined: list[Quarantined] = []

    # --- what changes it ---

    def commit(self, job: CommitJob) -> int:
        """Append all of it or nothing, as `storage.interface.Store` requires."""
        if job.number <= self._last_number:
            raise ValueError(f"log record {job.number} after {self._last_number}")
        record = record_of(job)
        data = encode_log_record(record)
        faults, image = self._faults, self._image
        if faults.broken:
            faults.refused()
            raise StoreDamaged("the simulated disk has broken pages")
        leftover = image.leftover
        assert leftover is None or leftover.number == job.number, "a record in doubt is written again"
        if faults.failures_left > 0:
            faults.failures_left -= 1
            if leftover is None or faults.rng.random() < VOID_SHARE:
                image.begin_segment()
                if faults.rng.random() < LEFT_SHARE:
                    image.leftover = job
            if image.leftover is not None:
                raise CommitInDoubt("the simulated disk refused, and may have the record")
            faults.refused()
            raise StoreFailed("the simulated disk refused")
        if faults.full and not job.uses_reserve and leftover is None:
            faults.refused()
            raise StoreFull("map", "the simulated map is full")
        _check_record(job, data)
        if image.leftover is not None or len(image.segments[-1]) >= self._segment_records:
            image.begin_segment()
        image.segments[-1][job.number] = data
        self._last_number = job.number
        self._tail.add(job.number, record)
        self._witness.committed(job)
        return job.number + 1

    def is_at_hand(self, record_bytes: int) -> bool:
        """Return whether the segment takes one more record."""
        return self._image.leftover is None and len(self._image.segments[-1]) < self._segment_records

    def tear(self, job: CommitJob) -> None:
        """Half write a record: the power fails meanwhile."""
        self._image.torn = job.number

    def checkpoint(self, job: CheckpointJob) -> None:
        """Do all of it or nothing, as `storage.interface.Store` requires."""
        faults, image = self._faults, self._image
        if faults.broken:
            raise StoreDamaged("the simulated disk has broken pages")
        if faults.checkpoint_failures_left > 0:
            faults.checkpoint_failures_left -= 1
            raise StoreFailed("the simulated disk refused a checkpoint")
        if faults.checkpoints_full_left > 0:
            faults.checkpoints_full_left -= 1
            raise StoreFull("map", "the simulated map has no room for a checkpoint")
        assert image.positions.applied <= job.applied <= self._last_number, "a checkpoint includes what is committed"
        image.clean = False
        self._apply_records(TailChanges(self._tail.through(job.applied)))
        self._apply_job(job)
        image.positions = Positions(job.applied, job.needed_from)
        self._tail.applied(job.applied)
        image.trim(min(job.needed_from, job.applied + 1))
        self._witness.checkpointed(self, job)

    def mark_clean(self) -> None:
        """Note a stop in good order."""
        self._image.clean = True

    def close(self) -> None:
        """There are no files."""

    def _apply_records(self, changes: TailChanges) -> None:
        image = self._image
        for partition_id in changes.purged:
            image.pages = {key: page for key, page in image.pages.items() if key.partition_id != partition_id}
            image.cursors.pop(partition_id, None)
        image.pages.update(changes.pages)
        cursors = {each: decode_cursor(data) for each, data in image.cursors.items() if each in changes.reservations}
        changes.change_cursors(cursors, lost=set())
        image.cursors.update({each: encode_cursor(cursor) for each, cursor in cursors.items()})
        for table, rows in changes.rows.items():
            for key, data in rows.items():
                if data is None:
                    image.tables[table].pop(key, None)
                else:
                    image.tables[table][key] = data

    def _apply_job(self, job: CheckpointJob) -> None:
        image = self._image
        for damage in job.page_quarantines:
            if not damage.stays:
                image.pages.pop(PageKey(damage.partition_id, damage.first_sequence), None)
        for key in job.page_deletes:
            image.pages.pop(key, None)
        for write in job.page_writes:
            _check_page(write)
            image.pages[page_key_of(write)] = write.page
        for cursor in job.cursor_puts:
            image.cursors[cursor.partition_id] = encode_cursor(cursor)

    # --- what reads it ---

    def read_page(self, partition_id: int, first_sequence: int) -> PageRuns:
        """Return a page, or fail as the disk would."""
        if self._faults.reads_fail > 0:
            self._faults.reads_fail -= 1
            raise StoreFailed("the simulated disk cannot be read")
        key = PageKey(partition_id, first_sequence)
        page = self._tail.page(key) or self._image.pages.get(key)
        if page is None:
            raise PageNotFound(partition_id, first_sequence)
        return decode_page(page)

    def row_keys(self, prefix: bytes) -> dict[Table, list[bytes]]:
        """Return the keys of the rows that begin with a prefix."""
        changes = TailChanges(self._tail.through(self._last_number))
        return {table: [key for key, _ in self._rows(changes, table) if key.startswith(prefix)] for table in Table}

    def recover(self) -> Recovery:
        """Decode state and log, as a start does."""
        image = self._image
        replay = Replay(MemoryLog(image), image.positions)
        changes = TailChanges([record for _, record in replay.unapplied()])
        cursors = {partition_id: decode_cursor(data) for partition_id, data in image.cursors.items()}
        changes.change_cursors(cursors, lost=set())
        pages = [PageEntry(key.partition_id, decode_page_summary(page)) for key, page in sorted(image.pages.items())]
        return Recovery(
            incarnation=self._image.incarnation,
            was_clean=self._was_clean,
            next_record_number=self._last_number + 1,
            cursors=cursors,
            pages=changes.change_pages(pages),
            journal=self._records(replay),
            tables={table: self._rows(changes, table) for table in Table},
            quarantined=self._quarantined,
            applied=image.positions.applied,
            torn=self._torn,
        )

    def log_held(self) -> AbstractContextManager[None]:
        """Nothing here copies a store."""
        return nullcontext()

    def log_records(self, first: int) -> Iterator[LogEntry]:
        """Yield the records of the log from a number on."""
        yield from MemoryLog(self._image).read(first)

    def read_linked(self, link: Link) -> bytes | None:
        """Return nothing: pages here have their messages."""
        return None

    def stream_copy(self, sink: Callable[[bytes], None]) -> None:
        """There is no data file."""
        raise StoreFailed("a store in memory cannot be copied")

    def usage(self) -> StoreUsage:
        """Return a size that is full exactly while the store is."""
        reserve_bytes = self._map_bytes // RESERVE_SHARE
        used = self._map_bytes - reserve_bytes if self._faults.full else 0
        log = self._image.log
        return StoreUsage(
            used_bytes=used,
            file_bytes=used,
            map_bytes_max=self._map_bytes,
            reserve_bytes=reserve_bytes,
            disk_free_bytes=1 << 40,
            log_bytes=sum([len(data) for data in log.values()]),
            log_records=len(log),
            checkpoint_bytes=0,
            page_entries=len(self._image.pages),
            quarantine_entries=len(self._quarantined),
        )

    def _records(self, replay: Replay) -> Iterator[tuple[int, JournalRecord]]:
        yield from replay.journal()
        self._quarantined += [each.what for each in replay.damaged] + replay.missing

    def _rows(self, changes: TailChanges, table: Table) -> Iterator[tuple[bytes, bytes]]:
        rows: dict[bytes, bytes | None] = {**self._image.tables[table], **changes.rows[table]}
        for data in rows.values():
            if data is not None:
                yield decode_row(data)


def _check_record(job: CommitJob, data: bytes) -> None:
    """See that what is read of a record is what was to be written."""
    record = decode_log_record(data, "record", is_sound=True)
    assert not record.lost, f"a record is written whole: {record.lost}"
    parts = (record.journal, record.staged_pages, record.reservations, record.partition_purges)
    assert parts == (job.record, job.staged_pages, job.reservations, job.partition_purges), "it is what was written"
    rows = {(table, key): None if row is None else decode_row(row)[1] for table, key, row in record.rows}
    assert rows == {(table, stored_key(key)): value for table, key, value in job.table_writes}, "so are its rows"
    for write in job.staged_pages:
        _check_page(write)
    if record.journal is not None:
        journal = decode_journal_record(record.journal)
        assert not journal.lost, f"a record is written whole: {journal.lost}"
        assert encode_journal_record(journal.entries, journal.settlements) == record.journal, "the same"


def _check_page(write: PageWrite) -> None:
    page = decode_page(write.page)
    assert not page.lost, f"a page is written whole: {page.lost}"
    assert encode_page(page.runs) == write.page, "what is read of a page is what was written"
