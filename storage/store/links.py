"""Links in place of page content: large batches stay where the log has them.

A page that is written needs its batches a second time. For large ones that doubles what a disk writes, so the store
links to them (`storage.records.linked_page`), where it knows the place of their records: those that this process has
appended.
"""

import contextlib
import struct
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, final

from sluicegate.storage.errors import DamagedRecord, UnsupportedFormat
from sluicegate.storage.interface import PageKey, PageWrite
from sluicegate.storage.log.journal import RecordEnd
from sluicegate.storage.log.kept import read_linked
from sluicegate.storage.log.links import fetch
from sluicegate.storage.log.record import page_key_of
from sluicegate.storage.records.batches import BatchSpan
from sluicegate.storage.records.journal import batch_spans
from sluicegate.storage.records.linked_page import (
    LINKED_BATCH_BYTES_MIN,
    Link,
    encode_linked_page,
    is_linked,
    links_of,
    page_from_links,
)
from sluicegate.storage.records.page import directory_row, run_spans

_HEAD_BYTES: Final = 16 << 10  # of a journal record: more are read where these do not suffice


class _Place(NamedTuple):
    """Where a journal record is."""

    segment: int
    start: int
    size: int


@final
class RecordPlaces:
    """The places of the journal records that were appended and may be linked to. Two threads use it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._places: dict[int, _Place] = {}

    def appended(self, number: int, journal_bytes: int, end: RecordEnd) -> None:
        """Note a record whose last part is a journal record of so many bytes."""
        if journal_bytes >= LINKED_BATCH_BYTES_MIN:
            with self._lock:
                self._places[number] = _Place(end.segment, end.offset - journal_bytes, journal_bytes)

    def forget(self, before: int) -> None:
        """Forget the records below a number: every message of them is in a page, or settled."""
        with self._lock:
            for number in [each for each in self._places if each < before]:
                del self._places[number]

    def link_pages(self, writes: list[PageWrite], records_of: dict[PageKey, list[int]]) -> dict[PageKey, bytes]:
        """Return linked pages in place of those that can be."""
        batches: dict[int, dict[tuple[int, int], Link]] = {}  # record -> bytes and checksum -> where
        linked: dict[PageKey, bytes] = {}
        for write in writes:
            key = page_key_of(write)
            records = records_of.get(key)
            if records is None:
                continue
            firsts, spans = run_spans(write.page)
            links: list[Link] = []
            for number, span in zip(records, spans, strict=True):
                if number not in batches:
                    batches[number] = self._batches_of(number)
                link = batches[number].get((span.size, span.checksum))
                if link is None:
                    break
                links.append(link)
            else:
                linked[key] = encode_linked_page(directory_row(write.page), firsts, links)
        return linked

    def _batches_of(self, number: int) -> dict[tuple[int, int], Link]:
        """Return the batches of a record by bytes and checksum; none when its place is unknown, or cannot be read."""
        with self._lock:
            place = self._places.get(number)
        if place is None:
            return {}
        try:
            spans = self._spans(place)
        except (OSError, DamagedRecord, ValueError, IndexError, struct.error):
            return {}  # the messages are in memory: the page gets them
        return {
            (span.size, span.checksum): Link(place.segment, place.start + span.start, span.size, span.checksum)
            for span in spans
        }

    def _spans(self, place: _Place) -> list[BatchSpan]:
        head = read_linked(self._folder, place.segment, place.start, min(_HEAD_BYTES, place.size))
        try:
            return batch_spans(head or b"")
        except (DamagedRecord, ValueError, IndexError, struct.error):  # its head is longer
            whole = read_linked(self._folder, place.segment, place.start, place.size)
            return batch_spans(whole or b"")


@final
class PageLinks:
    """The links of one transaction: the pages that it writes as links, and what changes of the linked bytes."""

    def __init__(self, folder: Path, pages: dict[PageKey, bytes]) -> None:
        self.pages = pages  # linked pages, in place of those to write
        self.changes: dict[int, int] = {}  # segment -> change of its linked bytes
        self._folder = folder

    def put(self, page: bytes) -> None:
        """Note a page that is stored."""
        if is_linked(page):
            self._add(page, 1)

    def delete(self, row: bytes | None) -> None:
        """Note what the directory has of a page that is deleted. A damaged row counts until the next start."""
        if row is not None and is_linked(row):
            with contextlib.suppress(DamagedRecord, UnsupportedFormat):
                self._add(row, -1)

    def whole(self, page: bytes) -> bytes | None:
        """Return the ordinary page of a linked one; None for other pages, and damaged links. Raises OSError."""
        return self._from_links(page, partial(fetch, self._folder))

    def readable(self, page: bytes) -> bytes | None:
        """Return the same, with damage in place of batches that cannot be read."""

        def fetched(link: Link) -> bytes | None:
            with contextlib.suppress(OSError):
                return fetch(self._folder, link)
            return None

        return self._from_links(page, fetched)

    def _from_links(self, page: bytes, fetched: Callable[[Link], bytes | None]) -> bytes | None:
        if is_linked(page):
            with contextlib.suppress(DamagedRecord, UnsupportedFormat):
                return page_from_links(page, fetched)
        return None

    def _add(self, page: bytes, sign: int) -> None:
        for link in links_of(page):
            self.changes[link.segment] = self.changes.get(link.segment, 0) + sign * link.size
