"""Data files of LMDB that tests walk and damage."""

from collections.abc import Iterator
from pathlib import Path

from sluicegate.storage.integrity.pages import BRANCH, LEAF, DataFile
from sluicegate.storage.integrity.walk import TreeWalk


def walked(path: Path) -> TreeWalk:
    """Walk over the latest snapshot."""
    with DataFile(path) as data_file:
        walk = TreeWalk(data_file, data_file.snapshots[0])
        walk.run()
    return walk


def tree_pages(path: Path) -> Iterator[tuple[int, int]]:
    """Yield the branch and leaf pages in use, each with its kind."""
    used = walked(path).used
    with DataFile(path) as data_file:
        for number in range(2, len(used)):
            data = data_file.page(number)
            if used[number] and int.from_bytes(data[:8], "little") == number and data[10] in (BRANCH, LEAF):
                yield number, data[10]
