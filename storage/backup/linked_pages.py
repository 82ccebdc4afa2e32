"""Gives a copy of a data file the messages that its pages only link to: a copy has no log with kept files."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sluicegate.storage.catalog.copied_log import open_copy
from sluicegate.storage.environment.databases import Databases
from sluicegate.storage.errors import DamagedRecord, UnsupportedFormat
from sluicegate.storage.log.links import linked_pages, stored_page
from sluicegate.storage.records.linked_page import Link, is_linked, page_from_links
from sluicegate.storage.records.page import directory_row

if TYPE_CHECKING:
    import lmdb

_COMMIT_BYTES: Final = 32 << 20
_PAGE_ROOM_BYTES: Final = 8192  # of the map, beside the messages of a page


def fill_linked_pages(copy: Path, fetch: Callable[[Link], bytes | None]) -> None:
    """Write the ordinary page for each linked one, and flush often: a large flush would delay other writers.

    `copy` is a data file that nobody else has open; the caller makes it durable. What is missing or damaged in the log
    is damaged in the page as well, and a page with damaged links stays as it is. Raises lmdb.Error, OSError, and what
    `fetch` raises.
    """
    env = open_copy(copy, 0)
    try:
        keys, room_bytes = _linked_keys(env, Databases(env))
    finally:
        env.close()
    if not keys:
        return
    env = open_copy(copy, 2 * room_bytes)
    try:
        databases = Databases(env)
        while keys:
            with env.begin(write=True) as txn:
                left = _COMMIT_BYTES
                while keys and left > 0:
                    left -= _fill(txn, databases, keys.pop(), fetch)
            env.sync(True)
    finally:
        env.close()


def _linked_keys(env: "lmdb.Environment", databases: Databases) -> tuple[list[bytes], int]:
    """Return the keys of linked pages, and the bytes that they take as ordinary ones.

    Messages of several queues are in the log once, and in a page of each.
    """
    keys: list[bytes] = []
    room_bytes = 0
    with env.begin() as txn:
        for key, links in linked_pages(txn, databases):
            keys.append(key)
            room_bytes += _PAGE_ROOM_BYTES + sum([link.size for link in links])
    return keys, room_bytes


def _fill(
    txn: "lmdb.Transaction[bytes]", databases: Databases, key: bytes, fetch: Callable[[Link], bytes | None]
) -> int:
    """Write the ordinary page in place of a linked one; return its bytes."""
    page = stored_page(txn, databases, key)
    if page is None or not is_linked(page):
        return 0
    with suppress(DamagedRecord, UnsupportedFormat):
        whole = page_from_links(page, fetch)
        txn.put(key, whole, db=databases.pages)
        txn.put(key, directory_row(whole), db=databases.directory)
        return len(whole)
    return 0
