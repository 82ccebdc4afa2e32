"""Writes the rows found in a damaged spool into a new one, from which a node can then start.

As after a restore, the new spool has its own incarnation and counts as not cleanly shut down, and its file gets its
name last. The records of the log go into the new data file, and the first start moves them into a log of their own
(storage.catalog.copied_log). The copy repairs the relations between rows: a page without a directory row gets one, a
row without its page is removed, and a partition whose cursor is lost gets an unreadable cursor, so that the start
reuses no sequence (storage.catalog.recovery).
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import lmdb

from sluicegate.storage.backup.folder import PARTIAL_FILE
from sluicegate.storage.backup.restore import check_empty
from sluicegate.storage.catalog.copied_log import sealed_entry
from sluicegate.storage.catalog.partition_owners import owned_partition
from sluicegate.storage.catalog.queues import stored_queues
from sluicegate.storage.catalog.recovered import read_vpns
from sluicegate.storage.environment.databases import DATABASE_COUNT, PAGE_KEY, PARTITION_KEY, RECORD_KEY, Databases
from sluicegate.storage.environment.environment import sync_folders, translated
from sluicegate.storage.environment.file_rights import make_file, make_folder
from sluicegate.storage.environment.folder_lock import DATA_FILE, FolderLock
from sluicegate.storage.environment.identity import (
    IDENTITY_KEY,
    LOG_KEY,
    STORE_FORMAT,
    STORE_FORMAT_OLDEST,
    STORE_KIND,
    Positions,
    write_incarnation,
    write_positions,
)
from sluicegate.storage.errors import UnknownRow, UnsupportedFormat
from sluicegate.storage.integrity.pages import DataFile
from sluicegate.storage.integrity.salvage import TABLES, Findings
from sluicegate.storage.interface import PageKey, Table
from sluicegate.storage.log.journal import LOG_FOLDER, Journal, incarnation_in
from sluicegate.storage.log.kept import KeptSegments
from sluicegate.storage.log.links import fetch
from sluicegate.storage.records.linked_page import Link, is_linked, links_of, page_from_links
from sluicegate.storage.records.page import PageSummary, decode_page_summary, directory_row
from sluicegate.storage.records.seal import unseal_whole
from sluicegate.storage.records.table import decode_row

_COMMIT_BYTES: Final = 64 << 20
_MAP_FACTOR: Final = 3  # addresses only: rows that are put in order fill their pages, and half of them at worst
_MAP_BYTES_MIN: Final = 64 << 20
_LOST_CURSOR: Final = b""  # no seal accepts it


@dataclass(frozen=True, slots=True)
class TableAccount:
    """The result for the rows of one table."""

    found: int
    wanted: int | None  # None: unknown

    def is_whole(self) -> bool:
        """Return whether no row is missing."""
        return self.wanted is not None and self.found >= self.wanted


@dataclass(slots=True)
class Salvaged:
    """The result of a salvage."""

    incarnation: int  # of the new spool
    tables: dict[str, TableAccount] = field(default_factory=dict)
    pages_lost: list[tuple[PageKey, PageSummary]] = field(default_factory=list)  # those in the directory
    cursors_lost: list[int] = field(default_factory=list)  # partition ids
    unclaimed: int = 0  # rows that may belong to several tables, and are in none

    def is_whole(self) -> bool:
        """Return whether nothing is known to be missing."""
        return not (self.pages_lost or self.cursors_lost or self.unclaimed) and all(
            each.is_whole() for each in self.tables.values()
        )


def salvage_spool(data_file: Path, folder: Path, *, incarnation: int, looked: Callable[[], None]) -> Salvaged:
    """Copy the readable rows of a data file into a new spool in `folder`, which is new or empty.

    No process may write to the data file. `looked` is called for each page that is searched. Raises BackupRefused
    (the folder is not empty), FolderInUse, UnsupportedFormat (the spool is another release's), StoreFull, StoreFailed,
    OSError; the folder then has no spool.
    """
    with DataFile(data_file) as file:
        findings = Findings(file, looked)
        for key, value in findings.rows("meta"):
            if key == IDENTITY_KEY:
                unseal_whole(value, STORE_KIND, STORE_FORMAT, f"the store in {data_file}", oldest=STORE_FORMAT_OLDEST)
        make_folder(folder)
        check_empty(folder)
        lock = FolderLock(folder)
        try:
            check_empty(folder)
            partial = folder / PARTIAL_FILE
            partial.unlink(missing_ok=True)
            try:
                with translated(folder, needed_bytes=file.file_bytes):
                    os.close(make_file(partial))
                    salvaged = _written(findings, data_file.parent / LOG_FOLDER, partial, incarnation)
                    os.rename(partial, folder / DATA_FILE)
                    sync_folders(folder)
            except BaseException:
                partial.unlink(missing_ok=True)
                raise
        except BaseException:
            lock.withdraw()
            raise
        lock.release()
    return salvaged


def _written(findings: Findings, log: Path, partial: Path, incarnation: int) -> Salvaged:
    found = incarnation_in(log)
    journal = None if found is None else Journal(log, found, segment_bytes=0, sync=False)
    log_bytes = 0 if journal is None else journal.held_bytes()
    linked_bytes = sum([_linked_bytes(row) for _, row in findings.rows("directory")])
    kept_bytes = KeptSegments(log).file_bytes
    map_bytes = _MAP_FACTOR * (findings.file.file_bytes + log_bytes + linked_bytes + kept_bytes) + _MAP_BYTES_MIN
    env = lmdb.open(str(partial), subdir=False, lock=False, map_size=map_bytes, max_dbs=DATABASE_COUNT, sync=False)
    try:
        databases = Databases(env)
        salvaged = Salvaged(incarnation, unclaimed=findings.unclaimed)
        copy = _Copy(findings, env, databases, salvaged, lambda link: fetch(log, link))
        copy.run()
        if journal is not None:
            copy.run_log(journal)
        with env.begin(write=True) as txn:
            write_incarnation(txn, databases, incarnation)
        env.sync(True)
    finally:
        env.close()
    return copy.salvaged


def _linked_bytes(row: bytes) -> int:
    """Return the bytes to which a row of the directory links."""
    if is_linked(row):
        with suppress(UnsupportedFormat):
            return sum([link.size for link in links_of(row)])
    return 0


class _Copy:
    """One copy. Rows of pages and of their directory are matched, the others are copied as found."""

    def __init__(
        self,
        findings: Findings,
        env: lmdb.Environment,
        databases: Databases,
        salvaged: Salvaged,
        fetch: Callable[[Link], bytes | None],
    ) -> None:
        self.salvaged = salvaged
        self._fetch = fetch
        self._findings = findings
        self._env = env
        self._databases = databases
        self._partition_ids: set[int] = set()
        self._cursor_ids: set[int] = set()

    def run(self) -> None:
        """Copy everything."""
        for name in sorted(TABLES - {"meta", "pages", "directory"}):
            self._copy(name, self._noting(name))
        self._copy_pages()
        if not self.salvaged.tables["cursors"].is_whole():
            self._mark_lost_cursors()

    def run_log(self, journal: Journal) -> None:
        """Copy the records of the log, and the place in it. Where that is lost, a start applies all of the log."""
        entries = [(RECORD_KEY.pack(entry.number), sealed_entry(entry)) for entry in journal.read(1)]
        found = self._put("journal", entries)
        self.salvaged.tables["log"] = TableAccount(found, None if journal.damages else found)
        positions = [row for row in self._findings.rows("meta") if row[0] == LOG_KEY]
        self._put("meta", positions)
        if not positions:
            with self._env.begin(write=True) as txn:
                first = journal.first_number
                write_positions(txn, self._databases, Positions(first - 1, first))

    def _noting(self, name: str) -> Iterator[tuple[bytes, bytes]]:
        for key, value in self._findings.rows(name):
            if name == "cursors":
                self._cursor_ids.add(PARTITION_KEY.unpack(key)[0])
            elif name == Table.CATALOG:
                self._note_partitions(value)
            elif name == Table.OWNERS:
                with suppress(UnsupportedFormat):
                    self._partition_ids.add(owned_partition(decode_row(value)[0]))
            yield key, value

    def _copy(self, name: str, rows: Iterable[tuple[bytes, bytes]]) -> None:
        found = self._put(name, rows)
        wanted = self._findings.tables[name].wanted
        self.salvaged.tables[name] = TableAccount(found, wanted)

    def _put(self, name: str, rows: Iterable[tuple[bytes, bytes]]) -> int:
        database, count, left = self._databases.named()[name], 0, 0
        txn = self._env.begin(write=True)
        try:
            for key, value in rows:
                txn.put(key, value, db=database)
                count, left = count + 1, left + len(value)
                if left >= _COMMIT_BYTES:
                    txn.commit()
                    txn, left = self._env.begin(write=True), 0
            txn.commit()
        except BaseException:
            txn.abort()
            raise
        return count

    def _copy_pages(self) -> None:
        summaries: dict[bytes, bytes] = dict(self._findings.rows("directory"))
        rows: dict[bytes, bytes] = {}
        wanted = self._findings.tables["directory"].wanted
        is_whole = TableAccount(len(summaries), wanted).is_whole()

        def pages() -> Iterator[tuple[bytes, bytes]]:
            for key, value in self._findings.rows("pages"):
                self._partition_ids.add(PAGE_KEY.unpack(key)[0])
                if key in summaries:
                    rows[key] = directory_row(summaries.pop(key))
                elif not is_whole:
                    rows[key] = directory_row(value)
                yield key, self._whole(value)
            for key in [key for key, row in summaries.items() if is_linked(row)]:  # the page has the same links
                row = summaries.pop(key)
                rows[key] = directory_row(row)
                yield key, self._whole(row)

        self._copy("pages", pages())
        self.salvaged.tables["directory"] = TableAccount(self._put("directory", sorted(rows.items())), wanted)
        for key, row in sorted(summaries.items()):
            with suppress(UnsupportedFormat):
                self.salvaged.pages_lost.append((PageKey(*PAGE_KEY.unpack(key)), decode_page_summary(row)))

    def _whole(self, page: bytes) -> bytes:
        """Return a page with its messages."""
        if is_linked(page):
            with suppress(UnsupportedFormat):
                return page_from_links(page, self._fetch)
        return page

    def _note_partitions(self, value: bytes) -> None:
        """Record the partitions of a queue, if the catalog row is a queue's."""
        with suppress(UnsupportedFormat, UnknownRow):
            rows = read_vpns({table: [] for table in Table} | {Table.CATALOG: [decode_row(value)]})
            for vpn in rows.values():
                for queue in stored_queues(vpn.catalog):
                    self._partition_ids.update(queue.partition_ids)

    def _mark_lost_cursors(self) -> None:
        lost = sorted(self._partition_ids - self._cursor_ids)
        self._put("cursors", [(PARTITION_KEY.pack(each), _LOST_CURSOR) for each in lost])
        self.salvaged.cursors_lost = lost
