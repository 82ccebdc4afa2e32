"""The store interface of the spool actor, and its values. Independent of LMDB.

`SpoolStore` implements it on a disk; the simulation uses a store with faults. Three threads use a store: one writer
(`commit`, `mark_clean`, `close`, and `recover` with everything it returned), one reader (`read_page`), and during a
backup one that copies (`stream_copy`). Any thread may call `usage`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NamedTuple, Protocol

from sluicegate.storage.records.cursor import CursorRecord
from sluicegate.storage.records.journal import JournalRecord
from sluicegate.storage.records.page import PageRuns, PageSummary


class Table(StrEnum):
    """Tables of rows whose keys and values the store does not interpret."""

    CATALOG = "catalog"
    OWNERS = "owners"  # the queue of each partition, apart from the definitions in the catalog
    RETAINED = "retained"
    SESSIONS = "sessions"
    READERS = "readers"  # durable cursors
    TRANSACTIONS = "transactions"  # staged and committed


class PageKey(NamedTuple):
    """The name of a page."""

    partition_id: int  # u32
    first_sequence: int  # u64


class PageWrite(NamedTuple):
    """A page to store, under its own first sequence."""

    partition_id: int
    page: bytes  # from records.page.encode_page


class PageDamage(NamedTuple):
    """A page that `read_page` could not read: to move into quarantine, or to copy when the rest of it is served."""

    partition_id: int
    first_sequence: int
    detail: str
    stays: bool = False


class TableWrite(NamedTuple):
    """A row to put, or with None to delete if it exists."""

    table: Table
    key: bytes  # not empty, of any length
    value: bytes | None

    def under(self, prefix: bytes) -> "TableWrite":
        """Return the same row with a prefix before its key."""
        return TableWrite(self.table, prefix + self.key, self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitJob:
    """The content of one commit, applied completely or not at all.

    Deletions come first, so a page written by the job that purges its partition stays. Deleting a missing item has no
    effect, so a job can be repeated.
    """

    record_number: int = 0  # greater than every one before; 0 without a record
    record: bytes | None = None  # from records.journal.encode_journal_record
    journal_delete_through: int = 0  # this record and all before it go; 0: none
    page_writes: list[PageWrite] = field(default_factory=list)
    page_deletes: list[PageKey] = field(default_factory=list)
    page_quarantines: list[PageDamage] = field(default_factory=list)
    cursor_puts: list[CursorRecord] = field(default_factory=list)
    cursor_deletes: list[int] = field(default_factory=list)  # partition ids
    partition_purges: list[int] = field(default_factory=list)  # every page, and the cursor
    table_writes: list[TableWrite] = field(default_factory=list)
    # True for a job that settles, deletes, or moves stored messages: it may use the space reserved from publishers, so
    # that a full store can be emptied.
    uses_reserve: bool = False
    proves: bool = False  # the job writes something in any case, which shows whether the store is writable

    def __post_init__(self) -> None:
        if (self.record is None) != (self.record_number == 0):
            raise ValueError(f"a record needs a number, and a number a record: {self.record_number}")
        for write in self.table_writes:
            if not write.key:
                raise ValueError(f"a row of {write.table} without a key")


class PageEntry(NamedTuple):
    """The directory entry of a page."""

    partition_id: int
    summary: PageSummary


QuarantineReason = Literal["damaged", "misplaced", "cut short"]


class Quarantined(NamedTuple):
    """An unreadable item. The quarantine keeps its bytes, if there are any."""

    where: str  # "journal record 17", "page of partition 3 from sequence 900"
    reason: QuarantineReason
    detail: str


class QuarantinedBytes(NamedTuple):
    """An item of the quarantine, for inspection."""

    number: int
    entry: Quarantined
    source: str  # its former sub-database
    key: bytes
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """The content of a store. The caller consumes it before the next commit, on the thread that commits.

    Iterators read on demand, a part at a time. `quarantined` grows while they read: it is complete when the journal and
    every table have been read to their end.
    """

    incarnation: int  # u64, drawn when the store was created: sequences of another incarnation mean nothing here
    was_clean: bool  # the last process shut down cleanly
    next_record_number: int  # greater than the number of every remaining record
    cursors: dict[int, CursorRecord]
    pages: list[PageEntry]  # by partition, then sequence
    journal: Iterator[tuple[int, JournalRecord]]  # in the order committed
    tables: Mapping[Table, Iterator[tuple[bytes, bytes]]]  # key and value; in no order for keys beyond 494 bytes
    quarantined: list[Quarantined]
    lost_cursors: set[int] = field(default_factory=set)  # partitions with an unreadable cursor


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreUsage:
    """How full a store is."""

    used_bytes: int  # pages of the database in use
    file_bytes: int  # the data file; it never shrinks, and freed pages are reused
    map_bytes_max: int
    reserve_bytes: int  # the part of map_bytes_max and of the disk that publishers may not use
    disk_free_bytes: int
    journal_entries: int
    page_entries: int
    quarantine_entries: int

    def disk_room_bytes(self) -> int:
        """Return the disk space left for the store, including freed pages inside the data file."""
        return self.disk_free_bytes + self.file_bytes - self.used_bytes


class Store(Protocol):
    """A store, as the spool actor sees it."""

    def commit(self, job: CommitJob) -> None:
        """Apply the whole job, and return when it is on the disk.

        Raises StoreFull and StoreFailed; then the job had no effect, and the store stays usable, except after
        StoreDamaged. Raises ValueError for an invalid job.
        """

    def read_page(self, partition_id: int, first_sequence: int) -> PageRuns:
        """Return the readable part of a page.

        Raises PageNotFound, DamagedRecord when no part is readable, StoreFailed. The caller answers damage and losses
        with a PageDamage.
        """

    def recover(self) -> Recovery:
        """Return the stored content, at the start and to reload a partition.

        Raises UnsupportedFormat for intact records of another release, StoreFailed.
        """

    def stream_copy(self, sink: Callable[[bytes], None]) -> None:
        """Pass the data file, with all commits so far, to `sink` in pieces, while commits continue.

        For a separate thread. Raises BackupEnded when the store is closed or needs its room, StoreFailed, and the
        sink's errors.
        """

    def usage(self) -> StoreUsage:
        """Return the usage of the store after its last commit, and of the disk now."""

    def mark_clean(self) -> None:
        """Mark a clean shutdown, as the last commit. Another commit removes the mark."""

    def close(self) -> None:
        """Release the files. May be called twice."""
