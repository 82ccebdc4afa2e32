"""Gives a copy of a data file the messages that its pages only link to: a copy has no log with kept files."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sluicegate.storage.catalog.copied_log import open_copy
from sluicegate.storage.environment.databases import Databases
from sluicegate.storage.records.linked_page import Link, is_linked, page_from_links
from sluicegate.storage.records.page import directory_row

if TYPE_CHECKING:
    import lmdb

_COMMIT_BYTES: Final = 32 << 20


def fill_linked_pages(copy: Path, fetch: Callable[[Link], bytes | None], *, log_bytes: int) -> None:
    """Write the ordinary page for each linked one; `log_bytes` is what the pages link to at most.

    `copy` is a data file that nobody else has open; the caller makes it durable. What is missing or damaged in the log
    is damaged in the page as well. Raises lmdb.Error, OSError, DamagedRecord, UnsupportedFormat.
    """
    env = open_copy(copy, 2 * log_bytes)
    try:
        databases = Databases(env)
        keys = _linked_keys(env, databases)
        while keys:
            with env.begin(write=True) as txn:
                room = _COMMIT_BYTES
                while keys and room > 0:
                    key = keys.pop()
                    page = txn.get(key, db=databases.pages)
                    if page is not None:
                        whole = page_from_links(page, fetch)
                        txn.put(key, whole, db=databases.pages)
                        txn.put(key, directory_row(whole), db=databases.directory)
                        room -= len(whole)
    finally:
        env.close()


def _linked_keys(env: "lmdb.Environment", databases: Databases) -> list[bytes]:
    with env.begin() as txn, txn.cursor(db=databases.directory) as cursor:
        return [key for key, row in cursor.iternext() if is_linked(row)]
