"""The LMDB environment of a store: opens its files and translates its errors. See also: storage.store.store."""

import errno
import os
from pathlib import Path
from types import TracebackType
from typing import Final, final

import lmdb

from sluicegate.storage.environment.databases import DATABASE_COUNT
from sluicegate.storage.environment.file_rights import FILE_MODE
from sluicegate.storage.environment.folder_lock import DATA_FILE
from sluicegate.storage.errors import DamagedRecord, StoreDamaged, StoreFailed, StoreFull
from sluicegate.storage.interface import Quarantined

READERS_FILE: Final = "lock.mdb"  # LMDB's table of readers


_READERS_MAX: Final = 8  # the reader thread, recovery, somebody who looks at the quarantine
_FULL_DISK_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_FORBIDDEN_ERRORS: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR})
_SHORT_WRITE_SLACK_BYTES: Final = 1 << 20
# What LMDB says when it meets a page that it cannot have written, or trips over one in the middle of something.
_DAMAGE_ERRORS: Final = (
    lmdb.BadDbiError,
    lmdb.BadTxnError,
    lmdb.BadValsizeError,
    lmdb.CorruptedError,
    lmdb.CursorFullError,
    lmdb.IncompatibleError,
    lmdb.InvalidError,
    lmdb.NotFoundError,
    lmdb.PageFullError,
    lmdb.PageNotFoundError,
    lmdb.PanicError,
    lmdb.ProblemError,
    lmdb.VersionMismatchError,
)


def open_environment(folder: Path, map_bytes: int, *, sync: bool) -> lmdb.Environment:
    """Open the files. Raises lmdb.Error."""
    return lmdb.open(
        str(folder),
        map_size=map_bytes,
        mode=FILE_MODE,
        max_dbs=DATABASE_COUNT,
        max_readers=_READERS_MAX,
        max_spare_txns=1,
        readahead=False,  # pages are read one at a time, anywhere in the file
        writemap=False,  # a stray write in this process must not reach the file
        sync=sync,
        metasync=sync,
    )


def open_to_read(folder: Path) -> lmdb.Environment:
    """Open the files of a folder without a writer. Changes no file, not even the table of readers.

    Raises DamagedRecord for a truncated data file: reading behind its end would kill the process. Raises lmdb.Error.
    """
    env = lmdb.open(str(folder), max_dbs=DATABASE_COUNT, readonly=True, create=False, lock=False, readahead=False)
    needed, found = _needed_bytes(env), (folder / DATA_FILE).stat().st_size
    if found < needed:
        env.close()
        raise DamagedRecord(str(folder / DATA_FILE), f"it has {found} bytes of {needed}")
    return env


def fill_to_length(folder: Path, env: lmdb.Environment) -> Quarantined | None:
    """Extend a data file that ends before its last page, and report it; return None for a whole file.

    Reading a mapped page behind the end of the file would kill the process with SIGBUS. After the extension the missing
    part reads as zeros, which no seal accepts, and everything else can be served.
    """
    path = folder / DATA_FILE
    needed = _needed_bytes(env)
    found = path.stat().st_size
    if found >= needed:
        return None
    os.truncate(path, needed)
    return Quarantined(DATA_FILE, "cut short", f"the file had {found} bytes of {needed}; the rest now reads as zeros")


def _needed_bytes(env: lmdb.Environment) -> int:
    return (env.info()["last_pgno"] + 1) * env.stat()["psize"]


def sync_folders(folder: Path) -> None:
    """Make the names of the folder and of its files as durable as their content."""
    for path in (folder, folder.parent):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def disk_free_bytes(folder: Path) -> int:
    """Return the free bytes of the folder's file system for an ordinary user."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


@final
class translated:  # noqa: N801, it is read as a verb
    """Turns errors of LMDB and of the operating system into StoreFull, StoreFailed and StoreDamaged.

    A class, because a generator as context manager takes two microseconds more, for each commit.
    """

    __slots__ = ("_folder", "_needed_bytes")

    def __init__(self, folder: Path, *, needed_bytes: int) -> None:
        self._folder = folder
        self._needed_bytes = needed_bytes

    def __enter__(self) -> None:
        """Begin the block."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Translate the error that ends the block."""
        if error is None:
            return
        if isinstance(error, lmdb.MapFullError):
            raise StoreFull("map", f"no room for {self._needed_bytes} bytes in one piece ({error})") from error
        if isinstance(error, lmdb.DiskError):
            raise StoreFull("disk", str(error)) from error
        if isinstance(error, lmdb.Error):
            raise _failure(self._folder, error, error.code, self._needed_bytes) from error
        if isinstance(error, SystemError):  # py-lmdb's error for a transaction that LMDB has aborted
            raise _damaged(self._folder, error) from error
        if isinstance(error, OSError):
            raise _failure(self._folder, error, error.errno or 0, self._needed_bytes) from error


def _failure(folder: Path, error: Exception, code: int, needed_bytes: int) -> StoreFull | StoreFailed:
    """Distinguish a full disk from a broken one. LMDB reports a short write as EIO, and a full disk writes short."""
    if isinstance(error, lmdb.InvalidError):
        return StoreDamaged(f"{folder / DATA_FILE} is no database of LMDB, or its first pages are destroyed")
    if isinstance(error, _DAMAGE_ERRORS):
        return _damaged(folder, error)
    if code in _FORBIDDEN_ERRORS:  # LMDB names the folder, which may be correct
        return StoreFailed(f"{folder / DATA_FILE}, or {READERS_FILE} beside it, cannot be used: {os.strerror(code)}")
    if code == errno.ENOMEM:  # LMDB reserves addresses for the whole map, used or not
        text = "this process may not have as many addresses as the file may grow to (RLIMIT_AS, `ulimit -v`)"
        return StoreFailed(f"{folder / DATA_FILE} cannot be mapped: {text}")
    if code in _FULL_DISK_ERRORS:
        return StoreFull("disk", str(error))
    if code == errno.EIO and needed_bytes > 0:
        free = disk_free_bytes(folder)
        if free < needed_bytes + _SHORT_WRITE_SLACK_BYTES:
            return StoreFull("disk", f"{free} bytes are free, and a write fell short ({error})")
    return StoreFailed(str(error))


def _damaged(folder: Path, error: Exception) -> StoreDamaged:
    text = f"is damaged where LMDB keeps its own order ({error}): stop the broker, and run `sluicegate doctor`"
    return StoreDamaged(f"{folder / DATA_FILE} {text}")
