"""Applies a checkpoint inside a write transaction. `SpoolStore` begins and commits the transaction."""

from contextlib import suppress
from typing import TYPE_CHECKING

import lmdb

from sluicegate.storage.environment.databases import PAGE_KEY, PARTITION_KEY, SEQUENCE_MAX, Databases, key_numbers
from sluicegate.storage.environment.identity import Positions, write_positions
from sluicegate.storage.environment.quarantine import describe_page, set_aside
from sluicegate.storage.errors import DamagedRecord
from sluicegate.storage.interface import CheckpointJob, PageDamage, PageKey, Quarantined, Reservation, Table
from sluicegate.storage.log.links import linked_pages, stored_page
from sluicegate.storage.log.record import LogRecord, page_key_of
from sluicegate.storage.log.tail import TailChanges, growth_of_values
from sluicegate.storage.records.cursor import decode_cursor, encode_cursor, with_reservation
from sluicegate.storage.records.linked_page import directory_value, named_segments
from sluicegate.storage.store.links import PageLinks

if TYPE_CHECKING:
    from lmdb import _Database

    Transaction = lmdb.Transaction[bytes]


def apply_checkpoint(
    txn: "Transaction", databases: Databases, records: list[LogRecord], job: CheckpointJob, links: PageLinks
) -> None:
    """Apply the records of the log, and then the job, with links in place of some pages. Raises lmdb.Error."""
    _apply_changes(txn, databases, TailChanges(records), links)
    for damage in job.page_quarantines:
        _quarantine_page(txn, databases, damage, links)
    for page in job.page_deletes:
        _delete_page(txn, databases, page, links)
    for write in job.page_writes:
        key = page_key_of(write)
        put_page(txn, databases, key, links.pages.get(key, write.page), links)
    for cursor in job.cursor_puts:
        txn.put(PARTITION_KEY.pack(cursor.partition_id), encode_cursor(cursor), db=databases.cursors)
    write_positions(txn, databases, Positions(job.applied, job.needed_from))


def linked_bytes(txn: "Transaction", databases: Databases) -> dict[int, int]:
    """Return the linked bytes of each segment of the log. Raises lmdb.Error."""
    found: dict[int, int] = {}
    for _, links in linked_pages(txn, databases):
        for link in links:
            found[link.segment] = found.get(link.segment, 0) + link.size
    return found


def rewrite_linked(txn: "Transaction", databases: Databases, segments: set[int], links: PageLinks) -> None:
    """Write the ordinary page for each page that links to one of these segments. Raises lmdb.Error.

    It looks at the whole directory: so the links are checked only for the pages that are written. A page stays as it is
    when its directory row is damaged, or a file cannot be read.
    """
    keys: list[bytes] = []
    with txn.cursor(db=databases.directory) as cursor:
        for key, row in cursor.iternext():
            if not segments.isdisjoint(named_segments(row)):
                keys.append(key)
    for key in keys:
        page = stored_page(txn, databases, key)
        whole = None
        if page is not None:
            with suppress(OSError):
                whole = links.whole(page)
        if whole is not None:
            put_page(txn, databases, PageKey(*key_numbers(PAGE_KEY, key)), whole, links)


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


def _apply_changes(txn: "Transaction", databases: Databases, changes: TailChanges, links: PageLinks) -> None:
    for partition_id in changes.purged:
        _purge(txn, databases, partition_id, links)
    for key, page in changes.pages.items():
        put_page(txn, databases, key, page, links)
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


def put_page(txn: "Transaction", databases: Databases, page_key: PageKey, page: bytes, links: PageLinks) -> None:
    """Store a page, in place of one of the same name. Raises lmdb.Error."""
    key = PAGE_KEY.pack(*page_key)
    links.delete(txn.get(key, db=databases.directory))
    links.put(page)
    txn.put(key, page, db=databases.pages)
    txn.put(key, directory_value(page), db=databases.directory)


def _delete_page(txn: "Transaction", databases: Databases, page: PageKey, links: PageLinks) -> None:
    key = PAGE_KEY.pack(page.partition_id, page.first_sequence)
    links.delete(txn.get(key, db=databases.directory))
    txn.delete(key, db=databases.pages)
    txn.delete(key, db=databases.directory)


def _quarantine_page(txn: "Transaction", databases: Databases, damage: PageDamage, links: PageLinks) -> None:
    """Move a page into quarantine, or copy it; of a linked one, the page that it stands for."""
    key = PAGE_KEY.pack(damage.partition_id, damage.first_sequence)
    page = stored_page(txn, databases, key)
    whole = None if page is None else links.readable(page)
    entry = Quarantined(describe_page(damage.partition_id, damage.first_sequence), "damaged", damage.detail)
    if whole is not None:
        txn.put(key, whole, db=databases.pages)
    if set_aside(txn, databases, "pages", key, entry, stays=damage.stays) and not damage.stays:
        links.delete(txn.get(key, db=databases.directory))
        txn.delete(key, db=databases.directory)
    elif page is not None and whole is not None:
        txn.put(key, page, db=databases.pages)


def _purge(txn: "Transaction", databases: Databases, partition_id: int, links: PageLinks) -> None:
    # The keys come from the directory: a cursor over the pages would read every page from the disk to delete it.
    first, last = PAGE_KEY.pack(partition_id, 0), PAGE_KEY.pack(partition_id, SEQUENCE_MAX)
    for key in _delete_range(txn, databases.directory, first, last, links):
        txn.delete(key, db=databases.pages)
    txn.delete(PARTITION_KEY.pack(partition_id), db=databases.cursors)


def _delete_range(
    txn: "Transaction", database: "_Database", first: bytes, last: bytes, links: PageLinks
) -> list[bytes]:
    deleted: list[bytes] = []
    with txn.cursor(db=database) as cursor:
        found = cursor.set_range(first)
        while found and cursor.key() <= last:
            deleted.append(cursor.key())
            links.delete(cursor.value())
            cursor.delete()  # and the cursor stands on the next one
            found = cursor.key() != b""
    return deleted
