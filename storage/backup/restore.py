"""Restores a backup into an empty data folder, from which a node can then start.

The restored spool gets a new incarnation, because it will assign sequences to other messages than the original spool
did after the backup. Readers that stored a position with an incarnation detect that. The restored spool also counts as
not cleanly shut down, so its messages are delivered as possible duplicates.

The data file gets its name last: after an interrupted restore the folder has no spool, and can be restored into.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sluicegate.storage.backup.backup import SPARE_BYTES
from sluicegate.storage.backup.folder import PARTIAL_FILE, BackupNote, checked_pieces, read_note
from sluicegate.storage.catalog.copied_log import open_copy
from sluicegate.storage.environment.databases import Databases
from sluicegate.storage.environment.environment import disk_free_bytes, sync_folders, translated
from sluicegate.storage.environment.file_kinds import is_there
from sluicegate.storage.environment.file_rights import make_file, make_folder
from sluicegate.storage.environment.folder_lock import DATA_FILE, LOCK_FILE, FolderLock
from sluicegate.storage.environment.identity import write_clean, write_incarnation
from sluicegate.storage.errors import BackupRefused

_LOST_AND_FOUND: Final = "lost+found"  # in an empty file system, such as the volume an orchestrator provides


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What was done."""

    note: BackupNote  # of the backup
    incarnation: int  # of the new spool


def restore_backup(backup: Path, folder: Path, *, incarnation: int, copied: Callable[[int], None]) -> Restored:
    """Restore the backup into a data folder without a spool. `copied` receives the bytes of every piece.

    Raises BackupRefused (incomplete or damaged backup, the folder is not empty, no room), FolderInUse, StoreFull,
    StoreFailed; then the folder has no spool. The backup is never changed.
    """
    note = read_note(backup)
    restore_pieces(note, checked_pieces(backup, note), folder, incarnation=incarnation, copied=copied)
    return Restored(note=note, incarnation=incarnation)


def restore_pieces(
    note: BackupNote, pieces: Iterable[bytes], folder: Path, *, incarnation: int, copied: Callable[[int], None]
) -> None:
    """Restore the data file of a backup, whose checksum is compared where its pieces come from.

    Raises as `restore_backup`, and what the iterable raises.
    """
    with translated(folder, needed_bytes=note.data_bytes):
        make_folder(folder)
        had_lock_file = is_there(folder / LOCK_FILE)
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
                _copy(pieces, partial, copied)
                _identify(partial, incarnation)
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


def check_empty(folder: Path) -> None:
    """Raise BackupRefused for a folder with files other than the leftovers of an interrupted writer, or a mount."""
    names = {path.name for path in folder.iterdir()} - {LOCK_FILE, PARTIAL_FILE, _LOST_AND_FOUND}
    if names:
        raise BackupRefused(f"{folder} is not empty: it has {sorted(names)[0]}")


def _copy(pieces: Iterable[bytes], partial: Path, copied: Callable[[int], None]) -> None:
    partial.unlink(missing_ok=True)  # from an interrupted restore: it would keep its old permissions
    with open(make_file(partial), "wb") as file:
        for piece in pieces:
            file.write(piece)
            copied(len(piece))
        file.flush()
        os.fsync(file.fileno())


def _identify(partial: Path, incarnation: int) -> None:
    """Give the copy its identity. No other process has it open: the folder is locked, and the file has no name yet."""
    env = open_copy(partial, 0)
    try:
        databases = Databases(env)
        with env.begin(write=True) as txn:
            write_incarnation(txn, databases, incarnation)
            write_clean(txn, databases, clean=False)
    finally:
        env.close()
