"""Reads what linked pages link to, in the folder of a log."""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sluicegate.storage.environment.databases import Databases
from sluicegate.storage.errors import DamagedRecord, UnsupportedFormat
from sluicegate.storage.log.kept import kept_path, read_linked
from sluicegate.storage.records.linked_page import Link, is_linked, is_ordinary, links_of, page_from_links
from sluicegate.storage.records.page import directory_row

if TYPE_CHECKING:
    import lmdb

    Transaction = lmdb.Transaction[bytes]


def stored_page(txn: "Transaction", databases: Databases, key: bytes) -> bytes | None:
    """Return a page; one whose links are damaged from the directory, where the same links are. Raises lmdb.Error."""
    page = txn.get(key, db=databases.pages)
    if page is None or is_ordinary(page) or _has_sound_links(page):
        return page
    row = txn.get(key, db=databases.directory)
    return row if row is not None and _has_sound_links(row) else page


def fetch(folder: Path, link: Link) -> bytes | None:
    """Return the bytes at a link, None when its file is missing. Raises OSError."""
    return read_linked(folder, link.segment, link.offset, link.size)


def whole_page(read: Callable[[], bytes | None], folder: Path, where: str) -> bytes | None:
    """Return a page that `read` returns, and of a linked one the ordinary page.

    A page may be deleted or rewritten meanwhile, and what it linked to used again: so it is read again at the end.
    Batches in a missing file are damaged in it. Raises DamagedRecord and UnsupportedFormat for damaged links, and when
    all of the page is in missing files; OSError.
    """
    page = read()
    while page is not None and is_linked(page):
        missing: list[Link] = []

        def fetched(link: Link, missing: list[Link] = missing) -> bytes | None:
            data = fetch(folder, link)
            if data is None:
                missing.append(link)
            return data

        whole = page_from_links(page, fetched, where)
        page_now = read()
        if page_now == page:
            if missing and len(missing) == len(links_of(page, where)):
                name = kept_path(folder, missing[0].segment)
                raise DamagedRecord(where, f"its messages are in {name}, which does not exist")
            return whole
        page = page_now
    return page


def linked_pages(txn: "Transaction", databases: Databases) -> Iterator[tuple[bytes, list[Link]]]:
    """Yield the key and the links of each linked page. Raises lmdb.Error."""
    with txn.cursor(db=databases.directory) as cursor:
        for key, row in cursor.iternext():
            if links := _links_in(row, partial(txn.get, key, db=databases.pages)):
                yield key, links


def _links_in(row: bytes, read_page: Callable[[], bytes | None]) -> list[Link]:
    """Return the links of a page from what the directory has of it, or from the page when that is damaged."""
    for read in (lambda: row, read_page):
        with contextlib.suppress(DamagedRecord, UnsupportedFormat):
            page = read()
            if page is None:
                return []
            return links_of(page) if is_linked(page) else _no_links(page)
    return []


def _has_sound_links(page: bytes) -> bool:
    try:
        return is_linked(page) and links_of(page) != []
    except (DamagedRecord, UnsupportedFormat):
        return False


def _no_links(page: bytes) -> list[Link]:
    """Return no links, for a page that is sound as far as it has a directory row. Raises DamagedRecord."""
    directory_row(page)
    return []
