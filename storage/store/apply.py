"""Applies a CommitJob inside a write transaction. `SpoolStore` begins and commits the transaction."""

from typing import TYPE_CHECKING, Final

import lmdb

from sluicegate.storage.environment.databases import (
    CATALOG_COPY,
    PAGE_KEY,
    PARTITION_KEY,
    RECORD_KEY,
    SEQUENCE_MAX,
    Databases,
)
from sluicegate.storage.environment.identity import write_turn
from sluicegate.storage.environment.quarantine import describe_page, set_aside
from sluicegate.storage.interface import CommitJob, PageKey, PageWrite, Quarantined, Table, TableWrite
from sluicegate.storage.records.cursor import encode_cursor
from sluicegate.storage.records.page import decode_page_summary, directory_row
from sluicegate.storage.records.table import encode_row, stored_key

if TYPE_CHECKING:
    from lmdb import _Database

    Transaction = lmdb.Transaction[bytes]

_SHARED_PAGE_BYTES_MAX: Final = 2000  # smaller values share a database page, larger ones have pages of their own
_PAGE_BYTES: Final = 4096
_KEY_BYTES: Final = 128  # key and node, with a margin for a page split in two


def apply_job(txn: "Transaction", databases: Databases, job: CommitJob) -> None:
    """Apply the whole job, deletions first. Raises lmdb.Error."""
    for damage in job.page_quarantines:
        entry = Quarantined(describe_page(damage.partition_id, damage.first_sequence), "damaged", damage.detail)
        key = PAGE_KEY.pack(damage.partition_id, damage.first_sequence)
        if set_aside(txn, databases, "pages", key, entry, stays=damage.stays) and not damage.stays:
            txn.delete(key, db=databases.directory)
    for partition_id in job.partition_purges:
        _purge(txn, databases, partition_id)
    for page in job.page_deletes:
        _delete_page(txn, databases, page)
    for partition_id in job.cursor_deletes:
        txn.delete(PARTITION_KEY.pack(partition_id), db=databases.cursors)
    if job.journal_delete_through > 0:
        _delete_range(txn, databases.journal, RECORD_KEY.pack(0), RECORD_KEY.pack(job.journal_delete_through))
    for write in job.page_writes:
        _put_page(txn, databases, write)
    for cursor in job.cursor_puts:
        txn.put(PARTITION_KEY.pack(cursor.partition_id), encode_cursor(cursor), db=databases.cursors)
    for row in job.table_writes:
        _write_row(txn, databases, row)
    if job.proves:
        write_turn(txn, databases)
    if job.record is not None:
        txn.put(RECORD_KEY.pack(job.record_number), job.record, db=databases.journal, append=True)


def growth_bytes(job: CommitJob) -> int:
    """Return an upper estimate of the database pages that the job adds, in bytes."""
    values = [len(write.page) for write in job.page_writes]
    values += [len(row.key) + len(row.value) for row in job.table_writes if row.value is not None]
    values += [] if job.record is None else [len(job.record)]
    values += [
        16 * (1 + len(cursor.settled) + len(cursor.redelivered) + len(cursor.delays)) for cursor in job.cursor_puts
    ]
    shared = sum([2 * size + _KEY_BYTES for size in values if size <= _SHARED_PAGE_BYTES_MAX])
    return shared + sum([size + _PAGE_BYTES + _KEY_BYTES for size in values if size > _SHARED_PAGE_BYTES_MAX])


def touched_databases(job: CommitJob) -> set[str]:
    """Return the names of the sub-databases whose size the job may change."""
    touched: set[str] = {row.table.value for row in job.table_writes}
    if Table.CATALOG.value in touched:
        touched.add(CATALOG_COPY)
    if job.record is not None or job.journal_delete_through > 0:
        touched.add("journal")
    if job.page_writes or job.page_deletes or job.partition_purges or job.page_quarantines:
        touched |= {"pages", "directory"}
    if job.cursor_puts or job.cursor_deletes or job.partition_purges:
        touched.add("cursors")
    if job.page_quarantines:
        touched.add("quarantine")
    return touched


def copy_catalog(txn: "Transaction", databases: Databases) -> None:
    """Copy the catalog of a spool of an earlier release, which kept no copy."""
    copy = databases.catalog_copy
    if copy is None or txn.stat(copy)["entries"] > 0:
        return
    with txn.cursor(db=databases.tables[Table.CATALOG]) as cursor:
        for key, data in cursor.iternext():
            if key:  # in a damaged page it may be empty, which recovery reports
                txn.put(key, data, db=copy)


def _put_page(txn: "Transaction", databases: Databases, write: PageWrite) -> None:
    row = directory_row(write.page)
    key = PAGE_KEY.pack(write.partition_id, decode_page_summary(row).first_sequence)
    txn.put(key, write.page, db=databases.pages)
    txn.put(key, row, db=databases.directory)


def _delete_page(txn: "Transaction", databases: Databases, page: PageKey) -> None:
    key = PAGE_KEY.pack(page.partition_id, page.first_sequence)
    txn.delete(key, db=databases.pages)
    txn.delete(key, db=databases.directory)


def _purge(txn: "Transaction", databases: Databases, partition_id: int) -> None:
    # The keys come from the directory: a cursor over the pages would read every page from the disk to delete it.
    first, last = PAGE_KEY.pack(partition_id, 0), PAGE_KEY.pack(partition_id, SEQUENCE_MAX)
    for key in _delete_range(txn, databases.directory, first, last):
        txn.delete(key, db=databases.pages)
    txn.delete(PARTITION_KEY.pack(partition_id), db=databases.cursors)


def _delete_range(txn: "Transaction", database: "_Database", first: bytes, last: bytes) -> list[bytes]:
    deleted: list[bytes] = []
    with txn.cursor(db=database) as cursor:
        found = cursor.set_range(first)
        while found and cursor.key() <= last:
            deleted.append(cursor.key())
            cursor.delete()  # and the cursor stands on the next one
            found = cursor.key() != b""
    return deleted


def _write_row(txn: "Transaction", databases: Databases, row: TableWrite) -> None:
    places = [databases.tables[row.table]]
    if row.table is Table.CATALOG and databases.catalog_copy is not None:
        places.append(databases.catalog_copy)
    for database in places:
        if row.value is None:
            txn.delete(stored_key(row.key), db=database)
        else:
            txn.put(stored_key(row.key), encode_row(row.key, row.value), db=database)
