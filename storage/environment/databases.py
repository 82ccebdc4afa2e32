"""The sub-databases of a spool's LMDB environment: their names, keys and sizes.

    journal     u64 record number           sealed journal record
    pages       u32 partition, u64 first    page: directory row, then runs
    directory   the same keys               a copy of each page's directory row
    cursors     u32 partition               sealed cursor
    catalog, owners, retained, sessions, readers, transactions
                                            sealed table rows, see `records.table`
    catalog_copy                            a second copy of the rows of the catalog: without its definition, the
                                            messages of a queue are unreachable
    quarantine  u64 number                  see `quarantine`
    meta        "store", "clean"            the sealed identity of the store; the mark of a clean shutdown

Integers in keys are big-endian, so keys sort as the numbers do. The directory is separate from the pages because a
cursor of py-lmdb touches every 4 KiB of each value it passes, even when it reads only keys: walking 2000 pages of 32 KB
made 64 MB resident. The directory of 4000 pages is a few hundred KiB.
"""

import struct
from typing import TYPE_CHECKING, Final, final

import lmdb

from sluicegate.storage.errors import DamagedRecord
from sluicegate.storage.interface import Table

if TYPE_CHECKING:
    from lmdb import _Database

RECORD_KEY: Final = struct.Struct(">Q")
PAGE_KEY: Final = struct.Struct(">IQ")
PARTITION_KEY: Final = struct.Struct(">I")

CATALOG_COPY: Final = "catalog_copy"

SEQUENCE_MAX: Final = 0xFFFF_FFFF_FFFF_FFFF


def key_numbers(form: struct.Struct, key: bytes) -> tuple[int, ...]:
    """Return the numbers in a key. Raises DamagedRecord for another size: a truncated file reads as zeros there."""
    if len(key) != form.size:
        raise DamagedRecord("data.mdb", f"a key in it has {len(key)} bytes in place of {form.size}: restore a backup")
    return form.unpack(key)


@final
class Databases:
    """The open sub-databases of one environment. They are created in a new environment."""

    def __init__(self, env: lmdb.Environment) -> None:
        self.journal = env.open_db(b"journal")
        self.pages = env.open_db(b"pages")
        self.directory = env.open_db(b"directory")
        self.cursors = env.open_db(b"cursors")
        self.tables = _tables(env)
        self.catalog_copy = _opened_if_there(env, CATALOG_COPY)
        self.quarantine = env.open_db(b"quarantine")
        self.meta = env.open_db(b"meta")

    def named(self) -> "dict[str, _Database]":
        """Return every sub-database by its name."""
        named = {
            "journal": self.journal,
            "pages": self.pages,
            "directory": self.directory,
            "cursors": self.cursors,
            **{table.value: database for table, database in self.tables.items()},
            "quarantine": self.quarantine,
            "meta": self.meta,
        }
        if self.catalog_copy is not None:
            named[CATALOG_COPY] = self.catalog_copy
        return named


def _tables(env: lmdb.Environment) -> "dict[Table, _Database]":
    """Open the tables. A read-only environment of an earlier release may have no table of owners."""
    tables: dict[Table, _Database] = {}
    for table in Table:
        opened = _opened_if_there(env, table.value) if table is Table.OWNERS else env.open_db(table.value.encode())
        if opened is not None:
            tables[table] = opened
    return tables


def _opened_if_there(env: lmdb.Environment, name: str) -> "_Database | None":
    """Open a sub-database; None when it is missing in a read-only environment of an earlier release."""
    try:
        return env.open_db(name.encode())
    except (lmdb.ReadonlyError, lmdb.NotFoundError):
        return None


DATABASE_COUNT: Final = 7 + len(Table)
