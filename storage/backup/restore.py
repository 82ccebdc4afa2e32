"""Bringing a backup back into an empty data folder, from which a node then starts.

The restored spool gets an incarnation of its own: what it goes on to number are other messages than those that the
spool of the backup numbered since. Whoever stored a position beside an incarnation notices. And it counts as not
closed in order, so everything in it is delivered as possibly delivered before.

The data file gets its name last: a folder in which a restore was interrupted has no spool, and can be restored into.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import lmdb

from sluicegate.storage.backup.backup import SPARE_BYTES
from sluicegate.storage.backup.folder import PARTIAL_FILE, BackupNote, checked_pieces, read_note
from sluicegate.storage.environment.databases import DATABASE_COUNT, Databases
from sluicegate.storage.environment.environment import disk_free_bytes, sync_folders, translated
from sluicegate.storage.environment.file_rights import make_file, make_folder
from sluicegate.storage.environment.folder_lock import DATA_FILE, LOCK_FILE, FolderLock
from sluicegate.storage.environment.identity import write_clean, write_incarnation
from sluicegate.storage.errors import BackupRefused

_LOST_AND_FOUND: Final = "lost+found"  # of a file system that is empty: a volume of its own, as orchestrators give one
_ROOM_BYTES: Final = 1 << 20  # of the map, for the pages that a new identity takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What was done."""

    note: BackupNote  # of the backup
    incarnation: int  # of the spool that there is now


def restore_backup(backup: Path, folder: Path, *, incarnation: int, copied: Callable[[int], None]) -> Restored:
    """Make the backup the spool of a data folder that has none. `copied` is told of every piece, in bytes.

    Raises BackupRefused (no whole backup, damaged, the folder is not empty, no room), FolderInUse, StoreFull,
    StoreFailed; the backup is only read, and the folder then has no spool.
    """
    note = read_note(backup)
    with translated(folder, needed_bytes=note.data_bytes):
        make_folder(folder)
        had_lock_file = (folder / LOCK_FILE).exists()
        if not had_lock_file:
            check_empty(folder)
        lock = FolderLock(folder)
        try:
            check_empty(folder)
            free = disk_free_bytes(folder)
            if free < note.data_bytes + SPARE_BYTES:
                text = f"{free} bytes are free for {note.data_bytes}; {SPARE_BYTES} have to be left"
                raise BackupRefused(f"there is no room for the backup in {folder}: {text}")
            partial = folder / PARTIAL_FILE
            try:
                _copy(backup, note, partial, copied)
                _identify(partial, note, incarnation)
            except BaseException:
                partial.unlink(missing_ok=True)
                raise
            os.rename(partial, folder / DATA_FILE)
            sync_folders(folder)
        except BaseException:
            if not had_lock_file:
                lock.withdraw()
            raise
        finally:
            lock.release()
    return Restored(note=note, incarnation=incarnation)


def check_empty(folder: Path) -> None:
    """Raise BackupRefused for a folder with something in it but what an interrupted writer, or a mount, left."""
    names = {path.name for path in folder.iterdir()} - {LOCK_FILE, PARTIAL_FILE, _LOST_AND_FOUND}
    if names:
        raise BackupRefused(f"{folder} is not empty: it has {sorted(names)[0]}")


def _copy(backup: Path, note: BackupNote, partial: Path, copied: Callable[[int], None]) -> None:
    partial.unlink(missing_ok=True)  # of a restore that was interrupted: it keeps the rights it was made with
    with open(make_file(partial), "wb") as file:
        for piece in checked_pieces(backup, note):
            file.write(piece)
            copied(len(piece))
        file.flush()
        os.fsync(file.fileno())


def _identify(partial: Path, note: BackupNote, incarnation: int) -> None:
    """Give the copy its identity. Nobody else can have it open: the folder is locked, and the file has no name yet."""
    env = lmdb.open(
        str(partial), subdir=False, lock=False, map_size=note.data_bytes + _ROOM_BYTES, max_dbs=DATABASE_COUNT
    )
    try:
        databases = Databases(env)
        with env.begin(write=True) as txn:
            write_incarnation(txn, databases, incarnation)
            write_clean(txn, databases, clean=False)
    finally:
        env.close()
