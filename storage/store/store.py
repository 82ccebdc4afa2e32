"""SpoolStore: the Store on a disk, a journal and an LMDB environment in one data folder.

A commit appends one record to the journal, with a real fdatasync. A checkpoint applies the records to LMDB in one write
transaction, with a real fsync, and trims the journal. LMDB writes its list of free pages anew in each transaction, and
that list grows with everything the file once held: so many commits share a transaction. See also: the journal
(storage.log), the sub-databases (storage.environment.databases), the effect of a checkpoint on them
(storage.store.apply), recovery (storage.catalog.recovery). The caller decides when a checkpoint is made, and what to
delete.

Space. LMDB cannot delete without writing, so a full database could never be emptied. Therefore jobs with new messages
may not use the last `reserve_bytes` of the map and of the disk; jobs that settle, delete or move may
(`CommitJob.uses_reserve`). A message is charged when it is appended: it will need as much room in a page, should it
stay. While LMDB is open its map ends below the reserve. Only a checkpoint that does not fit otherwise sees the whole
map, during its transaction. The map costs address space only, and the file grows with its content, so a small map that
grows would save nothing: 1 TiB opens in 0.6 ms with a file of 8 KiB.

Threads. `_remap` keeps the map in place while `read_page` reads from it; no thread holds it over a decode or an fsync.
A copy (`stream_copy`) takes too long to wait for: the store ends it before it moves the map.
"""

import contextlib
import logging
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeVar, final

import lmdb

from sluicegate.storage.backup.folder import PARTIAL_FILE
from sluicegate.storage.catalog.copied_log import check_begun, holds_records, move_records, positions_of
from sluicegate.storage.catalog.recovery import RecoveryScan, checked_page
from sluicegate.storage.environment.databases import PAGE_KEY, Databases
from sluicegate.storage.environment.environment import (
    READERS_FILE,
    disk_free_bytes,
    fill_to_length,
    open_environment,
    sync_folders,
    translated,
)
from sluicegate.storage.environment.file_kinds import may_be_there
from sluicegate.storage.environment.file_rights import make_folder
from sluicegate.storage.environment.folder_lock import DATA_FILE, LOCK_FILE, FolderLock
from sluicegate.storage.environment.identity import (
    Positions,
    has_links,
    read_clean,
    read_incarnation,
    write_clean,
    write_incarnation,
    write_links,
    write_turn,
)
from sluicegate.storage.environment.quarantine import describe_page
from sluicegate.storage.errors import CommitInDoubt, SpoolMissing, StoreDamaged, StoreFailed, StoreFull
from sluicegate.storage.integrity.walk import check_spool
from sluicegate.storage.interface import (
    CheckpointJob,
    CommitJob,
    LogEntry,
    PageKey,
    Quarantined,
    Recovery,
    StoreUsage,
    Table,
)
from sluicegate.storage.log.journal import LOG_FOLDER, Journal, forget_cached, make_log_folder, remove_log
from sluicegate.storage.log.links import StoredPage, fetch, page_and_links, whole_page
from sluicegate.storage.log.record import LogRecord, decode_log_record, record_of, record_pieces
from sluicegate.storage.log.replay import Replay
from sluicegate.storage.log.segment import frame_bytes
from sluicegate.storage.log.tail import LogTail, TailChanges, growth_of
from sluicegate.storage.records.linked_page import Link
from sluicegate.storage.records.page import PageRuns
from sluicegate.storage.store.apply import apply_checkpoint, copy_catalog, growth_bytes, linked_bytes, rewrite_linked
from sluicegate.storage.store.copy import Copying
from sluicegate.storage.store.links import PageLinks, RecordPlaces
from sluicegate.storage.store.row_keys import keys_under, rows_under

if TYPE_CHECKING:
    Transaction = lmdb.Transaction[bytes]

log = logging.getLogger("sluicegate.spool")

# All files of a data folder; the last one exists during a restore.
SPOOL_FILES: Final = (DATA_FILE, READERS_FILE, LOCK_FILE, PARTIAL_FILE, LOG_FOLDER)

RESERVE_BYTES: Final = 32 << 20  # a purge writes 8 bytes for each 4 KiB it frees: enough for one of 16 GiB
RESERVE_SHARE_MAX: Final = 2  # the reserve is at most half of the map

