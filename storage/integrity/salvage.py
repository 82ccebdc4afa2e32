"""Recovers the readable rows of a damaged spool for a new spool. The damaged one is only read, and without LMDB.

The sources of a row, in this order; the first source that has the row counts:

1. the sound leaves of the latest snapshot;
2. the readable entries of damaged pages: a flipped bit usually costs one entry, or none;
3. the previous snapshot, which LMDB keeps whole until the next commit: it has the former state of a page that the last
   commit wrote;
4. pages that are in no tree and not in the free list. LMDB accounts for each page, so these hung below a broken branch.
   The seals of their records identify their table.

From 2 on, a row must have one of the lost keys, and its seal must match. Where the free list is broken, a page of 4 may
be a freed one: then only journal records and pages are taken from it. They are never rewritten, so an old copy has the
same content; at worst a settled message is delivered again.

See also: the pages themselves (storage.integrity.pages), the damage (storage.integrity.walk), the texts for operators
(gateway.process.salvage).
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple, final

from sluicegate.storage.catalog.copied_log import COPIED_FORMAT, COPIED_KIND
from sluicegate.storage.catalog.partition_owners import owned_partition
from sluicegate.storage.environment.databases import CATALOG_COPY, PAGE_KEY, PARTITION_KEY, RECORD_KEY
from sluicegate.storage.environment.identity import (
    IDENTITY_KEY,
    LOG_KEY,
    POSITIONS_FORMAT,
    POSITIONS_KIND,
    STORE_FORMAT,
    STORE_FORMAT_OLDEST,
    STORE_KIND,
)
from sluicegate.storage.environment.quarantine import QUARANTINE_FORMAT, QUARANTINE_KIND
from sluicegate.storage.errors import DamagedRecord, UnsupportedFormat
from sluicegate.storage.integrity.pages import (
    LEAF,
    DataFile,
    Node,
    NotSound,
    check_header,
    nodes,
    overflow_pages,
    readable_nodes,
)
from sluicegate.storage.integrity.walk import FREE_LIST, NAMES, TreeDamage, TreeWalk, WalkedTree, readable_roots
from sluicegate.storage.interface import Table
from sluicegate.storage.records.cursor import decode_cursor
from sluicegate.storage.records.journal import JOURNAL_KIND, decode_journal_record
from sluicegate.storage.records.linked_page import is_linked, links_of
from sluicegate.storage.records.page import decode_page, decode_page_summary, directory_row
from sluicegate.storage.records.seal import unseal_whole
from sluicegate.storage.records.table import decode_row, stored_key

NEVER_REWRITTEN: Final = frozenset({"journal", "pages", "directory"})
TABLES: Final = frozenset(
    {*NEVER_REWRITTEN, "cursors", CATALOG_COPY, "quarantine", "meta", *[table.value for table in Table]}
)


class Place(NamedTuple):
    """The place of a row's value."""

    page: int
    node: Node


@dataclass
class FoundTable:
    """The recoverable rows of one table."""

    places: dict[bytes, Place] = field(default_factory=dict)
    wanted: int | None = None  # the number of rows; None: unknown
    damages: list[TreeDamage] = field(default_factory=list)
    is_rootless: bool = False  # its root is lost

    def lacks(self, key: bytes) -> bool:
        """Return whether the key is not found yet, and belongs to a broken part of the tree."""
        if key in self.places:
            return False
        return self.is_rootless or any(
            each.first <= key and (each.end is None or key < each.end) for each in self.damages
        )


