"""SpoolStore: the Store on a disk, one LMDB environment in one data folder.

A commit is one write transaction and a real fsync. See also: the sub-databases (storage.environment.databases), the
effect of a job on them (storage.store.apply), recovery (storage.catalog.recovery). The caller decides what to delete
and when.

Space. LMDB cannot delete without writing, so a full database could never be emptied. Therefore jobs with new messages
may not use the last `reserve_bytes` of the map and of the disk; jobs that settle, delete or move may
(`CommitJob.uses_reserve`). While LMDB is open its map ends below the reserve. Only a job that may use the reserve, and
does not fit otherwise, sees the whole map, during its transaction. The map costs address space only, and the file grows
with its content, so a small map that grows would save nothing: 1 TiB opens in 0.6 ms with a file of 8 KiB.

Threads. `_remap` keeps the map in place while `read_page` reads from it; no thread holds it over a decode or an fsync.
A copy (`stream_copy`) takes too long to wait for: the store ends it before it moves the map.
"""

import secrets
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeVar, final

import lmdb

from sluicegate.storage.backup.folder import PARTIAL_FILE
from sluicegate.storage.catalog.recovery import RecoveryScan, checked_page
from sluicegate.storage.environment.databases import PAGE_KEY, RECORD_KEY, Databases, key_numbers
from sluicegate.storage.environment.environment import (
    READERS_FILE,
    disk_free_bytes,
    fill_to_length,
    open_environment,
    sync_folders,
    translated,
)
from sluicegate.storage.environment.file_rights import make_folder
from sluicegate.storage.environment.folder_lock import DATA_FILE, LOCK_FILE, FolderLock
from sluicegate.storage.environment.identity import (
    read_clean,
    read_incarnation,
    write_clean,
    write_incarnation,
    write_turn,
)
from sluicegate.storage.errors import StoreFull
from sluicegate.storage.integrity.walk import check_spool
from sluicegate.storage.interface import CommitJob, Quarantined, Recovery, StoreUsage, Table
from sluicegate.storage.records.page import PageRuns
from sluicegate.storage.store.apply import apply_job, copy_catalog, growth_bytes, touched_databases
from sluicegate.storage.store.copy import Copying

if TYPE_CHECKING:
    Transaction = lmdb.Transaction[bytes]

# All files of a data folder; the last one exists during a restore.
SPOOL_FILES: Final = (DATA_FILE, READERS_FILE, LOCK_FILE, PARTIAL_FILE)

RESERVE_BYTES: Final = 32 << 20  # a purge writes 8 bytes for each 4 KiB it frees: enough for one of 16 GiB
RESERVE_SHARE_MAX: Final = 2  # the reserve is at most half of the map

SPOOL_FULL: Final = "the spool became full, and what a backup holds could not be used again"