SPOOL_FULL: Final = "the spool became full, and what a backup holds could not be used again"

CHECKPOINT_FAILED: Final = "a checkpoint failed, and could not be taken back while a backup was made"

SEGMENT_BYTES_MAX: Final = 8 << 20
SEGMENT_BYTES_MIN: Final = 256 << 10
SEGMENT_GROWTH: Final = 8  # the largest segments are so many times as large as the first ones
SEGMENTS_IN_MAP: Final = 64  # so that the log of a small spool leaves room for its state

# Of kept files of the log: room to which nothing links, beside as much as is linked; and what one checkpoint rewrites.
GARBAGE_BYTES_MIN: Final = 64 << 20
REWRITTEN_BYTES: Final = 8 << 20
SHORT_SHARE: Final = 8  # of what is linked, when room is short: to empty a file that is nearly full would gain little
# Room is short when:
_SHORT: Final = 0.75  # of the spool is in use
_SHORT_OF_RESERVE: Final = 4  # so many times the reserve is all that is free on the disk

_NUMBER_BYTES: Final = 8  # of a page in LMDB's list of free pages
_META_PAGES: Final = 3  # LMDB's two meta pages and the root of its table of sub-databases

_Row = TypeVar("_Row")


@final
class SpoolStore:
    """The spool of one node. `interface.Store` documents the guarantees of each method."""

    def __init__(
        self,
        *,
        folder: Path,
        lock: FolderLock,
        env: lmdb.Environment,
        map_bytes_max: int,
        reserve_bytes: int,
        incarnation: int | None,
        cut_short: Quarantined | None,
        sync: bool,
        is_copy: bool,
    ) -> None:
        """Take over an open environment; callers use `open`."""
        self.folder = folder
        self._lock = lock
        self._env = env
        self._map_bytes_max = map_bytes_max
        self._reserve_bytes = reserve_bytes
        self._cut_short = cut_short
        self._remap = threading.Lock()
        self._copying = Copying(env)
        self._closed = False
        self._page_bytes = env.stat()["psize"]
        self._databases = Databases(env)
        self._names = self._databases.named()
        self._used_pages: dict[str, int] = {}
        self._entries: dict[str, int] = {}
        self._state_bytes = 0  # of all used pages
        self._incarnation, self._marked_clean = self._identify(incarnation)
        self._holding = threading.Lock()
        self._holders = 0  # copies that need the log as it is
        self._log = self._open_log(sync=sync)
        self._places = RecordPlaces(self._log.folder)
        self._stuck: set[int] = set()  # kept segments with links that could not be followed
        self._tail = LogTail()
        self._has_unsynced = False  # records that were taken may be lost with the power
        with env.begin() as txn:
            self._positions, self._damaged = positions_of(txn, self._databases, self._log, f"the store in {folder}")
            self._has_links = has_links(txn, self._databases)
            if self._has_links:
                self._log.kept.change(linked_bytes(txn, self._databases))
        if is_copy:
            self._log.cut_tail(self._positions.applied)
        replay = Replay(self._log, self._positions)
        if replay.is_missing():
            raise SpoolMissing(folder / LOG_FOLDER, "has no records", [DATA_FILE])
        for number, record in replay.unapplied():
            self._tail.add(number, record)
        self._was_clean = self._marked_clean and self._log.last_number <= self._positions.applied
        self._log.open_for_appending(self._positions.applied)
        self._is_sparse = bool(self._sparse_segments())

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        map_bytes_max: int,
        reserve_bytes: int = RESERVE_BYTES,
        sync: bool = True,
        incarnation: int | None = None,
        is_copy: bool = False,
    ) -> Self:
        """Open the store in the folder, or create both. `incarnation` names a new store; None draws one.

        `is_copy`: its log is a copy (`take`), so what a power failure took of its end is cut off, and is no damage.
        `sync=False` gives up every promise about power failures, for tests that measure something else. Raises
        FolderInUse, UnsupportedFormat, DamagedRecord (the store's identity), StoreFull, StoreFailed.
        """
        if not 0 < reserve_bytes * RESERVE_SHARE_MAX <= map_bytes_max:
            raise ValueError(f"a reserve of {reserve_bytes} bytes in a map of {map_bytes_max}; at most a half")
        make_folder(folder)
        with translated(folder, needed_bytes=0):
            lock = FolderLock(folder)
        try:
            with translated(folder, needed_bytes=0):
                check_spool(folder, was_held=lock.was_held)
                env = open_environment(folder, map_bytes_max - reserve_bytes, sync=sync)
                try:
                    lock.lock_data()
                    cut_short = fill_to_length(folder, env)
                    store = cls(
                        folder=folder,
                        lock=lock,
                        env=env,
                        map_bytes_max=map_bytes_max,
                        reserve_bytes=reserve_bytes,
                        incarnation=incarnation,
                        cut_short=cut_short,
                        sync=sync,
                        is_copy=is_copy,
                    )
                except BaseException:
                    env.close()
                    raise
        except BaseException:
            if lock.was_held or may_be_there(folder / DATA_FILE):
                lock.release()
            else:
                lock.withdraw()
            raise
        sync_folders(folder)
        return store

    def commit(self, job: CommitJob) -> int:
        """Append the job to the log, and return the next number when it is stored. See `interface.Store.commit`."""
        self._sync_taken()
        record = record_of(job)
        pieces = record_pieces(record)
        size = sum([len(piece) for piece in pieces])
        if not job.uses_reserve and not self._log.is_in_doubt():
            self.check_room(record, size)
        try:
            with translated(self.folder, needed_bytes=size):
                self._lock.check_data()
                end = self._log.append(job.number, pieces, uses_reserve=job.uses_reserve)
        except (StoreFull, StoreFailed) as error:
            if self._log.is_in_doubt() and not isinstance(error, StoreDamaged):
                raise CommitInDoubt(f"{error}, and what was written cannot be taken back") from error
            raise
        if job.record is not None:
            self._places.appended(job.number, len(job.record), end)
        self._tail.add(job.number, record)
        return job.number + 1

    def check_room(self, record: LogRecord, record_bytes: int) -> None:
        """Raise StoreFull if a record of so many bytes would leave less than the reserve."""
        self._keep_reserve(growth_of(record) + frame_bytes(record_bytes))

    def take(self, records: Sequence[tuple[int, bytes]]) -> list[LogRecord]:
        """Copy records of a replicated log into this one, each with its number and content; return what they do.

        The numbers ascend, above all earlier ones. Each record has content: one without only shows that a replica is
        the owner. Room was looked at where they were made, so they may use the reserve here. They are on the disk after
        the next checkpoint or commit; a power failure before may lose them, and then they are read again. Raises
        DamagedRecord and UnsupportedFormat, with nothing taken, if this release cannot read one of them. Raises
        StoreFull and StoreFailed: then open the store again, and go on with the last record that it has.
        """
        taken = [
            decode_log_record(data, f"record {number} of the replicated log", is_sound=True) for number, data in records
        ]
        entries = [LogEntry(number, data, is_sound=True) for number, data in records]
        done = 0
        while done < len(entries):
            needed_bytes = len(entries[done].data)
            if not self._log.has_room(needed_bytes):
                self._sync_taken()  # a file that is followed by another has to be whole
            with translated(self.folder, needed_bytes=needed_bytes):
                self._lock.check_data()
                ends = self._log.append_copies(entries[done:])
            self._has_unsynced = True
            for at, end in enumerate(ends, done):
                number, record = entries[at].number, taken[at]
                if record.journal is not None:
                    self._places.appended(number, len(record.journal), end)
                self._tail.add(number, record)
            done += len(ends)
        return taken

    def last_record(self) -> LogEntry | None:
        """Return the last record of the log, None when it has none. Raises StoreFailed."""
        return next(self.log_records(self._log.last_number), None)

    @property
    def last_number(self) -> int:
        """The number of the last record, whether the log still has it or not; 0: there was none."""
        return self._log.last_number

    @property
    def incarnation(self) -> int:
        """The identity of the store; see `Recovery`."""
        return self._incarnation

    def is_at_hand(self, record_bytes: int) -> bool:
        """Return whether a commit is one write and one sync. See `interface.Store.is_at_hand`."""
        return self._log.has_room(record_bytes)

    def checkpoint(self, job: CheckpointJob) -> None:
        """Apply the log and the job to the state, and trim the log. See `interface.Store.checkpoint`."""
        records = self._tail.through(job.applied)
        growth = growth_bytes(job)
        self._sync_taken()  # the state says which records are needed: it must not know of one that could be lost
        with translated(self.folder, needed_bytes=growth):
            self._lock.check_data()
            try:
                self._transact(records, job)
            except lmdb.MapFullError:
                with self._copying.barred(SPOOL_FULL):
                    self._turn_over_and_transact(records, job)
            self._tail.applied(job.applied)
            self._positions = Positions(job.applied, job.needed_from)
            self._places.forget(job.needed_from)
            self._rewrite_sparse()
            with self._holding:  # who begins to hold the log waits until it is trimmed
                if self._holders == 0:
                    self._trim(min(job.needed_from, job.applied + 1))
            self._log.prepare()

    def checkpoint_keeping_last(self, job: CheckpointJob) -> None:
        """Make a checkpoint, and keep the last record in the log: a replica compares it with the stream's at its start.

        Raises what `checkpoint` raises.
        """
        last = self.last_record()
        if last is not None and last.number < job.needed_from:
            job = replace(job, needed_from=last.number)
        self.checkpoint(job)

    def read_page(self, partition_id: int, first_sequence: int) -> PageRuns:
        """Return the readable part of a page. See `interface.Store.read_page`."""
        data = self._tail.page(PageKey(partition_id, first_sequence))
        if data is None:
            where = describe_page(partition_id, first_sequence)
            read = partial(self._stored_page, PAGE_KEY.pack(partition_id, first_sequence))
            with translated(self.folder, needed_bytes=0):
                data = whole_page(read, self._log.folder, where)
        return checked_page(data, partition_id, first_sequence)

    def row_keys(self, prefix: bytes) -> dict[Table, list[bytes]]:
        """Return the keys of all rows that begin with a prefix. See `interface.Store.row_keys`."""
        with translated(self.folder, needed_bytes=0):
            changes = TailChanges(self._tail.through(self._log.last_number))  # first: see `LogTail`
            return {
                table: keys_under(prefix, self._env, database, changes.rows[table], self._remap)
                for table, database in self._databases.tables.items()
            }

    def rows(self, table: Table, prefix: bytes) -> dict[bytes, bytes]:
        """Return the rows of a table whose keys begin with a prefix; as `row_keys`, for any thread, beside commits."""
        with translated(self.folder, needed_bytes=0):
            changes = TailChanges(self._tail.through(self._log.last_number))  # first: see `LogTail`
            return rows_under(prefix, self._env, self._databases.tables[table], changes.rows[table], self._remap)

    def recover(self) -> Recovery:
        """Return the stored content. See `interface.Store.recover`."""
        with translated(self.folder, needed_bytes=0):
            changes = TailChanges(self._tail.through(self._log.last_number))
            scan = RecoveryScan(self._env, self._databases, Replay(self._log, self._positions), changes)
            scan.quarantined += self._damaged
            if self._cut_short is not None:
                scan.quarantined.append(self._cut_short)
            return Recovery(
                incarnation=self._incarnation,
                was_clean=self._was_clean,
                next_record_number=self._log.last_number + 1,
                cursors=scan.cursors(),
                pages=scan.pages(),
                journal=self._guarded(scan.journal()),
                tables={table: self._guarded(scan.rows(table)) for table in Table},
                quarantined=scan.quarantined,
                lost_cursors=scan.lost_cursors,
                applied=self._positions.applied,
                torn=self._log.torn,
            )

    @contextmanager
    def log_held(self) -> Iterator[None]:
        """Keep the log as it is within the block. See `interface.Store.log_held`."""
        with self._holding:
            self._holders += 1
        try:
            yield
        finally:
            with self._holding:
                self._holders -= 1

    def read_linked(self, link: Link) -> bytes | None:
        """Return the bytes at a link. See `interface.Store.read_linked`."""
        with translated(self.folder, needed_bytes=0):
            return fetch(self._log.folder, link)

    def stream_copy(self, sink: Callable[[bytes], None]) -> None:
        """Pass a consistent copy of the data file to `sink`. See `interface.Store.stream_copy`."""
        with translated(self.folder, needed_bytes=0):
            self._copying.stream(sink)

    def log_records(self, first: int) -> Iterator[LogEntry]:
        """Yield the records of the log from number `first` on. See `interface.Store.log_records`."""
        last = self._log.last_number
        with translated(self.folder, needed_bytes=0):
            for entry in self._log.read(first):
                if entry.number > last:  # it is being written
                    return
                yield entry

    def usage(self) -> StoreUsage:
        """Return the usage of the store: a statvfs and a few additions, no transaction."""
        used_bytes, file_bytes = self._state_bytes, self._file_bytes()
        return StoreUsage(
            used_bytes=used_bytes + self._log.held_bytes() + self._tail.growth_bytes,
            file_bytes=file_bytes + self._log.file_bytes(),
            map_bytes_max=self._map_bytes_max,
            reserve_bytes=self._reserve_bytes,
            disk_free_bytes=disk_free_bytes(self.folder),
            log_bytes=self._log.log_bytes(),
            log_records=self._log.records_count(),
            checkpoint_bytes=_NUMBER_BYTES * max(0, file_bytes - used_bytes) // self._page_bytes,
            page_entries=self._entries["pages"],
            quarantine_entries=self._entries["quarantine"],
            is_sparse=self._is_sparse,
        )

    def mark_clean(self) -> None:
        """Mark a clean shutdown, after the last checkpoint. Another commit voids the mark."""
        with translated(self.folder, needed_bytes=0), self._env.begin(write=True) as txn:
            write_clean(txn, self._databases, clean=True)
        self._marked_clean = True

    def close(self) -> None:
        """Release the files. May be called twice."""
        if self._closed:
            return
        self._closed = True
        self._copying.close()
        self._log.close()
        with self._remap:
            self._env.close()
        self._lock.release()

    def _sync_taken(self) -> None:
        """Return when the records that were taken are on the disk."""
        if not self._has_unsynced:
            return
        self._has_unsynced = False  # first: another thread may take a record meanwhile
        try:
            with translated(self.folder, needed_bytes=0):
                self._log.sync()
        except BaseException:
            self._has_unsynced = True
            raise

    def _trim(self, before: int) -> None:
        """Trim the log. A failure is reported and leaves files; the checkpoint is made already."""
        try:
            self._log.trim(before)
        except OSError as error:
            log.error("files of the log cannot be given up, which the next checkpoint tries again: %s", error)

    def _stored_page(self, key: bytes, known: StoredPage) -> StoredPage:
        with self._remap, self._env.begin() as txn:
            return page_and_links(txn, self._databases, key, known)

    def _transact(self, records: list[LogRecord], job: CheckpointJob) -> None:
        links = PageLinks(self._log.folder, self._places.link_pages(job.page_writes, job.log_records))

        def apply(txn: "Transaction") -> None:
            if self._marked_clean:
                write_clean(txn, self._databases, clean=False)
            apply_checkpoint(txn, self._databases, records, job, links)

        self._change(apply, links)
        self._marked_clean = False

    def _change(self, change: Callable[["Transaction"], None], links: PageLinks) -> None:
        """Change the state in one transaction."""
        with self._env.begin(write=True) as txn:
            try:
                change(txn)
                if links.changes and not self._has_links:
                    write_links(txn, self._databases)
                sizes = self._measure(txn)
            except BaseException as error:  # before it aborts, py-lmdb waits for the end of a copy
                self._copying.end(SPOOL_FULL if isinstance(error, lmdb.MapFullError) else CHECKPOINT_FAILED)
                raise
        self._has_links = self._has_links or bool(links.changes)
        self._log.kept.change(links.changes)
        self._take_sizes(sizes)

    def _rewrite_sparse(self) -> None:
        """Write pages of their own for messages in kept files of which little is linked, so that these can go.

        The checkpoint is made already: what fails here is left to the next one. While the log is held no file can go.
        """
        sparse = self._sparse_segments() if self._holders == 0 else set()
        self._is_sparse = False
        if not sparse:
            return
        links = PageLinks(self._log.folder, {})
        with contextlib.suppress(lmdb.Error):  # the files stay as they are
            self._change(lambda txn: rewrite_linked(txn, self._databases, sparse, links), links)
            self._stuck |= sparse & self._log.kept.live.keys()
            self._is_sparse = bool(self._sparse_segments())

    def _sparse_segments(self) -> set[int]:
        """Return the kept segments to empty next, if there is much in them that is not needed."""
        kept = self._log.kept
        garbage, live = kept.garbage(but=self._stuck)
        if garbage <= min(GARBAGE_BYTES_MIN, self._map_bytes_max // SEGMENTS_IN_MAP):
            return set()
        used = self._state_bytes + self._log.held_bytes()
        is_short = (
            used > _SHORT * (self._map_bytes_max - self._reserve_bytes)
            or disk_free_bytes(self.folder) < _SHORT_OF_RESERVE * self._reserve_bytes
        )
        if garbage <= (live // SHORT_SHARE if is_short else live):
            return set()
        return kept.sparse(REWRITTEN_BYTES, but=self._stuck)

    def _turn_over_and_transact(self, records: list[LogRecord], job: CheckpointJob) -> None:
        """Retry after another transaction, with the whole map. No copy is running.

        LMDB reuses the pages that a transaction freed from the second one after it. What is applied was admitted when
        it was appended, and moving it into pages makes room in the log: so a checkpoint may use the reserve.
        """
        limit = self._map_bytes_max - self._reserve_bytes
        self._set_map_bytes(self._map_bytes_max)
        try:
            with self._env.begin(write=True) as txn:
                write_turn(txn, self._databases)
            self._transact(records, job)
        finally:
            self._set_map_bytes(limit)  # LMDB keeps the size in use, if that is larger

    def _set_map_bytes(self, map_bytes: int) -> None:
        with self._remap:
            self._env.set_mapsize(map_bytes)

    def _keep_reserve(self, growth: int) -> None:
        """Refuse growth that would leave less than the reserve, in the map or on the disk."""
        used = self._state_bytes + self._log.held_bytes() + self._tail.growth_bytes
        limit = self._map_bytes_max - self._reserve_bytes
        if used + growth > limit:
            raise StoreFull("map", f"{used} bytes are in use and {growth} would come, of {limit} for messages")
        free = disk_free_bytes(self.folder)
        if free < self._reserve_bytes + growth and self._file_bytes() - self._state_bytes < growth:
            raise StoreFull("disk", f"{free} bytes are free, of which {self._reserve_bytes} are kept in reserve")

    def _identify(self, incarnation: int | None) -> tuple[int, bool]:
        with self._env.begin(write=True) as txn:
            known = read_incarnation(txn, self._databases, f"the store in {self.folder}")
            if known is None:
                known = secrets.randbits(64) if incarnation is None else incarnation
                write_incarnation(txn, self._databases, known)
            copy_catalog(txn, self._databases)
            clean = read_clean(txn, self._databases)
            self._take_sizes(self._measure(txn))
        return known, clean

    def _open_log(self, *, sync: bool) -> Journal:
        """Open the log, and move the records of an older spool or a backup into it."""
        folder = make_log_folder(self.folder)
        segment_bytes = min(SEGMENT_BYTES_MAX, max(SEGMENT_BYTES_MIN, self._map_bytes_max // SEGMENTS_IN_MAP))
        first_bytes = max(SEGMENT_BYTES_MIN, segment_bytes // SEGMENT_GROWTH)

        def opened() -> Journal:
            return Journal(folder, self._incarnation, segment_bytes=segment_bytes, first_bytes=first_bytes, sync=sync)

        with self._env.begin() as txn:
            has_records = holds_records(txn, self._databases)
        if sync:
            forget_cached(folder)
        log = opened()
        if has_records and log.last_number:
            check_begun(log, self._env, self._databases)
            remove_log(folder)
            log = opened()
        if has_records:
            move_records(self._env, self._databases, log, f"the store in {self.folder}")
        log.sync()  # who wrote the last records may have been killed, with these in the system's cache only
        return log

    def _measure(self, txn: "Transaction") -> dict[str, tuple[int, int]]:
        sizes: dict[str, tuple[int, int]] = {}
        for name, database in self._names.items():
            stat = txn.stat(database)
            sizes[name] = (stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"], stat["entries"])
        return sizes

    def _take_sizes(self, sizes: dict[str, tuple[int, int]]) -> None:
        for name, (pages, entries) in sizes.items():
            self._used_pages[name] = pages
            self._entries[name] = entries
        self._state_bytes = (_META_PAGES + sum(self._used_pages.values())) * self._page_bytes

    def _file_bytes(self) -> int:
        return (self._env.info()["last_pgno"] + 1) * self._page_bytes

    def _guarded(self, rows: Iterator[_Row]) -> Iterator[_Row]:
        with translated(self.folder, needed_bytes=0):
            yield from rows
