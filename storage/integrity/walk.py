"""Checks the trees of a data file: each page of each tree, the free list, and how they fit together.

LMDB has no checksums: the spool's records have them, LMDB's own pages do not. A flipped bit there shows as a page that
its parent does not expect, keys out of order, entries that do not fill their page, counts that differ from those of the
root, or a page in two trees, or in a tree and the free list. A walk reads the header of every page in use, and only the
first page of large values; so a spool of gigabytes takes seconds.

The walk only reads, and needs no LMDB (storage.integrity.pages explains why). On a file that a node has open, the walk
would see a mix of commits, and report rewritten pages as damaged; the callers never do that.

The walk does not see a flipped bit in a key that keeps the order, in an unused page, or in a value. Values have seals,
which storage.integrity.inspection checks.

`check_spool` walks the trees before LMDB opens a spool. A page of zeros ends LMDB, and the process with it, on an
assertion. This walk covers every branch and leaf, but no large value, because seals protect those. It takes a second
for some gigabytes of messages, so it runs at each start.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, final

from sluicegate.storage.environment.environment import READERS_FILE
from sluicegate.storage.environment.file_kinds import is_file, is_there
from sluicegate.storage.environment.folder_lock import DATA_FILE, LOCK_FILE
from sluicegate.storage.errors import SpoolMissing, StoreDamaged
from sluicegate.storage.integrity.pages import (
    BIG,
    BRANCH,
    DEPTH_MAX,
    LEAF,
    META_PAGES,
    NO_PAGE,
    TREE,
    DataFile,
    Node,
    NotSound,
    Snapshot,
    TreeRoot,
    check_header,
    nodes,
    readable_nodes,
    tree_root,
)
from sluicegate.storage.log.journal import LOG_FOLDER, incarnation_in

FREE_LIST: Final = "free list"
NAMES: Final = "table of tables"
DAMAGES_MAX: Final = 1000  # of one tree: further ones are only counted as more, and the walk continues

_TABLES_TOLD_MAX: Final = 5  # in the error for a damaged spool
_NUMBER: Final = struct.Struct("<Q")


class TreeDamage(NamedTuple):
    """A place where a tree is broken. Pages below it cannot be reached from the root."""

    table: str  # a named tree, FREE_LIST, NAMES, or the file
    page: int
    problem: str
    # The keys below it, from `first` up to `end` exclusive; None: to the last one.
    first: bytes = b""
    end: bytes | None = None


@dataclass
class WalkedTree:
    """The visited part of one tree."""

    root: TreeRoot
    leaves: list[int] = field(default_factory=list)  # sound ones
    branch_pages: int = 0
    overflow_pages: int = 0
    entries: int = 0
    damages: list[TreeDamage] = field(default_factory=list)


@final
class TreeWalk:
    """One walk over one snapshot of a data file. `used` and `freed` have a byte for each page: 1 says so.

    Without `looks_at_values` the walk neither reads pages of large values nor counts them as used.
    """

    def __init__(self, file: DataFile, snapshot: Snapshot, *, looks_at_values: bool = True) -> None:
        self.file = file
        self.looks_at_values = looks_at_values
        self.snapshot = snapshot
        self.trees: dict[str, WalkedTree] = {}
        self.damages: list[TreeDamage] = []  # of all trees, and of the file
        pages_count = min(snapshot.last_page + 1, -(-file.file_bytes // file.page_bytes))
        self.used = bytearray(pages_count)
        self.freed = bytearray(pages_count)

    def run(self) -> None:
        """Walk all trees. Raises OSError only when the file cannot be read at all."""
        self.used[:META_PAGES] = b"\1" * META_PAGES
        self.walk_tree(NAMES, self.snapshot.names)
        for name, root in named_roots(self.file, self.trees[NAMES].leaves).items():
            self.walk_tree(name, root)
        self.walk_tree(FREE_LIST, self.snapshot.free)
        self._read_free_list()
        self._check_length()

    def _check_length(self) -> None:
        """Report a truncated file when a part of it is missing.

        A sound file may be shorter too: pages that a transaction allocated and released are never written.
        """
        needed = (self.snapshot.last_page + 1) * self.file.page_bytes
        if self.damages and self.file.file_bytes < needed:
            text = f"it has {self.file.file_bytes} bytes of {needed}"
            self.damages.append(TreeDamage(self.file.path.name, self.snapshot.last_page, text))

    def walk_tree(self, name: str, root: TreeRoot) -> None:
        """Walk one tree, and record its visited pages."""
        tree = self.trees[name] = WalkedTree(root)
        if root.root != NO_PAGE:
            _Descent(self, name, tree).run()
        if not tree.damages:
            self._compare(name, tree)
        self.damages += tree.damages

    def _compare(self, name: str, tree: WalkedTree) -> None:
        """Compare the visited counts with those of the root; in a broken tree they must differ."""
        root = tree.root
        said = (root.branch_pages, root.leaf_pages, root.overflow_pages, root.entries)
        overflow_pages = tree.overflow_pages if self.looks_at_values else root.overflow_pages
        found = (tree.branch_pages, len(tree.leaves), overflow_pages, tree.entries)
        for what, wanted, met in zip(
            ("branch pages", "leaf pages", "pages of large values", "entries"), said, found, strict=True
        ):
            if wanted != met:
                text = f"{met} {what} can be reached, and there should be {wanted}"
                tree.damages.append(TreeDamage(name, root.root, text))

    def _read_free_list(self) -> None:
        tree = self.trees[FREE_LIST]
        found: list[TreeDamage] = []
        for number in tree.leaves:
            page = self.file.page(number)
            for node in nodes(page, LEAF):
                problem = self._free(self.file.value(page, node))
                if problem:
                    found.append(TreeDamage(FREE_LIST, number, problem, node.key))
        tree.damages += found
        self.damages += found

    def _free(self, value: bytes) -> str:
        """Add a list of free pages, whose first number is the count; return its problem, empty when it is sound.

        LMDB reserves room for such lists before it knows their length: zeros may follow.
        """
        count = _NUMBER.unpack_from(value)[0] if len(value) >= _NUMBER.size else -1
        if not 0 <= count < len(value) // _NUMBER.size:
            return f"a list of {count} free pages has {len(value)} bytes"
        before = self.snapshot.last_page + 1
        for (page,) in _NUMBER.iter_unpack(value[_NUMBER.size : _NUMBER.size * (count + 1)]):
            if not META_PAGES <= page < before:
                return f"page {page} cannot be free: the list descends, below {before}"
            before = page
            if page >= len(self.freed):
                continue  # never written
            if self.used[page]:
                return f"page {page} is said to be free, and is in use"
            if self.freed[page]:
                return f"page {page} is free twice"
            self.freed[page] = 1
        return ""


class _Task(NamedTuple):
    """A page to visit, and its parent's description of it."""

    page: int
    depth: int
    first: bytes  # the least key that may be below
    end: bytes | None  # the first key that may not