COMMIT_FAILED: Final = "a commit failed, and could not be taken back while a backup was made"

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
        self._incarnation, self._was_clean = self._identify(incarnation)
        self._marked_clean = self._was_clean
        self._last_record_number = self._read_last_record_number()

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        map_bytes_max: int,
        reserve_bytes: int = RESERVE_BYTES,
        sync: bool = True,
        incarnation: int | None = None,
    ) -> Self:
        """Open the store in the folder, or create both. `incarnation` names a new store; None draws one.

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
                    )
                except BaseException:
                    env.close()
                    raise
        except BaseException:
            if (folder / DATA_FILE).exists() or lock.was_held:
                lock.release()
            else:
                lock.withdraw()
            raise
        sync_folders(folder)
        return store

    def commit(self, job: CommitJob) -> None:
        """Apply the whole job, and return when it is on the disk. See `interface.Store.commit`."""
        if job.record is not None and job.record_number <= self._last_record_number:
            raise ValueError(f"journal record {job.record_number} after {self._last_record_number}")
        growth = growth_bytes(job)
        if not job.uses_reserve:
            self._keep_reserve(growth)
        with translated(self.folder, needed_bytes=growth):
            self._lock.check_data()
            try:
                self._transact(job)
            except lmdb.MapFullError:
                with self._copying.barred(SPOOL_FULL):
                    self._turn_over_and_transact(job)
        self._last_record_number = max(self._last_record_number, job.record_number)

    def read_page(self, partition_id: int, first_sequence: int) -> PageRuns:
        """Return the readable part of a page. See `interface.Store.read_page`."""
        key = PAGE_KEY.pack(partition_id, first_sequence)
        with translated(self.folder, needed_bytes=0), self._remap, self._env.begin() as txn:
            data = txn.get(key, db=self._databases.pages)
        return checked_page(data, partition_id, first_sequence)

    def recover(self) -> Recovery:
        """Return the stored content. See `interface.Store.recover`."""
        scan = RecoveryScan(self._env, self._databases)
        if self._cut_short is not None:
            scan.quarantined.append(self._cut_short)
        with translated(self.folder, needed_bytes=0):
            return Recovery(
                incarnation=self._incarnation,
                was_clean=self._was_clean,
                next_record_number=self._last_record_number + 1,
                cursors=scan.cursors(),
                pages=scan.pages(),
                journal=self._guarded(scan.journal()),
                tables={table: self._guarded(scan.rows(table)) for table in Table},
                quarantined=scan.quarantined,
                lost_cursors=scan.lost_cursors,
            )

    def stream_copy(self, sink: Callable[[bytes], None]) -> None:
        """Pass a consistent copy of the data file to `sink`. See `interface.Store.stream_copy`."""
        with translated(self.folder, needed_bytes=0):
            self._copying.stream(sink)

    def usage(self) -> StoreUsage:
        """Return the usage of the store: a statvfs and a few additions, no transaction."""
        return StoreUsage(
            used_bytes=self._used_bytes(),
            file_bytes=self._file_bytes(),
            map_bytes_max=self._map_bytes_max,
            reserve_bytes=self._reserve_bytes,
            disk_free_bytes=disk_free_bytes(self.folder),
            journal_entries=self._entries["journal"],
            page_entries=self._entries["pages"],
            quarantine_entries=self._entries["quarantine"],
        )

    def mark_clean(self) -> None:
        """Mark a clean shutdown, as the last commit. Another commit removes the mark."""
        with translated(self.folder, needed_bytes=0), self._env.begin(write=True) as txn:
            write_clean(txn, self._databases, clean=True)
        self._marked_clean = True

    def close(self) -> None:
        """Release the files. May be called twice."""
        if self._closed:
            return
        self._closed = True
        self._copying.close()
        with self._remap:
            self._env.close()
        self._lock.release()

    def _transact(self, job: CommitJob) -> None:
        with self._env.begin(write=True) as txn:
            try:
                if self._marked_clean:
                    write_clean(txn, self._databases, clean=False)
                apply_job(txn, self._databases, job)
                sizes = self._measure(txn, touched_databases(job))
            except BaseException as error:  # before it aborts, py-lmdb waits for the end of a copy
                self._copying.end(SPOOL_FULL if isinstance(error, lmdb.MapFullError) else COMMIT_FAILED)
                raise
        self._marked_clean = False
        self._take_sizes(sizes)

    def _turn_over_and_transact(self, job: CommitJob) -> None:
        """Retry after another commit, and with the whole map for a job that may use the reserve. No copy is running.

        LMDB reuses the pages that a commit freed from the second commit after it. Without a commit in between, a store
        whose last settlement made room would refuse publishes until an unrelated commit.
        """
        limit = self._map_bytes_max - self._reserve_bytes
        self._set_map_bytes(self._map_bytes_max)
        try:
            with self._env.begin(write=True) as txn:
                write_turn(txn, self._databases)
            if job.uses_reserve:
                self._transact(job)
        finally:
            self._set_map_bytes(limit)  # LMDB keeps the size in use, if that is larger
        if not job.uses_reserve:
            self._transact(job)

    def _set_map_bytes(self, map_bytes: int) -> None:
        with self._remap:
            self._env.set_mapsize(map_bytes)

    def _keep_reserve(self, growth: int) -> None:
        """Refuse growth that would leave less than the reserve, in the map or on the disk."""
        used, limit = self._used_bytes(), self._map_bytes_max - self._reserve_bytes
        if used + growth > limit:
            raise StoreFull("map", f"{used} bytes are in use and {growth} would come, of {limit} for messages")
        free = disk_free_bytes(self.folder)
        if free < self._reserve_bytes + growth and self._file_bytes() - used < growth:
            raise StoreFull("disk", f"{free} bytes are free, of which {self._reserve_bytes} are kept in reserve")

    def _identify(self, incarnation: int | None) -> tuple[int, bool]:
        with self._env.begin(write=True) as txn:
            known = read_incarnation(txn, self._databases, f"the store in {self.folder}")
            if known is None:
                known = secrets.randbits(64) if incarnation is None else incarnation
                write_incarnation(txn, self._databases, known)
            copy_catalog(txn, self._databases)
            clean = read_clean(txn, self._databases)
            self._take_sizes(self._measure(txn, set(self._names)))
        return known, clean

    def _read_last_record_number(self) -> int:
        with self._env.begin() as txn, txn.cursor(db=self._databases.journal) as cursor:
            return key_numbers(RECORD_KEY, cursor.key())[0] if cursor.last() else 0

    def _measure(self, txn: "Transaction", names: set[str]) -> dict[str, tuple[int, int]]:
        sizes: dict[str, tuple[int, int]] = {}
        for name in names:  # 1.2 us each, so only the ones that a commit touched
            stat = txn.stat(self._names[name])
            sizes[name] = (stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"], stat["entries"])
        return sizes

    def _take_sizes(self, sizes: dict[str, tuple[int, int]]) -> None:
        for name, (pages, entries) in sizes.items():
            self._used_pages[name] = pages
            self._entries[name] = entries

    def _used_bytes(self) -> int:
        return (_META_PAGES + sum(self._used_pages.values())) * self._page_bytes

    def _file_bytes(self) -> int:
        return (self._env.info()["last_pgno"] + 1) * self._page_bytes

    def _guarded(self, rows: Iterator[_Row]) -> Iterator[_Row]:
        with translated(self.folder, needed_bytes=0):
            yield from rows
