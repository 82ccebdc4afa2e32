"""The pages of an LMDB data file, read without LMDB: for a file that LMDB itself may not survive.

LMDB maps the file and trusts it. A damaged page makes it read through wild pointers, abort on an assertion, or hand out
garbage. This module reads pages with `pread`, and checks every offset against the page and the file before it follows
the offset. So damaged bytes lead to a finding, and never to a signal, an endless loop, or an allocation larger than the
file. See also: the check of the trees (`walk`), recovery from broken trees (`salvage`).

The format is that of LMDB 0.9, data version 1, little-endian, 64 bits (mdb.c, "Page Headers" and on):

    page header     u64 own number, u16 pad, u16 flags, then u16 lower and u16 upper,
                    or, in the first of the pages of a large value, u32 how many there are
    branch, leaf    u16 offsets of nodes up to `lower`, ascending by key; the nodes lie from `upper` to the end
    branch node     48 bits page number, u16 key size, key
    leaf node       u32 value size, u16 flags, u16 key size, key, value (or, flag BIG, u64 number of its first page)
    meta page       (pages 0 and 1, written in turn) magic, version, the roots of two trees, last page, transaction
"""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self, final

from sluicegate.storage.errors import StoreFailed

BRANCH: Final = 0x01
LEAF: Final = 0x02
OVERFLOW: Final = 0x04
META: Final = 0x08

BIG: Final = 0x01  # of a node: its value has pages of its own
TREE: Final = 0x02  # of a node: its value is the root of a tree, and its key is that tree's name

NO_PAGE: Final = 0xFFFF_FFFF_FFFF_FFFF  # the root of an empty tree
DEPTH_MAX: Final = 32  # LMDB's own bound: CURSOR_STACK

HEADER_BYTES: Final = 16
NODE_BYTES: Final = 8
META_PAGES: Final = 2

_PAGE_SIZES: Final = (4096, 8192, 16384, 32768, 65536)  # LMDB takes that of the system
_MAGIC: Final = 0xBEEF_C0DE
_DATA_VERSION: Final = 1

_HEADER: Final = struct.Struct("<QHHHH")
_OVERFLOW_HEADER: Final = struct.Struct("<QHHI")
_NODE: Final = struct.Struct("<HHHH")
_NUMBER: Final = struct.Struct("<Q")
_TREE: Final = struct.Struct("<IHHQQQQQ")
_META_HEAD: Final = struct.Struct("<IIQQ")
_META_TAIL: Final = struct.Struct("<QQ")


class TreeRoot(NamedTuple):
    """The description of a tree in a meta page, or in a node of the tree of names."""

    depth: int
    branch_pages: int
    leaf_pages: int
    overflow_pages: int
    entries: int
    root: int  # a page, or NO_PAGE


class Snapshot(NamedTuple):
    """The state of the file after one commit. The two latest are kept, and LMDB starts from the later one."""

    transaction: int
    last_page: int
    free: TreeRoot  # which pages are free, by the transaction that freed them
    names: TreeRoot  # the roots of the named trees


class Node(NamedTuple):
    """An entry of a branch or leaf page, whose bounds were checked."""

    key: bytes
    flags: int
    size: int  # of the value, in a leaf
    value_offset: int  # within the page, of a leaf's value; behind the key
    child: int  # of a branch node: the page below


class NotSound(Exception):
    """A page differs from what LMDB would have written there; the text gives the reason."""