@final
class _Descent:
    """The way down one tree, leftmost first."""

    def __init__(self, walk: TreeWalk, name: str, tree: WalkedTree) -> None:
        self._walk = walk
        self._name = name
        self._tree = tree
        self._orders_numbers = name == FREE_LIST  # its keys are numbers of the machine, the others bytes

    def run(self) -> None:
        root = self._tree.root
        waiting = [_Task(root.root, 1, b"", None)]
        while waiting:
            task = waiting.pop()
            try:
                below = self._look(task)
            except NotSound as problem:
                self._damage(task, str(problem))
                continue
            waiting += reversed(below)

    def _look(self, task: _Task) -> list[_Task]:
        """Check a page; return its children. Raises NotSound."""
        walk, tree = self._walk, self._tree
        if not META_PAGES <= task.page < len(walk.used):
            raise NotSound(f"there is no such page: the file has {len(walk.used)}")
        if walk.used[task.page]:
            raise NotSound("it is in use elsewhere")
        page = walk.file.page(task.page)
        kind = check_header(page, task.page)
        if (kind == LEAF) != (task.depth == tree.root.depth) or task.depth > DEPTH_MAX:
            text = f"a {'leaf' if kind == LEAF else 'branch'} at depth {task.depth} of a tree of {tree.root.depth}"
            raise NotSound(text)
        entries = nodes(page, kind)
        self._check_order(entries, kind, task)
        if kind == BRANCH:
            walk.used[task.page] = 1
            tree.branch_pages += 1
            return _children(entries, task)
        taken = self._large_values(page, entries)
        walk.used[task.page] = 1
        tree.leaves.append(task.page)
        tree.overflow_pages += taken
        tree.entries += len(entries)
        return []

    def _check_order(self, entries: list[Node], kind: int, task: _Task) -> None:
        if kind == BRANCH and len(entries) < 2:
            raise NotSound(f"a branch with {len(entries)} entries")
        if kind == LEAF and not entries:
            raise NotSound("a leaf without entries")
        before = b""
        for index, node in enumerate(entries):
            if kind == BRANCH and index == 0:
                continue  # its key says nothing: all that is below the second one's
            if self._precedes(node.key, task.first) or (
                task.end is not None and not self._precedes(node.key, task.end)
            ):
                raise NotSound(f"its entry {index} has a key that belongs to another page")
            if before and not self._precedes(before, node.key):
                raise NotSound(f"the keys of its entries {index - 1} and {index} do not ascend")
            if not node.key:
                raise NotSound(f"its entry {index} has no key")
            before = node.key

    def _precedes(self, left: bytes, right: bytes) -> bool:
        if self._orders_numbers:
            return int.from_bytes(left, "little") < int.from_bytes(right, "little")
        return left < right

    def _large_values(self, page: bytes, entries: Iterable[Node]) -> int:
        """Mark the pages of large values; return their number. An inconsistent page counts as damage of this leaf."""
        walk, count = self._walk, 0
        if not walk.looks_at_values:
            return 0
        for node in entries:
            if node.flags & BIG:
                pages = walk.file.check_big(page, node)
                if any(walk.used[pages.start : pages.stop]):
                    raise NotSound(f"a large value from page {pages.start} on is in use elsewhere")
                walk.used[pages.start : pages.stop] = b"\1" * len(pages)
                count += len(pages)
        return count

    def _damage(self, task: _Task, problem: str) -> None:
        if len(self._tree.damages) < DAMAGES_MAX:
            self._tree.damages.append(TreeDamage(self._name, task.page, problem, task.first, task.end))


