"""The row of a message VPN that operators created, and the jobs that delete everything of a message VPN.

The row is in the VPN's own part of the catalog. Its value is JSON: the settings, and `deleting` from the moment at
which the deletion is decided. This row is the last one that a deletion removes, so a start finds a deletion that was
interrupted, and finishes it.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import orjson

from sluicegate.messaging.message.vpn import DEFAULT_VPN, row_prefix
from sluicegate.storage.catalog.partition_owners import owned_partition
from sluicegate.storage.catalog.queues import QUEUE_ROW, staging_partition_id
from sluicegate.storage.catalog.recovered import StoredVpn
from sluicegate.storage.interface import CommitJob, Table, TableWrite

VPN_ROW: Final = b"message-vpn"
ROWS_PER_COMMIT: Final = 2000  # of a deletion: other actors have their turns between

_DELETING: Final = "deleting"


def vpn_row(name: str, settings: Mapping[str, object], *, deleting: bool = False) -> TableWrite:
    """Return the row of a message VPN, under its full key."""
    row = {**settings, _DELETING: True} if deleting else settings
    return TableWrite(Table.CATALOG, VPN_ROW, orjson.dumps(row)).under(row_prefix(name))


def stored_settings(catalog: Mapping[bytes, bytes]) -> dict[str, Any] | None:
    """Return the settings in the row of a message VPN, None if it has no row. Raises ValueError for a broken row."""
    row = _row(catalog)
    if row is not None:
        row.pop(_DELETING, None)
    return row


def is_being_deleted(catalog: Mapping[bytes, bytes]) -> bool:
    """Return whether the deletion of a message VPN was decided, and is not finished."""
    try:
        row = _row(catalog)
    except ValueError:
        return False  # it says nothing, so nothing is deleted
    return row is not None and row.get(_DELETING) is True


def rows_deleted(name: str, keys: Mapping[Table, Iterable[bytes]]) -> Iterator[list[TableWrite]]:
    """Yield the writes that delete rows of a message VPN, by their full keys; that of the VPN itself comes last."""
    own = vpn_row(name, {}).key
    writes: list[TableWrite] = []
    for table in Table:
        for key in keys.get(table, ()):
            if table is not Table.CATALOG or key != own:
                writes.append(TableWrite(table, key, None))
            if len(writes) == ROWS_PER_COMMIT:
                yield writes
                writes = []
    if writes:
        yield writes
    yield [TableWrite(Table.CATALOG, own, None)]


def deletion_jobs(name: str, stored: StoredVpn, first_number: int) -> Iterator[CommitJob]:
    """Yield the jobs that delete a message VPN with all its partitions. Each may follow a crash after any earlier one.

    They are numbered in turn: each takes the number that the log has for it. The partitions go first: it is their rows
    that name them.
    """
    tables = {
        Table.CATALOG: stored.catalog,
        Table.OWNERS: stored.owners,
        Table.RETAINED: stored.retained,
        Table.SESSIONS: stored.sessions,
        Table.READERS: stored.readers,
        Table.TRANSACTIONS: stored.transactions,
    }
    prefix = row_prefix(name)
    keys = {table: [prefix + key for key in rows] for table, rows in tables.items()}
    yield CommitJob(number=first_number, partition_purges=sorted(partitions_of(name, stored)), uses_reserve=True)
    for number, writes in enumerate(rows_deleted(name, keys), first_number + 1):
        yield CommitJob(number=number, table_writes=writes, uses_reserve=True)


def partitions_of(name: str, stored: StoredVpn) -> set[int]:
    """Return every partition that rows of a message VPN name."""
    assert name != DEFAULT_VPN, "it always exists"
    found = {owned_partition(key) for key in stored.owners}
    for key, value in stored.catalog.items():
        if key.startswith(QUEUE_ROW):
            try:
                found.update(orjson.loads(value)["partition_ids"])
            except (ValueError, KeyError, TypeError):
                continue  # of another release: the owners' rows name its partitions as well
    staging = staging_partition_id(name, stored.catalog)
    return found if staging is None else found | {staging}


def _row(catalog: Mapping[bytes, bytes]) -> dict[str, Any] | None:
    value = catalog.get(VPN_ROW)
    if value is None:
        return None
    row = orjson.loads(value)
    if not isinstance(row, dict):
        raise ValueError("it is no object")
    return row
