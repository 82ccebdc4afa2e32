"""The store interface of the spool actor, and its values. Independent of LMDB.

A store is a log and a state made of it. A commit appends one record to the log. A checkpoint applies the records to the
state, in one transaction for many of them, and the log is trimmed. So a commit costs what it holds, whatever the state
holds. A start reads the state, and then the rest of the log.

`SpoolStore` implements it on a disk; the simulation uses a store with faults. Four threads use a store: one appends
(`commit`, and `recover` with everything it returned), one makes checkpoints (`checkpoint`, `mark_clean`), one reads
(`read_page`), and during a backup one copies (`stream_copy`). Another thread may commit while the first has nothing to
do. Any thread may call `usage` and `row_keys`.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NamedTuple, Protocol

from sluicegate.storage.records.cursor import CursorRecord
from sluicegate.storage.records.journal import JournalRecord
from sluicegate.storage.records.linked_page import Link
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


class Reservation(NamedTuple):
    """Sequences of a partition that may be assigned from now on. A start assigns none of them again."""

    partition_id: int
    floor: int  # every sequence below is settled, if the store has no cursor of the partition yet
    next_sequence: int  # the first that is not reserved


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitJob:
    """The content of one commit: one record of the log, appended completely or not at all.

    The parts take effect in the order of the fields, so a deleted partition is gone whatever the rest says of it.
    """

    number: int  # of the record: what the commit before returned, or the recovery
    record: bytes | None = None  # from records.journal.encode_journal_record
    staged_pages: list[PageWrite] = field(default_factory=list)  # of messages that no journal record has
    reservations: list[Reservation] = field(default_factory=list)
    table_writes: list[TableWrite] = field(default_factory=list)
    partition_purges: list[int] = field(default_factory=list)  # every page, and the cursor
    # True for a job that settles, deletes, or moves stored messages: it may use the space reserved from publishers, so
    # that a full store can be emptied.
    uses_reserve: bool = False

    def __post_init__(self) -> None:
        if self.number < 1:
            raise ValueError(f"record number {self.number}; the first is 1")
        for write in self.table_writes:
            if not write.key:
                raise ValueError(f"a row of {write.table} without a key")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointJob:
    """What a checkpoint does to the state, beside applying the log: all of it, or nothing.

    None of it is in the log: it moves what is stored already, or tells which of it is no longer needed.
    """

    applied: int  # the state includes the records up to this one afterwards
    needed_from: int  # the log is needed from this record on: an earlier one has no message outside of pages
    page_quarantines: list[PageDamage] = field(default_factory=list)
    page_deletes: list[PageKey] = field(default_factory=list)
    page_writes: list[PageWrite] = field(default_factory=list)
    # Of some of these pages the log record that has the batch of each run, so that the store may link to it.
    log_records: dict[PageKey, list[int]] = field(default_factory=dict)
    cursor_puts: list[CursorRecord] = field(default_factory=list)


class LogEntry(NamedTuple):
    """A record that was read from the log."""

    number: int
    data: bytes  # see storage.log.record
    is_sound: bool  # its checksum matches; else what is readable of it is to be looked for


class LogGap(NamedTuple):
    """Numbers of which the log has no record, though it had one of them at least."""

    first: int
    last: int
    where: str


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
    source: str  # its former sub-database, or `log`
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
    applied: int = 0  # the cursors include the settlements of the records up to this one
    torn: str = ""  # describes a record at the end of the log that was never confirmed, and was cut off


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreUsage:
    """How full a store is."""

    used_bytes: int  # pages of the state in use, the part of the log that is needed, and its kept files
    file_bytes: int  # the data file, which never shrinks, and the log's files; what is free in them is reused
    map_bytes_max: int
    reserve_bytes: int  # the part of map_bytes_max and of the disk that publishers may not use
    disk_free_bytes: int
    log_bytes: int  # the part of the log that is needed
    log_records: int  # records in it
    checkpoint_bytes: int  # what a checkpoint writes beside its content: LMDB's list of free pages
    page_entries: int
    quarantine_entries: int
    is_log_full: bool = False  # the log that replicas share takes nothing from publishers
    is_sparse: bool = False  # kept files of the log have much that is not needed: the next checkpoint makes room

    def disk_room_bytes(self) -> int:
        """Return the disk space left for the store, including freed pages inside the data file."""
        return self.disk_free_bytes + self.file_bytes - self.used_bytes


class Store(Protocol):
    """A store, as the spool actor sees it."""

    def commit(self, job: CommitJob) -> int:
        """Append the job to the log, and return when it is on the disk: the number of the next job.

        Numbers ascend, and may have gaps: the log chooses them. A job that had no effect gives its number to the next.

        Raises StoreFull and StoreFailed; then the job had no effect, and the store stays usable, except after
        StoreDamaged. After CommitInDoubt, also a StoreFailed, the next job must be the same one: the disk may have it,
        and neither a confirmation nor a refusal would be true. Raises ValueError for an invalid job.
        """

    def is_at_hand(self, record_bytes: int) -> bool:
        """Return whether a commit of so many bytes, about, is one write and one sync: no file has to be begun first.

        For the thread that commits, or another one while no commit is in progress.
        """

    def checkpoint(self, job: CheckpointJob) -> None:
        """Apply the log and the job to the state, trim the log, and return when the state is on the disk.

        Raises StoreFull and StoreFailed; then nothing was done, and the log has everything.
        """

    def read_page(self, partition_id: int, first_sequence: int) -> PageRuns:
        """Return the readable part of a page.

        Raises PageNotFound, DamagedRecord when no part is readable, StoreFailed. The caller answers damage and losses
        with a PageDamage.
        """

    def row_keys(self, prefix: bytes) -> dict[Table, list[bytes]]:
        """Return the keys of all rows, by table, that begin with a prefix; for any thread, beside commits.

        Raises StoreFailed. The prefix has at most 64 bytes. A damaged row whose own key cannot be read is left out.
        """

    def recover(self) -> Recovery:
        """Return the stored content, at the start and to reload a partition.

        Raises UnsupportedFormat for intact records of another release, StoreFailed.
        """

    def log_held(self) -> AbstractContextManager[None]:
        """Keep the log from being trimmed within the block, in which a copy or a partition is read from it."""

    def log_records(self, first: int) -> Iterator[LogEntry]:
        """Yield the records of the log from number `first` on, up to the last one that was appended by now."""

    def read_linked(self, link: Link) -> bytes | None:
        """Return the bytes of the log that a page of the copy links to, None when they are missing."""

    def stream_copy(self, sink: Callable[[bytes], None]) -> None:
        """Pass the data file, as of the last checkpoint, to `sink` in pieces, while commits continue.

        For a separate thread. Raises BackupEnded when the store is closed or needs its room, StoreFailed, and the
        sink's errors.
        """

    def usage(self) -> StoreUsage:
        """Return the usage of the store after its last commit and checkpoint, and of the disk now."""

    def mark_clean(self) -> None:
        """Mark a clean shutdown, after the last checkpoint. Another commit voids the mark."""

    def close(self) -> None:
        """Release the files. May be called twice."""
