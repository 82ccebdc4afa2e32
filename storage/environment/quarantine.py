"""The quarantine: unreadable records are kept here, apart from the readable ones.

The key of an item is a number, counted up from 1. An item is sealed (`records.seal`) as kind SGQ, version 1. Content,
in the fields of `records.fields`: text where, text reason, text detail, text source (the sub-database, or `log`), bytes
key, then the record's own bytes to the end.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, cast

import lmdb

from sluicegate.storage.environment.databases import RECORD_KEY, Databases, key_numbers
from sluicegate.storage.errors import DamagedRecord
from sluicegate.storage.interface import Quarantined, QuarantinedBytes, QuarantineReason
from sluicegate.storage.records.fields import put_bytes, put_text, take_bytes, take_text
from sluicegate.storage.records.seal import SEAL_BYTES, seal, unseal_whole

if TYPE_CHECKING:
    Transaction = lmdb.Transaction[bytes]

QUARANTINE_KIND: Final = b"SGQ"
QUARANTINE_FORMAT: Final = 1


def describe_page(partition_id: int, first_sequence: int) -> str:
    """Return the name of a page in reports."""
    return f"page of partition {partition_id} from sequence {first_sequence}"


def set_aside(
    txn: "Transaction", databases: Databases, source: str, key: bytes, entry: Quarantined, *, stays: bool = False
) -> bool:
    """Move a record out of its sub-database, or with `stays` copy it, once. Return False when it is gone.

    A record that stays is found again by later reads.
    """
    database = databases.named()[source]
    data = txn.get(key, db=database)
    if data is None:
        return False
    keep_bytes(txn, databases, QuarantinedBytes(0, entry, source, key, data), once=stays)
    if not stays:
        txn.delete(key, db=database)
    return True


def keep_bytes(txn: "Transaction", databases: Databases, item: QuarantinedBytes, *, once: bool) -> None:
    """Add an item under the next number; with `once`, only when no item has the same bytes of the same place."""
    if once and is_kept(txn, databases, item):
        return
    out: list[bytes] = []
    for text in (item.entry.where, item.entry.reason, item.entry.detail, item.source):
        put_text(out, text)
    put_bytes(out, item.key)
    out.append(item.data)
    with txn.cursor(db=databases.quarantine) as cursor:
        number = key_numbers(RECORD_KEY, cursor.key())[0] + 1 if cursor.last() else 1
    txn.put(RECORD_KEY.pack(number), seal(QUARANTINE_KIND, QUARANTINE_FORMAT, b"".join(out)), db=databases.quarantine)


def is_kept(txn: "Transaction", databases: Databases, item: QuarantinedBytes) -> bool:
    """Return whether the quarantine has the bytes of an item, from the same place."""
    with txn.cursor(db=databases.quarantine) as cursor:
        for number, value in cursor.iternext():
            try:
                kept = _decode(key_numbers(RECORD_KEY, number)[0], value)
            except DamagedRecord:
                continue
            if (kept.source, kept.key, kept.data) == (item.source, item.key, item.data):
                return True
    return False


def browse(txn: "Transaction", databases: Databases, limit: int) -> Iterator[QuarantinedBytes]:
    """Yield at most the first `limit` items. Raises DamagedRecord for an item that is itself damaged."""
    with txn.cursor(db=databases.quarantine) as cursor:
        found = cursor.first()
        while found and limit > 0:
            yield _decode(key_numbers(RECORD_KEY, cursor.key())[0], cursor.value())
            limit -= 1
            found = cursor.next()


def _decode(number: int, data: bytes) -> QuarantinedBytes:
    unseal_whole(data, QUARANTINE_KIND, QUARANTINE_FORMAT, f"quarantined item {number}")
    where, offset = take_text(data, SEAL_BYTES)
    reason, offset = take_text(data, offset)
    detail, offset = take_text(data, offset)
    source, offset = take_text(data, offset)
    key, offset = take_bytes(data, offset)
    entry = Quarantined(where, cast(QuarantineReason, reason), detail)
    return QuarantinedBytes(number, entry, source, key, data[offset:])
