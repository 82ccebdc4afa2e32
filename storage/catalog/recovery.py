"""Recovery: reads state and log at a start, moves damaged records into the quarantine, and serves the rest.

What the log has and the state has not is read as if the state had it; nothing is applied here.

A damaged cursor is copied to the quarantine and also stays in place until a new cursor overwrites it: its presence
shows that sequences were assigned. Without it, a start that ends early would make the partition look new to the next
start.

Iterators hold no transaction while their caller works: they read a part, close the transaction, and yield the part. So
a long recovery pins no old database pages, and damaged records can be moved while it runs.
"""

import heapq
from collections.abc import Iterator
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Final, final

import lmdb

from sluicegate.storage.environment.databases import (
    CATALOG_COPY,
    PAGE_KEY,
    PARTITION_KEY,
    RECORD_KEY,
    Databases,
    key_numbers,
)
from sluicegate.storage.environment.quarantine import describe_page, is_kept, keep_bytes, set_aside
from sluicegate.storage.errors import DamagedRecord, PageNotFound
from sluicegate.storage.interface import LogEntry, PageEntry, Quarantined, QuarantinedBytes, QuarantineReason, Table
from sluicegate.storage.log.replay import Replay
from sluicegate.storage.log.tail import TailChanges
from sluicegate.storage.records.cursor import CursorRecord, decode_cursor
from sluicegate.storage.records.journal import JournalRecord
from sluicegate.storage.records.linked_page import directory_value
from sluicegate.storage.records.page import PageRuns, PageSummary, decode_page, decode_page_summary
from sluicegate.storage.records.table import decode_row, stored_key

if TYPE_CHECKING:
    from lmdb import _Database

ROWS_PER_READ: Final = 1000


