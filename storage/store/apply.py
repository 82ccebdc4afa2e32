"""Applies a checkpoint inside a write transaction. `SpoolStore` begins and commits the transaction."""

from typing import TYPE_CHECKING

import lmdb

from sluicegate.storage.environment.databases import PAGE_KEY, PARTITION_KEY, SEQUENCE_MAX, Databases
from sluicegate.storage.environment.identity import Positions, write_positions
from sluicegate.storage.environment.quarantine import describe_page, set_aside
from sluicegate.storage.errors import DamagedRecord
from sluicegate.storage.interface import CheckpointJob, PageKey, Quarantined, Reservation, Table
from sluicegate.storage.log.record import LogRecord, page_key_of
from sluicegate.storage.log.tail import TailChanges, growth_of_values
from sluicegate.storage.records.cursor import decode_cursor, encode_cursor, with_reservation
from sluicegate.storage.records.page import directory_row

if TYPE_CHECKING:
    from lmdb import _Database

    Transaction = lmdb.Transaction[bytes]


def apply_checkpoint(txn: "Transaction", databases: Databases, records: list[LogRecord], job: CheckpointJob) -> None:
    """Apply the records of the log, and then the job. Raises lmdb.Error."""
    _apply_changes(txn, databases, TailChanges(records))
    for damage in job.page_quarantines:
        entry = Quarantined(describe_page(damage.partition_id, damage.first_sequence), "damaged", damage.detail)
        key = PAGE_KEY.pack(damage.partition_id, damage.first_sequence)
        if set_aside(txn, databases, "pages", key, entry, stays=damage.stays) and not damage.stays:
            txn.delete(key, db=databases.directory)
    for page in job.page_deletes:
        _delete_page(txn, databases, page)
    for write in job.page_writes:
        _put_page(txn, databases, page_key_of(write), write.page)
    for cursor in job.cursor_puts:
        txn.put(PARTITION_KEY.pack(cursor.partition_id), encode_cursor(cursor), db=databases.cursors)
    write_positions(txn, databases, Positions(job.applied, job.needed_from))


def growth_bytes(job: CheckpointJob) -> int:
    """Return an upper estimate of the database pages that the job adds, in bytes."""
    cursors = [16 * (1 + len(each.settled) + len(each.redelivered) + len(each.delays)) for each in job.cursor_puts]
    return growth_of_values([len(write.page) for write in job.page_writes] + cursors)


def copy_catalog(txn: "Transaction", databases: Databases) -> None:
    """Copy the catalog of a spool of an earlier release, which kept no copy."""
    copy = databases.catalog_copy
    if copy is None or txn.stat(copy)["entries"] > 0:
        return
    with txn.cursor(db=databases.tables[Table.CATALOG]) as cursor:
        for key, data in cursor.iternext():
            if key:  # in a damaged page it may be empty, which recovery reports
                txn.put(key, data, db=copy)


def _apply_changes(txn: "Transaction", databases: Databases, changes: TailChanges) -> None:
    for partition_id in changes.purged:
        _purge(txn, databases, partition_id)
    for key, page in changes.pages.items():
        _put_page(txn, databases, key, page)
    for reservation in changes.reservations.values():
        _reserve(txn, databases, reservation)
    for table, rows in changes.rows.items():
        places = [databases.tables[table]]
        if table is Table.CATALOG and databases.catalog_copy is not None:
            places.append(databases.catalog_copy)
        for database in places:
            for row_key, data in rows.items():
                if data is None:
                    txn.delete(row_key, db=database)
                else:
                    txn.put(row_key, data, db=database)


def _reserve(txn: "Transaction", databases: Databases, reservation: Reservation) -> None:
    """Raise the reserved bound of a cursor. A damaged one stays: its presence shows that sequences were assigned."""
    key = PARTITION_KEY.pack(reservation.partition_id)
    data = txn.get(key, db=databases.cursors)
    try:
        cursor = None if data is None else decode_cursor(data)
    except DamagedRecord:
        return
    txn.put(key, encode_cursor(with_reservation(cursor, *reservation)), db=databases.cursors)


def _put_page(txn: "Transaction", databases: Databases, page_key: PageKey, page: bytes) -> None:
    key = PAGE_KEY.pack(*page_key)
    txn.put(key, page, db=databases.pages)
    txn.put(key, directory_row(page), db=databases.directory)


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
