"""A store in memory with real record bytes and every failure that a disk can have.

The image outlives the node: a power failure leaves the image as the last commit wrote it. Bytes are encoded and decoded
with the store's own record formats, and each record is read back when it is written. What LMDB adds (transactions,
space) is simulated here.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from sluicegate.storage.errors import DamagedRecord, PageNotFound, StoreDamaged, StoreFailed, StoreFull
from sluicegate.storage.interface import (
    CommitJob,
    PageEntry,
    PageKey,
    Quarantined,
    Recovery,
    StoreUsage,
    Table,
)
from sluicegate.storage.records.cursor import CursorRecord, decode_cursor, encode_cursor
from sluicegate.storage.records.journal import JournalRecord, decode_journal_record, encode_journal_record
from sluicegate.storage.records.page import PageRuns, decode_page, decode_page_summary, encode_page
from sluicegate.storage.records.table import decode_row, encode_row

MAP_BYTES = 64 << 20
RESERVE_BYTES = 8 << 20


@dataclass
class Image:
    """What is on the disk."""

    journal: dict[int, bytes] = field(default_factory=dict)
    pages: dict[PageKey, bytes] = field(default_factory=dict)
    cursors: dict[int, bytes] = field(default_factory=dict)
    tables: dict[Table, dict[bytes, bytes]] = field(default_factory=lambda: {table: {} for table in Table})
    clean: bool = False


@dataclass
class Faults:
    """What goes wrong next. The simulation sets it, the store obeys."""

    full: bool = False  # jobs that bring messages are refused
    failures_left: int = 0  # so many commits are refused by the system, whatever they do
    broken: bool = False  # the store's own pages are damaged: nothing can be committed until the next start
    reads_fail: int = 0  # so many reads of pages are refused
    refused: Callable[[], None] = lambda: None  # is told of each commit that is refused


class MemoryStore:
    """One life of the store, from open to close or power failure. `committed` sees each job that was made."""

    def __init__(self, image: Image, faults: Faults, committed: Callable[[CommitJob], None]) -> None:
        self._image = image
        self._faults = faults
        self._committed = committed
        self._was_clean = image.clean
        self._last_record_number = max(image.journal, default=0)
        self._quarantined: list[Quarantined] = []

    def commit(self, job: CommitJob) -> None:
        """Do all of it or nothing, as `storage.interface.Store` requires."""
        if job.record is not None and job.record_number <= self._last_record_number:
            raise ValueError(f"journal record {job.record_number} after {self._last_record_number}")
        faults = self._faults
        if faults.broken:
            faults.refused()
            raise StoreDamaged("the simulated disk has broken pages")
        if faults.failures_left > 0:
            faults.failures_left -= 1
            faults.refused()
            raise StoreFailed("the simulated disk refused")
        if faults.full and not job.uses_reserve:
            faults.refused()
            raise StoreFull("map", "the simulated map is full")
        self._apply(job)
        self._last_record_number = max(self._last_record_number, job.record_number)
        self._committed(job)

    def read_page(self, partition_id: int, first_sequence: int) -> PageRuns:
        """Return a page, or fail as the disk would."""
        if self._faults.reads_fail > 0:
            self._faults.reads_fail -= 1
            raise StoreFailed("the simulated disk cannot be read")
        page = self._image.pages.get(PageKey(partition_id, first_sequence))
        if page is None:
            raise PageNotFound(partition_id, first_sequence)
        return decode_page(page)

    def recover(self) -> Recovery:
        """Decode everything; what is damaged is set aside."""
        image = self._image
        return Recovery(
            incarnation=1,
            was_clean=self._was_clean,
            next_record_number=self._last_record_number + 1,
            cursors=self._cursors(),
            pages=[PageEntry(key.partition_id, decode_page_summary(page)) for key, page in sorted(image.pages.items())],
            journal=self._records(),
            tables={table: self._rows(table) for table in Table},
            quarantined=self._quarantined,
        )

    def stream_copy(self, sink: Callable[[bytes], None]) -> None:
        """There is no data file."""
        raise StoreFailed("a store in memory cannot be copied")

    def usage(self) -> StoreUsage:
        """Return a size that is full exactly while the store is."""
        used = MAP_BYTES - RESERVE_BYTES if self._faults.full else 0
        return StoreUsage(
            used_bytes=used,
            file_bytes=used,
            map_bytes_max=MAP_BYTES,
            reserve_bytes=RESERVE_BYTES,
            disk_free_bytes=1 << 40,
            journal_entries=len(self._image.journal),
            page_entries=len(self._image.pages),
            quarantine_entries=len(self._quarantined),
        )

    def mark_clean(self) -> None:
        """Note a stop in good order."""
        self._image.clean = True

    def close(self) -> None:
        """There are no files."""

    def _apply(self, job: CommitJob) -> None:
        image = self._image
        image.clean = False
        for damage in job.page_quarantines:
            if not damage.stays:
                image.pages.pop(PageKey(damage.partition_id, damage.first_sequence), None)
        for partition_id in job.partition_purges:
            image.pages = {key: page for key, page in image.pages.items() if key.partition_id != partition_id}
            image.cursors.pop(partition_id, None)
        for key in job.page_deletes:
            image.pages.pop(key, None)
        for partition_id in job.cursor_deletes:
            image.cursors.pop(partition_id, None)
        while image.journal and (oldest := next(iter(image.journal))) <= job.journal_delete_through:
            del image.journal[oldest]
        for write in job.page_writes:
            summary = decode_page_summary(write.page)
            page = decode_page(write.page)
            assert not page.lost, f"a page is written whole: {page.lost}"
            assert encode_page(page.runs) == write.page, "what is read of a page is what was written"
            image.pages[PageKey(write.partition_id, summary.first_sequence)] = write.page
        for cursor in job.cursor_puts:
            image.cursors[cursor.partition_id] = encode_cursor(cursor)
        for row in job.table_writes:
            if row.value is None:
                image.tables[row.table].pop(row.key, None)
            else:
                image.tables[row.table][row.key] = encode_row(row.key, row.value)
        if job.record is not None:
            record = decode_journal_record(job.record)
            assert not record.lost, f"a record is written whole: {record.lost}"
            again = encode_journal_record(record.entries, record.settlements)
            assert again == job.record, "what is read of a record is what was written"
            image.journal[job.record_number] = job.record

    def _cursors(self) -> dict[int, CursorRecord]:
        return {partition_id: decode_cursor(data) for partition_id, data in self._image.cursors.items()}

    def _records(self) -> Iterator[tuple[int, JournalRecord]]:
        for number in sorted(self._image.journal):
            where = f"journal record {number}"
            try:
                record = decode_journal_record(self._image.journal[number], where)
            except DamagedRecord as error:
                self._quarantined.append(Quarantined(where, "damaged", error.reason))
                del self._image.journal[number]
                continue
            if record.lost:
                self._quarantined.append(Quarantined(where, "damaged", record.lost))
                self._image.journal[number] = encode_journal_record(record.entries, record.settlements)
            yield number, record

    def _rows(self, table: Table) -> Iterator[tuple[bytes, bytes]]:
        for data in list(self._image.tables[table].values()):
            yield decode_row(data)