@final
class Findings:
    """The rows of a damaged data file. `looked` is called for each page that is searched."""

    def __init__(self, file: DataFile, looked: Callable[[], None]) -> None:
        """Search for all rows. Raises OSError when the file cannot be read."""
        self.file = file
        self._looked = looked
        self.walk = TreeWalk(file, file.snapshots[0])
        self.walk.run()
        self.tables = {name: FoundTable() for name in TABLES}
        self.unclaimed = 0  # rows that may belong to several tables
        self._take_roots()
        self._take_reachable()
        self._take_unsound(self.walk)
        for snapshot in file.snapshots[1:]:
            before = TreeWalk(file, snapshot)
            before.run()
            self._take_former(before)
        if any(table.damages or table.is_rootless for table in self.tables.values()):
            self._take_orphans()

    def value(self, place: Place) -> bytes | None:
        """Return the readable part of a row's value, None when there is none."""
        try:
            return self.file.value(self.file.page(place.page), place.node)
        except (NotSound, OSError):
            return None

    def _take_roots(self) -> None:
        """Walk the trees whose roots are readable though the page that has them is not sound."""
        for damage in list(self.walk.trees[NAMES].damages):
            with suppress(NotSound):
                for name, root in readable_roots(self.file, damage.page).items():
                    if name in self.tables and name not in self.walk.trees:
                        self.walk.walk_tree(name, root)

    def _take_reachable(self) -> None:
        for name, table in self.tables.items():
            tree = self.walk.trees.get(name)
            if tree is None:
                table.is_rootless = bool(self.walk.trees[NAMES].damages)
                table.wanted = None if table.is_rootless else 0  # a release wrote it that did not have that table
                continue
            table.wanted = tree.root.entries
            table.damages = list(tree.damages)
            self._take_leaves(tree, table.places)

    def _take_leaves(self, tree: WalkedTree, places: dict[bytes, Place]) -> None:
        for number in tree.leaves:
            self._looked()
            for node in nodes(self.file.page(number), LEAF):
                places.setdefault(node.key, Place(number, node))

    def _take_unsound(self, walk: TreeWalk) -> None:
        for name, table in self.tables.items():
            tree = walk.trees.get(name)
            if tree is not None and (table.damages or table.is_rootless):
                for damage in tree.damages:
                    self._take_page(damage.page, partial(_named_if_it_fits, name))

    def _take_former(self, before: TreeWalk) -> None:
        """Take the lost rows from the previous snapshot. A table whose root is lost uses its former root."""
        for name, table in self.tables.items():
            tree = before.trees.get(name)
            if tree is None or not (table.damages or table.is_rootless):
                continue
            former: dict[bytes, Place] = {}
            self._take_leaves(tree, former)
            for key, place in former.items():
                if table.lacks(key) and fits(name, key, self.value(place) or b""):
                    table.places[key] = place
            if table.is_rootless:
                table.wanted, table.damages, table.is_rootless = tree.root.entries, list(tree.damages), False
        self._take_unsound(before)

    def _take_orphans(self) -> None:
        used, freed = self.walk.used, self.walk.freed
        is_sure = not any(each.table == FREE_LIST for each in self.walk.damages)
        number = 0
        while (number := used.find(0, number)) >= 0:
            ahead = 1
            if not freed[number]:
                with suppress(NotSound):
                    page = self.file.page(number)
                    ahead = max(1, overflow_pages(page, number))
                    if ahead == 1 and check_header(page, number) == LEAF:
                        self._take_page(number, partial(self._claimant, is_sure))
            number += ahead

    def _claimant(self, is_sure: bool, key: bytes, value: bytes) -> str | None:
        """Return the table that lacks a row. If the page may be a freed one, only some tables may claim the row.

        Pages and their directory have the same links, and one is made from the other.
        """
        claimants = [name for name, table in self.tables.items() if table.lacks(key) and fits(name, key, value)]
        if not is_sure:
            claimants = [name for name in claimants if name in NEVER_REWRITTEN]
        if sorted(claimants) == ["directory", "pages"]:
            return "pages"
        if len(claimants) > 1:
            self.unclaimed += 1
        return claimants[0] if len(claimants) == 1 else None

    def _take_page(self, number: int, table_of: Callable[[bytes, bytes], str | None]) -> None:
        """Take the readable rows of a page for the tables that lack them."""
        self._looked()
        try:
            page = self.file.page(number)
        except NotSound:
            return
        for node in readable_nodes(page):
            try:
                value = self.file.value(page, node)
            except OSError:
                continue
            name = table_of(node.key, value)
            if name is not None and self.tables[name].lacks(node.key):
                self.tables[name].places[node.key] = Place(number, node)

    def rows(self, name: str) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows of a table with matching seals, by key."""
        for key, place in sorted(self.tables[name].places.items()):
            value = self.value(place)
            if value is not None and fits(name, key, value):
                yield key, value


def _named_if_it_fits(name: str, key: bytes, value: bytes) -> str | None:
    return name if fits(name, key, value) else None


def fits(name: str, key: bytes, value: bytes) -> bool:
    """Return whether a row may be in a table: its seal matches, has that table's kind, and belongs to the key.

    A row of another release's format may be: opening the spool reports it.
    """
    try:
        return _FITS.get(name, _is_row)(key, value)
    except UnsupportedFormat:
        return True
    except (DamagedRecord, IndexError, ValueError):
        return False


def _is_record(key: bytes, value: bytes) -> bool:
    if value.startswith(JOURNAL_KIND):
        decode_journal_record(value)
    else:
        unseal_whole(value, COPIED_KIND, COPIED_FORMAT, "")
    return len(key) == RECORD_KEY.size


def _is_page(key: bytes, value: bytes) -> bool:
    if is_linked(value):
        links_of(value)
    else:
        decode_page(value)
    return len(key) == PAGE_KEY.size and PAGE_KEY.unpack(key)[1] == decode_page_summary(value).first_sequence


def _is_summary(key: bytes, value: bytes) -> bool:
    first = decode_page_summary(value).first_sequence
    if is_linked(value):
        links_of(value)
    elif len(directory_row(value)) != len(value):
        return False
    return len(key) == PAGE_KEY.size and PAGE_KEY.unpack(key)[1] == first


def _is_cursor(key: bytes, value: bytes) -> bool:
    return key == PARTITION_KEY.pack(decode_cursor(value).partition_id)


def _is_item(key: bytes, value: bytes) -> bool:
    unseal_whole(value, QUARANTINE_KIND, QUARANTINE_FORMAT, "")
    return len(key) == RECORD_KEY.size


def _is_meta(key: bytes, value: bytes) -> bool:
    if key == IDENTITY_KEY:
        unseal_whole(value, STORE_KIND, STORE_FORMAT, "", oldest=STORE_FORMAT_OLDEST)
    elif key == LOG_KEY:
        unseal_whole(value, POSITIONS_KIND, POSITIONS_FORMAT, "")
    return key in (IDENTITY_KEY, LOG_KEY)


def _is_owner(key: bytes, value: bytes) -> bool:
    return _is_row(key, value) and owned_partition(key) >= 0


def _is_row(key: bytes, value: bytes) -> bool:
    return stored_key(decode_row(value)[0]) == key


_FITS: Final[dict[str, Callable[[bytes, bytes], bool]]] = {
    "journal": _is_record,
    "pages": _is_page,
    "directory": _is_summary,
    "cursors": _is_cursor,
    "quarantine": _is_item,
    "meta": _is_meta,
    Table.OWNERS.value: _is_owner,
}
