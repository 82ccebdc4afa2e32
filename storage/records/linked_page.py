"""A linked page: a page whose batches are in files of the log, and not written a second time.

    SGD             the directory row, as in every page (`page`)
    SGK, version 1  the links, integers little-endian, one row for each run, as five columns
        u64[] first sequences, u64[] segments of the log, u64[] offsets of the batches in these files,
        u32[] bytes and u64[] xxh3_64 of the batches

A link has the checksum of its batch, so damage in the log is found as in a page. `page_from_links` makes the ordinary
page of the same messages.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import xxhash

from sluicegate.storage.records.batch import column_bytes, take_column
from sluicegate.storage.records.batches import put_checked_batches
from sluicegate.storage.records.page import PAGE_FORMAT, PAGE_KIND, decode_page_summary, directory_row
from sluicegate.storage.records.seal import SEAL_BYTES, mismatched, seal, unseal_whole

LINKS_KIND: Final = b"SGK"
LINKS_FORMAT: Final = 1

_LINK_BYTES: Final = 36  # of a row of all columns

LINKED_BATCH_BYTES_MIN: Final = 4096  # smaller batches are written into pages: reading many small pieces costs more


class Link(NamedTuple):
    """A batch in a file of the log."""

    segment: int
    offset: int
    size: int
    checksum: int  # xxh3_64


class Links(NamedTuple):
    """The links of a page, checked, and the first sequence of the run that each is."""

    firsts: list[int]
    links: list[Link]


def is_worth_links(page: bytes, run_count: int) -> bool:
    """Return whether the batches of a page are large enough, on average, to be linked to."""
    return len(page) >= LINKED_BATCH_BYTES_MIN * run_count


def encode_linked_page(row: bytes, firsts: list[int], links: list[Link]) -> bytes:
    """Return a linked page: a directory row, and for each run its first sequence and its batch."""
    content = [
        column_bytes("Q", firsts),
        column_bytes("Q", [link.segment for link in links]),
        column_bytes("Q", [link.offset for link in links]),
        column_bytes("I", [link.size for link in links]),
        column_bytes("Q", [link.checksum for link in links]),
    ]
    return row + seal(LINKS_KIND, LINKS_FORMAT, b"".join(content))


def is_linked(page: bytes) -> bool:
    """Return whether a page is a linked one, whatever its checksums say. Ordinary pages and bare rows are not."""
    return _kind_of(page) == LINKS_KIND


def is_ordinary(page: bytes) -> bool:
    """Return whether a page has its batches itself, whatever its checksums say."""
    return _kind_of(page) == PAGE_KIND


def _kind_of(page: bytes) -> bytes:
    """Return the kind of what follows the directory row."""
    size = SEAL_BYTES + int.from_bytes(page[4:8], "little")
    return page[size : size + len(LINKS_KIND)]


def directory_value(page: bytes) -> bytes:
    """Return what the directory has of a page: its row, and its links if it has any."""
    return page if is_linked(page) else directory_row(page)


def links_of(page: bytes, where: str = "page") -> list[Link]:
    """Return the links of a linked page. Raises DamagedRecord and UnsupportedFormat."""
    return checked_links(page, where).links


def checked_links(page: bytes, where: str) -> Links:
    """Return what a linked page has. Raises DamagedRecord and UnsupportedFormat."""
    count = decode_page_summary(page, where).run_count
    data = page[len(directory_row(page, where)) :]
    unseal_whole(data, LINKS_KIND, LINKS_FORMAT, where)
    firsts = take_column("Q", data, SEAL_BYTES, count)
    at = SEAL_BYTES + 8 * count
    segments = take_column("Q", data, at, count)
    offsets = take_column("Q", data, at + 8 * count, count)
    sizes = take_column("I", data, at + 16 * count, count)
    checksums = take_column("Q", data, at + 20 * count, count)
    return Links(firsts, [Link(*link) for link in zip(segments, offsets, sizes, checksums, strict=True)])


def named_segments(page: bytes) -> list[int]:
    """Return the segments of the links of a page, and none of other pages, without a look at checksums."""
    if not is_linked(page):
        return []
    start = 2 * SEAL_BYTES + int.from_bytes(page[4:8], "little")
    count = max(0, len(page) - start) // _LINK_BYTES
    return take_column("Q", page, start + 8 * count, count)


def page_from_links(
    page: bytes, fetch: Callable[[Link], bytes | None], where: str = "page", checked: Links | None = None
) -> bytes:
    """Return the ordinary page of a linked one. Raises DamagedRecord and UnsupportedFormat for damaged links.

    `fetch` returns the bytes at a link, None when there are none. A batch that is damaged or missing is damaged in the
    page as well. `checked` are its links if they are known.
    """
    firsts, links = checked_links(page, where) if checked is None else checked
    batches: list[bytes] = []
    is_sound = True
    for link in links:
        batch = fetch(link)
        if batch is None or len(batch) != link.size:
            batch = bytes(link.size)
        is_sound = is_sound and xxhash.xxh3_64_intdigest(batch) == link.checksum
        batches.append(batch)
    content = put_checked_batches(column_bytes("Q", firsts), batches, [link.checksum for link in links])
    sealed = seal(PAGE_KIND, PAGE_FORMAT, b"".join(content))
    if not is_sound:  # a seal that does not match has the reader check each batch
        sealed = mismatched(sealed)
    return directory_row(page, where) + sealed