def _children(entries: list[Node], task: _Task) -> list[_Task]:
    bounds: list[bytes | None] = [task.first, *[node.key for node in entries[1:]], task.end]
    return [
        _Task(node.child, task.depth + 1, bounds[index] or b"", bounds[index + 1]) for index, node in enumerate(entries)
    ]


def named_roots(file: DataFile, leaves: Iterable[int]) -> dict[str, TreeRoot]:
    """Return the named trees in these sound leaves of the tree of names."""
    roots: dict[str, TreeRoot] = {}
    for number in leaves:
        page = file.page(number)
        roots |= _roots(file, page, nodes(page, LEAF))
    return roots


def readable_roots(file: DataFile, number: int) -> dict[str, TreeRoot]:
    """Return the apparent roots of named trees in a broken page. Raises NotSound for a missing page."""
    page = file.page(number)
    return _roots(file, page, readable_nodes(page))


def _roots(file: DataFile, page: bytes, entries: Iterable[Node]) -> dict[str, TreeRoot]:
    roots: dict[str, TreeRoot] = {}
    for node in entries:
        root = tree_root(file.value(page, node)) if node.flags & TREE else None
        if root is not None:
            roots[node.key.decode(errors="backslashreplace")] = root
    return roots


def walk_trees(path: Path) -> list[TreeDamage]:
    """Return the places where the trees of a data file are broken; none for sound trees.

    Raises OSError, and StoreFailed for a file that is no database of LMDB.
    """
    with DataFile(path) as file:
        walk = TreeWalk(file, file.snapshots[0])
        walk.run()
        metas = [TreeDamage(path.name, 0, problem) for problem in file.meta_problems]
        return metas + walk.damages


def check_spool(folder: Path, *, was_held: bool) -> None:
    """Check the files of a data folder before they are opened. `was_held`: a node has used the folder before.

    Raises SpoolMissing for an expected but missing spool, StoreDamaged for one that could crash LMDB, StoreFailed for a
    file that is no database, and OSError.
    """
    path = folder / DATA_FILE
    names = [name for name in (DATA_FILE, READERS_FILE) if is_file(folder / name)]
    if incarnation_in(folder / LOG_FOLDER) is not None:
        names.append(LOG_FOLDER)
    if was_held:
        names.append(LOCK_FILE)
    if not is_there(path):
        if names:
            raise SpoolMissing(path, "is not there", names)
        return
    if is_file(path) and path.stat().st_size == 0:
        raise SpoolMissing(path, "is empty", names)
    with DataFile(path) as file:
        walk = TreeWalk(file, file.snapshots[0], looks_at_values=False)
        walk.run()
    if walk.damages:
        raise StoreDamaged(_told(path, walk.damages))


def _told(path: Path, damages: list[TreeDamage]) -> str:
    tables = sorted({each.table for each in damages})
    more = ", ..." if len(tables) > _TABLES_TOLD_MAX else ""
    where = ", ".join(tables[:_TABLES_TOLD_MAX]) + more
    first = damages[0]
    return (
        f"{path} is damaged: pages of LMDB's own are broken ({where}), first page {first.page}: {first.problem}. "
        "Nothing was changed. Restore a backup, or bring what can be read into a new spool with "
        "`sluicegate doctor --salvage FOLDER`"
    )