@final
class RecoveryScan:
    """One pass over a store. `quarantined` collects the unreadable records.

    Without `repairs` the scan moves nothing, and the environment may be open for reading only.
    """

    def __init__(
        self,
        env: lmdb.Environment,
        databases: Databases,
        replay: Replay,
        changes: TailChanges,
        *,
        repairs: bool = True,
    ) -> None:
        """Begin a pass over the state, with the changes that it lacks, and the journal records of the log."""
        self._env = env
        self._databases = databases
        self._replay = replay
        self._repairs = repairs
        self._changes = changes
        self.quarantined: list[Quarantined] = []
        self.lost_cursors: set[int] = set()  # partitions with an unreadable cursor

    def cursors(self) -> dict[int, CursorRecord]:
        """Return the readable cursors by partition."""
        cursors: dict[int, CursorRecord] = {}
        for key, data in self._rows(self._databases.cursors):
            partition_id = key_numbers(PARTITION_KEY, key)[0]
            where = f"cursor of partition {partition_id}"
            try:
                cursor = decode_cursor(data, where)
            except DamagedRecord as error:
                self.lost_cursors.add(partition_id)
                self._set_aside("cursors", key, where, "damaged", error.reason)
                continue
            if cursor.partition_id != partition_id:
                self.lost_cursors.add(partition_id)
                self._set_aside("cursors", key, where, "misplaced", f"it belongs to {cursor.partition_id}")
                continue
            cursors[partition_id] = cursor
        self._changes.change_cursors(cursors, lost=self.lost_cursors)
        return cursors

    def pages(self) -> list[PageEntry]:
        """Return the directory of all pages. A damaged row is rebuilt from its page."""
        pages: list[PageEntry] = []
        for key, row in self._rows(self._databases.directory):
            partition_id, first_sequence = key_numbers(PAGE_KEY, key)
            summary = self._summary(key, row, partition_id, first_sequence)
            if summary is not None:
                pages.append(PageEntry(partition_id, summary))
        return self._changes.change_pages(pages)

    def journal(self) -> Iterator[tuple[int, JournalRecord]]:
        """Yield the readable journal records in commit order, reading each on demand."""
        yield from self._replay.journal()
        for entry, what in self._replay.damaged:
            if not self._keep_entry(entry, what):
                self.quarantined.append(what)
        self.quarantined += self._replay.missing

    def rows(self, table: Table) -> Iterator[tuple[bytes, bytes]]:
        """Yield the readable rows of a table; for the catalog, also the rows that only its copy has."""
        changed = self._changes.rows[table]
        known: set[bytes] = set(changed)
        written = [(key, _decoded(key, data, table)) for key, data in sorted(changed.items()) if data is not None]
        for _, row in heapq.merge(self._stored_rows(table, known), written, key=itemgetter(0)):
            yield row
        if table is Table.CATALOG:
            yield from self._only_in_copy(known)

    def _stored_rows(self, table: Table, known: set[bytes]) -> Iterator[tuple[bytes, tuple[bytes, bytes]]]:
        """Yield the readable rows that the state has under keys which are not known, and make the keys known."""
        database = self._databases.tables.get(table)
        for key, data in () if database is None else self._rows(database):
            if not key:
                raise DamagedRecord("data.mdb", f"a key of {table} in it has 0 bytes: restore a backup")
            if key in known:
                continue
            known.add(key)
            try:
                row = _decoded(key, data, table)
            except DamagedRecord as error:
                found = self._from_copy(key) if table is Table.CATALOG else None
                if found is None:
                    reason: QuarantineReason = "misplaced" if isinstance(error, MisplacedRow) else "damaged"
                    self._set_aside(table.value, key, error.where, reason, error.reason)
                    continue
                self._set_aside(table.value, key, error.where, "damaged", f"{error.reason}; its copy is used")
                self._put_back(key, found)
                row = _decoded(key, found, table)
            else:
                if table is Table.CATALOG:
                    self._check_copy(key, data)
            yield key, row

    def _from_copy(self, key: bytes) -> bytes | None:
        """Return a row of the catalog from its copy, None when that is missing or damaged too."""
        copy = self._databases.catalog_copy
        if copy is None:
            return None
        with self._env.begin() as txn:
            data = txn.get(key, db=copy)
        try:
            return None if data is None or not _decoded(key, data, Table.CATALOG) else data
        except DamagedRecord:
            return None

    def _only_in_copy(self, known: set[bytes]) -> Iterator[tuple[bytes, bytes]]:
        copy = self._databases.catalog_copy
        for key, data in () if copy is None else self._rows(copy):
            if key in known:
                continue
            try:
                row = _decoded(key, data, Table.CATALOG)
            except DamagedRecord as error:
                self._set_aside(CATALOG_COPY, key, error.where, "damaged", error.reason)
                continue
            where = f"row {row[0]!r} of {Table.CATALOG}"
            self.quarantined.append(Quarantined(where, "damaged", "it was lost; its copy is used"))
            self._put_back(key, data)
            yield row

    def _check_copy(self, key: bytes, data: bytes) -> None:
        """Rewrite the copy of a catalog row when it differs from the row."""
        copy = self._databases.catalog_copy
        if copy is None:
            return
        with self._env.begin() as txn:
            found = txn.get(key, db=copy)
        if found == data:
            return
        where = f"copy of row {key!r} of {Table.CATALOG}"
        if found is None:
            self.quarantined.append(Quarantined(where, "damaged", "it was lost, and is written anew"))
        else:
            self._set_aside(CATALOG_COPY, key, where, "damaged", "it is not as the row, and is written anew")
        if self._repairs:
            with self._env.begin(write=True) as txn:
                txn.put(key, data, db=copy)

    def _put_back(self, key: bytes, data: bytes) -> None:
        if self._repairs:
            with self._env.begin(write=True) as txn:
                txn.put(key, data, db=self._databases.tables[Table.CATALOG])

    def _summary(self, key: bytes, row: bytes, partition_id: int, first_sequence: int) -> PageSummary | None:
        where = describe_page(partition_id, first_sequence)
        try:
            return _checked_summary(row, first_sequence, f"directory row of {where}")
        except DamagedRecord as error:
            self._set_aside("directory", key, error.where, "damaged", error.reason)
        with self._env.begin() as txn:
            page = txn.get(key, db=self._databases.pages)
        if page is None:
            return None
        try:
            summary = _checked_summary(page, first_sequence, where)
        except DamagedRecord as error:
            self._set_aside("pages", key, where, "damaged", error.reason)
            return None
        if self._repairs:
            with self._env.begin(write=True) as txn:
                txn.put(key, directory_value(page), db=self._databases.directory)
        return summary

    def _rows(self, database: "_Database") -> Iterator[tuple[bytes, bytes]]:
        first = b""
        while True:
            with self._env.begin() as txn, txn.cursor(db=database) as cursor:
                found = cursor.set_range(first) if first else cursor.first()
                part = list(islice(cursor.iternext(), ROWS_PER_READ)) if found else []
            yield from part
            if len(part) < ROWS_PER_READ:
                return
            first = part[-1][0] + b"\x00"  # the smallest key behind the last one

    def _keep_entry(self, entry: LogEntry, what: Quarantined) -> bool:
        """Copy a damaged record of the log into quarantine, and return whether an earlier start did so.

        What is readable of it is read again by each start, until the log is trimmed.
        """
        item = QuarantinedBytes(0, what, "log", RECORD_KEY.pack(entry.number), entry.data)
        with self._env.begin(write=self._repairs) as txn:
            if is_kept(txn, self._databases, item):
                return True
            if self._repairs:
                keep_bytes(txn, self._databases, item, once=False)
        return False

    def _set_aside(self, source: str, key: bytes, where: str, reason: QuarantineReason, detail: str) -> None:
        entry = Quarantined(where, reason, detail)
        if self._repairs:
            with self._env.begin(write=True) as txn:
                set_aside(txn, self._databases, source, key, entry, stays=source == "cursors")
        self.quarantined.append(entry)


def checked_page(data: bytes | None, partition_id: int, first_sequence: int) -> PageRuns:
    """Return the readable part of a page. Raises PageNotFound, DamagedRecord and UnsupportedFormat."""
    if data is None:
        raise PageNotFound(partition_id, first_sequence)
    where = describe_page(partition_id, first_sequence)
    _checked_summary(data, first_sequence, where)
    return decode_page(data, where)


@final
class MisplacedRow(DamagedRecord):
    """An intact row under the key of another row."""


def _decoded(key: bytes, data: bytes, table: Table) -> tuple[bytes, bytes]:
    """Return the key and value of a row. Raises DamagedRecord."""
    where = f"row {key!r} of {table}"
    own_key, value = decode_row(data, where)
    if stored_key(own_key) != key:
        raise MisplacedRow(where, f"it belongs to {own_key!r}")
    return own_key, value


def _checked_summary(data: bytes, first_sequence: int, where: str) -> PageSummary:
    summary = decode_page_summary(data, where)
    if summary.first_sequence != first_sequence:
        raise DamagedRecord(where, f"it belongs to sequence {summary.first_sequence}")
    return summary
