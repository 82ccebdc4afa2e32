"""Reads what linked pages link to, in the folder of a log."""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, final

from sluicegate.storage.environment.databases import Databases
from sluicegate.storage.errors import DamagedRecord, UnsupportedFormat
from sluicegate.storage.log.kept import LinkedFiles, kept_path, read_linked
from sluicegate.storage.records.linked_page import (
    Link,
    Links,
    checked_links,
    is_linked,
    is_ordinary,
    links_of,
    page_from_links,
)
from sluicegate.storage.records.page import directory_row

if TYPE_CHECKING:
    import lmdb

    Transaction = lmdb.Transaction[bytes]


class StoredPage(NamedTuple):
    """A page as it is stored, and its links when it is a linked one and they are sound."""

    data: bytes | None  # None: there is no such page
    links: Links | None = None


NO_PAGE: Final = StoredPage(None)


def stored_page(txn: "Transaction", databases: Databases, key: bytes) -> bytes | None:
    """Return a page; one whose links are damaged from the directory, where the same links are. Raises lmdb.Error."""
    return page_and_links(txn, databases, key).data


def page_and_links(txn: "Transaction", databases: Databases, key: bytes, known: StoredPage = NO_PAGE) -> StoredPage:
    """Return a page as `stored_page` does, with its links: those that are `known` when it has not changed."""
    page = txn.get(key, db=databases.pages)
    if page is None or is_ordinary(page):
        return StoredPage(page)
    if links := _sound_links(page, known):
        return StoredPage(page, links)
    row = txn.get(key, db=databases.directory)
    if row is not None and (links := _sound_links(row, known)):
        return StoredPage(row, links)
    return StoredPage(page)


def fetch(folder: Path, link: Link) -> bytes | None:
    """Return the bytes at a link, None when its file is missing. Raises OSError."""
    return read_linked(folder, link.segment, link.offset, link.size)


def whole_page(read: Callable[[StoredPage], StoredPage], folder: Path, where: str) -> bytes | None:
    """Return a page that `read` returns, and of a linked one the ordinary page.

    A page may be deleted or rewritten meanwhile, and what it linked to used again: so it is read again at the end.
    `read` is passed what it returned before. Batches in a missing file are damaged in the page. Raises DamagedRecord
    and UnsupportedFormat for damaged links, and when all of the page is in missing files; OSError.
    """
    page = read(NO_PAGE)
    while page.data is not None and is_linked(page.data):
        with LinkedFiles(folder) as files:
            fetched = _Fetched(files)
            whole = page_from_links(page.data, fetched.fetch, where, page.links)
        page_now = read(page)
        if page_now.data == page.data:
            if fetched.missing and not fetched.found_count:
                name = kept_path(folder, fetched.missing[0].segment)
                raise DamagedRecord(where, f"its messages are in {name}, which does not exist")
            return whole
        page = page_now
    return page.data


@final
class _Fetched:
    """What the links of one page lead to."""

    def __init__(self, files: LinkedFiles) -> None:
        self.found_count = 0
        self.missing: list[Link] = []
        self._files = files

    def fetch(self, link: Link) -> bytes | None:
        """Return the bytes at a link, None when its file is missing. Raises OSError."""
        data = self._files.read(link.segment, link.offset, link.size)
        if data is None:
            self.missing.append(link)
        else:
            self.found_count += 1
        return data


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


def _sound_links(page: bytes, known: StoredPage) -> Links | None:
    """Return the links of a page; None when there are none, or damaged ones."""
    if page == known.data:
        return known.links
    with contextlib.suppress(DamagedRecord, UnsupportedFormat):
        if is_linked(page) and (links := checked_links(page, "page")).links:
            return links
    return None


def _no_links(page: bytes) -> list[Link]:
    """Return no links, for a page that is sound as far as it has a directory row. Raises DamagedRecord."""
    directory_row(page)
    return []
