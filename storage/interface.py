"""What the spool actor may ask of a store, and the values that cross: no LMDB here.

`SpoolStore` keeps the promises on a disk; the simulation puts a store with faults in its place. Three threads use a
store: one writer (`commit`, `mark_clean`, `close`, and `recover` with everything it returned), one reader
(`read_page`), and while a backup is made one that copies (`stream_copy`). `usage` may be asked from any thread.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NamedTuple, Protocol

from sluicegate.storage.records.cursor import CursorRecord
from sluicegate.storage.records.journal import JournalRecord
from sluicegate.storage.records.page import PageRuns, PageSummary


class Table(StrEnum):
    """Tables of rows that belong to others: the store knows neither their keys nor their values."""

    CATALOG = "catalog"
    OWNERS = "owners"  # which queue each partition belongs to, beside the definitions in the catalog
    RETAINED = "retained"
    SESSIONS = "sessions"
    READERS = "readers"  # durable cursors
    TRANSACTIONS = "transactions"  # staged and committed


class PageKey(NamedTuple):
    """The name of a page."""

    partition_id: int  # u32
    first_sequence: int  # u64


class PageWrite(NamedTuple):
    """A page to be stored, under its own first sequence."""

    partition_id: int
    page: bytes  # from records.page.encode_page


class PageDamage(NamedTuple):
    """A page that `read_page` could not read, to be moved into quarantine; or copied, when the rest of it is served."""

    partition_id: int
    first_sequence: int
    detail: str
    stays: bool = False


class TableWrite(NamedTuple):
    """A row to be put, or with None to be deleted if it is there."""

    table: Table
    key: bytes  # not empty, of any length
    value: bytes | None

    def under(self, prefix: bytes) -> "TableWrite":
        """Return the same row with something before its key."""
        return TableWrite(self.table, prefix + self.key, self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitJob:
    """What one commit does: all of it or nothing.

    Deletions come first, so a page written by the job that purges its partition stays. What is to be deleted and is
    not there is passed over: a job can be repeated.
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
    # True for a job that settles, deletes, or moves what is stored already: it may use the space kept back from
    # publishers, so that a full store can be emptied.
    uses_reserve: bool = False
    proves: bool = False  # it is to write something in any case, so that it tells whether the store can be written

    def __post_init__(self) -> None:
        if (self.record is None) != (self.record_number == 0):
            raise ValueError(f"a record needs a number, and a number a record: {self.record_number}")
        for write in self.table_writes:
            if not write.key:
                raise ValueError(f"a row of {write.table} without a key")


class PageEntry(NamedTuple):
    """A page as the directory knows it."""

    partition_id: int
    summary: PageSummary


QuarantineReason = Literal["damaged", "misplaced", "cut short"]


class Quarantined(NamedTuple):
    """Something that could not be served. Its bytes are kept aside, unless they were never there."""

    where: str  # "journal record 17", "page of partition 3 from sequence 900"
    reason: QuarantineReason
    detail: str


class QuarantinedBytes(NamedTuple):
    """An item of the quarantine, for whoever wants to look at it."""

    number: int
    entry: Quarantined
    source: str  # the sub-database it lay in
    key: bytes
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What a store holds. To be used up before the next commit, on the thread that commits.

    Iterators read as they are asked, a part at a time. `quarantined` grows while they are: it is complete when
    the journal and every table have been read to their end.
    """

    incarnation: int  # u64, drawn when the store was created: sequences of another incarnation mean nothing here
    was_clean: bool  # the last process closed the store in order
    next_record_number: int  # greater than that of every record still there
    cursors: dict[int, CursorRecord]
    pages: list[PageEntry]  # by partition, then sequence
    journal: Iterator[tuple[int, JournalRecord]]  # in the order committed
    tables: Mapping[Table, Iterator[tuple[bytes, bytes]]]  # key and value; in no order for keys beyond 494 bytes
    quarantined: list[Quarantined]
    lost_cursors: set[int] = field(default_factory=set)  # partitions whose cursor is among what could not be read


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreUsage:
    """How full a store is."""

    used_bytes: int  # pages of the database that hold something
    file_bytes: int  # the data file; it never shrinks, what was freed is used again
    map_bytes_max: int
    reserve_bytes: int  # the part of map_bytes_max and of the disk that publishers may not use
    disk_free_bytes: int
    journal_entries: int
    page_entries: int
    quarantine_entries: int

    def disk_room_bytes(self) -> int:
        """Return what the disk has left for the store: what was freed inside the data file is as good as free."""
        return self.disk_free_bytes + self.file_bytes - self.used_bytes


class Store(Protocol):
    """A store, as the spool actor sees it."""

    def commit(self, job: CommitJob) -> None:
        """Do all of the job, and return when it is on the disk.

        Raises StoreFull and StoreFailed; then nothing of the job was done, and the store can be used on; but
        StoreDamaged says that it cannot. Raises ValueError for a job that could never be done.
        """

    def read_page(self, partition_id: int, first_sequence: int) -> PageRuns:
        """Return what can be read of a page.

        Raises PageNotFound, DamagedRecord for nothing, StoreFailed. Answer damage, and what is lost, with a PageDamage.
        """

    def recover(self) -> Recovery:
        """Return what is stored: at the start, and when a partition has to be read anew.

        Raises UnsupportedFormat for intact records of another release, StoreFailed.
        """

    def stream_copy(self, sink: Callable[[bytes], None]) -> None:
        """Hand the data file, as the commits so far have made it, to `sink` in pieces, while commits go on.

        For a thread of its own. Raises BackupEnded when the store is closed or needs its room, StoreFailed, and what
        the sink raises.
        """

    def usage(self) -> StoreUsage:
        """Return how full the store was after its last commit, and the disk is now."""

    def mark_clean(self) -> None:
        """Note, as the last commit, that everything was brought in order. Another commit undoes it."""

    def close(self) -> None:
        """Release the files. May be called twice."""
