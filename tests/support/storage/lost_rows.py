"""Rows of a stopped store, deleted or damaged as by a broken disk."""

from pathlib import Path

import lmdb

from sluicegate.messaging.message.vpn import DEFAULT_VPN, row_prefix
from sluicegate.storage.catalog.partition_owners import OWNER_ROW
from sluicegate.storage.catalog.queues import QUEUE_ROW
from sluicegate.storage.environment.databases import CATALOG_COPY, DATABASE_COUNT

CATALOGS = ("catalog", CATALOG_COPY)


def lose(folder: Path, key: bytes, *databases: str, torn: bool = False) -> None:
    """Take a row out of some sub-databases, or leave bytes there that no seal accepts."""
    with lmdb.open(str(folder), map_size=1 << 28, max_dbs=DATABASE_COUNT) as env, env.begin(write=True) as txn:
        for name in databases:
            database = env.open_db(name.encode(), txn=txn)
            assert txn.get(key, db=database) is not None, f"{key!r} is not in {name}"
            if torn:
                txn.put(key, b"torn", db=database)
            else:
                txn.delete(key, db=database)


def lose_definition(folder: Path, queue: str, *, vpn: str = DEFAULT_VPN, torn: bool = False) -> None:
    """Lose both copies of the definition of a queue."""
    lose(folder, row_prefix(vpn) + QUEUE_ROW + queue.encode(), *CATALOGS, torn=torn)


def lose_owners(folder: Path, *partition_ids: int, vpn: str = DEFAULT_VPN) -> None:
    """Delete the rows that assign some partitions to their queue."""
    for partition_id in partition_ids:
        lose(folder, row_prefix(vpn) + OWNER_ROW + b"%d" % partition_id, "owners")


def names_in(folder: Path, database: str) -> set[bytes]:
    """Return the keys of a sub-database."""
    with lmdb.open(str(folder), map_size=1 << 28, max_dbs=DATABASE_COUNT) as env:
        opened = env.open_db(database.encode())
        with env.begin() as txn, txn.cursor(db=opened) as cursor:
            return set(cursor.iternext(keys=True, values=False))
