"""The check before LMDB opens a spool: the spool exists, and LMDB's own pages are sound.

A page of zeros ends LMDB, and the process with it, on an assertion. So the trees are walked first, without LMDB: every
branch and leaf, but no large value, because seals protect those. The walk takes a second for some gigabytes of
messages, so it runs at each start.
"""

from pathlib import Path
from typing import Final

from sluicegate.storage.environment.environment import READERS_FILE
from sluicegate.storage.environment.folder_lock import DATA_FILE, LOCK_FILE
from sluicegate.storage.errors import SpoolMissing, StoreDamaged
from sluicegate.storage.integrity.pages import DataFile
from sluicegate.storage.integrity.walk import TreeDamage, TreeWalk

_TABLES_TOLD_MAX: Final = 5


def check_spool(folder: Path, *, was_held: bool) -> None:
    """Check the files of a data folder before they are opened. `was_held`: a node has used the folder before.

    Raises SpoolMissing for an expected but missing spool, StoreDamaged for one that could crash LMDB, StoreFailed for a
    file that is no database, and OSError.
    """
    path = folder / DATA_FILE
    names = [name for name in (DATA_FILE, READERS_FILE) if (folder / name).is_file()]
    if was_held:
        names.append(LOCK_FILE)
    if not path.exists():
        if names:
            raise SpoolMissing(path, "is not there", names)
        return
    if path.is_file() and path.stat().st_size == 0:
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