@final
class DataFile:
    """A data file opened for reading. Close it, or use it in a `with` statement."""

    def __init__(self, path: Path) -> None:
        """Open the file. Raises OSError, and StoreFailed when neither of its two meta pages can be read."""
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.file_bytes = os.fstat(self._descriptor).st_size
            self.page_bytes, self.snapshots, self.meta_problems = self._read_metas()
        except BaseException:
            self.close()
            raise

    def read(self, offset: int, size: int) -> bytes:
        """Return `size` bytes, fewer at the end of the file. Raises OSError."""
        size = max(0, min(size, self.file_bytes - offset))
        return os.pread(self._descriptor, size, offset) if size else b""

    def page(self, number: int) -> bytes:
        """Return a page. Raises NotSound for a page behind the end of the file, or one that the disk cannot read."""
        try:
            data = self.read(number * self.page_bytes, self.page_bytes)
        except OSError as error:
            raise NotSound(f"it cannot be read: {error.strerror}") from None
        if len(data) < self.page_bytes:
            raise NotSound(f"it lies behind the end of the file, which has {self.file_bytes} bytes")
        return data

    def value(self, page: bytes, node: Node) -> bytes:
        """Return the value of a leaf's node, or its existing part. Raises OSError."""
        if not node.flags & BIG:
            return page[node.value_offset : node.value_offset + node.size]
        return self.read(big_page(page, node) * self.page_bytes + HEADER_BYTES, node.size)

    def pages_of(self, size: int) -> int:
        """Return the number of pages of a large value of this size."""
        return (HEADER_BYTES - 1 + size) // self.page_bytes + 1

    def check_big(self, page: bytes, node: Node) -> range:
        """Return the pages of a large value. Raises NotSound when its first one is not such a page.

        They may be more than the value needs: one that is written again in the same transaction keeps its pages.
        """
        first, needed = big_page(page, node), self.pages_of(node.size)
        try:
            head = self.read(first * self.page_bytes, HEADER_BYTES)
        except OSError as error:
            raise NotSound(f"page {first} of a large value cannot be read: {error.strerror}") from None
        if len(head) < HEADER_BYTES or (first + needed) * self.page_bytes > self.file_bytes:
            raise NotSound(f"a value of {node.size} bytes, from page {first} on, ends behind the end of the file")
        own, _, flags, count = _OVERFLOW_HEADER.unpack(head)
        if own != first or flags != OVERFLOW or count < needed or (first + count) * self.page_bytes > self.file_bytes:
            text = f"page {first} is not the first of {needed} of a large value: it says {own}, {flags:#x}, {count}"
            raise NotSound(text)
        return range(first, first + count)

    def close(self) -> None:
        """Release the file. May be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read_metas(self) -> tuple[int, list[Snapshot], list[str]]:
        """Return the page size, the snapshots of the readable meta pages, latest first, and the problems of the others.

        The first meta page gives the offset of the second; without it, the method searches for the second.
        """
        for page_bytes in _PAGE_SIZES:
            snapshots: list[Snapshot] = []
            problems: list[str] = []
            for number in range(META_PAGES):
                try:
                    snapshots.append(_snapshot(self.read(number * page_bytes, page_bytes), number, page_bytes))
                except NotSound as problem:
                    problems.append(f"meta page {number}: {problem}")
            if snapshots:
                return page_bytes, sorted(snapshots, key=lambda each: -each.transaction), problems
        raise StoreFailed(f"{self.path} is no database of LMDB, or both of its first pages are destroyed")


def check_header(page: bytes, number: int) -> int:
    """Return the kind of the page, BRANCH or LEAF. Raises NotSound for another kind, or a misplaced page."""
    own, _, flags, lower, upper = _HEADER.unpack_from(page)
    if own != number:
        raise NotSound(f"it says that it is page {own}")
    if flags not in (BRANCH, LEAF):
        raise NotSound(f"it is neither a branch nor a leaf: its flags are {flags:#x}")
    if not HEADER_BYTES <= lower <= upper <= len(page) or lower % 2:
        raise NotSound(f"its free space is said to go from {lower} to {upper}")
    return int(flags)


def overflow_pages(page: bytes, number: int) -> int:
    """Return the number of pages of the large value that begins here, 0 when none does."""
    own, _, flags, count = _OVERFLOW_HEADER.unpack_from(page)
    return int(count) if own == number and flags == OVERFLOW else 0


def nodes(page: bytes, kind: int) -> list[Node]:
    """Return the nodes of a page of a checked header. Raises NotSound unless they fill it as LMDB fills pages."""
    _, _, _, lower, upper = _HEADER.unpack_from(page)
    found: list[Node] = []
    filled = 0
    for index in range((lower - HEADER_BYTES) // 2):
        node = node_at(page, kind, index)
        if node is None:
            raise NotSound(f"its entry {index} reaches out of the page")
        found.append(node)
        used = NODE_BYTES + len(node.key)
        if kind == LEAF:
            used += _NUMBER.size if node.flags & BIG else node.size
        filled += used + used % 2
    if filled != len(page) - upper:
        raise NotSound(f"its {len(found)} entries have {filled} bytes where {len(page) - upper} are in use")
    return found


def node_at(page: bytes, kind: int, index: int) -> Node | None:
    """Return an entry of a page, whose header need not be sound; None when it reaches out of the page."""
    slot = HEADER_BYTES + 2 * index
    if slot + 2 > len(page):
        return None
    offset = page[slot] | page[slot + 1] << 8
    if offset < HEADER_BYTES or offset + NODE_BYTES > len(page):
        return None
    low, high, flags, key_bytes = _NODE.unpack_from(page, offset)
    start = offset + NODE_BYTES
    end = start + key_bytes
    if end > len(page):
        return None
    key = page[start:end]
    if kind == BRANCH:
        return Node(key, 0, 0, end, low | high << 16 | flags << 32)
    size = low | high << 16
    if end + (_NUMBER.size if flags & BIG else size) > len(page):
        return None
    return Node(key, flags, size, end, NO_PAGE)


def readable_nodes(page: bytes) -> Iterator[Node]:
    """Yield all apparent leaf entries of a page, also below a damaged header. Callers check seals."""
    for index in range((len(page) - HEADER_BYTES) // (2 + NODE_BYTES)):
        node = node_at(page, LEAF, index)
        if node is not None:
            yield node


def big_page(page: bytes, node: Node) -> int:
    """Return the first page of a large value."""
    return int(_NUMBER.unpack_from(page, node.value_offset)[0])


def tree_root(data: bytes) -> TreeRoot | None:
    """Return the root in the value of a node of the tree of names, None when the value is no root."""
    if len(data) != _TREE.size:
        return None
    _, _, depth, branches, leaves, overflows, entries, root = _TREE.unpack(data)
    return TreeRoot(depth, branches, leaves, overflows, entries, root)


def _snapshot(page: bytes, number: int, page_bytes: int) -> Snapshot:
    if len(page) < page_bytes:
        raise NotSound("it is not there")
    own, _, flags, _, _ = _HEADER.unpack_from(page)
    if own != number or flags != META:
        raise NotSound(f"it says that it is page {own}, with flags {flags:#x}")
    magic, version, _, _ = _META_HEAD.unpack_from(page, HEADER_BYTES)
    if magic != _MAGIC or version != _DATA_VERSION:
        raise NotSound(f"it begins with {magic:#x} and version {version}")
    trees = HEADER_BYTES + _META_HEAD.size
    said_page_bytes = int(_TREE.unpack_from(page, trees)[0])
    if said_page_bytes != page_bytes:
        raise NotSound(f"it says that pages have {said_page_bytes} bytes")
    free = tree_root(page[trees : trees + _TREE.size])
    names = tree_root(page[trees + _TREE.size : trees + 2 * _TREE.size])
    assert free is not None
    assert names is not None
    last_page, transaction = _META_TAIL.unpack_from(page, trees + 2 * _TREE.size)
    return Snapshot(transaction, last_page, free, names)
