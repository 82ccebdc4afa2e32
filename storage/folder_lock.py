"""The claim of one process on a data folder: an advisory lock that ends with the process, however that ends."""

import fcntl
import os
from pathlib import Path
from typing import Final, final

from storage.errors import FolderInUse
from storage.file_rights import FILE_MODE

LOCK_FILE: Final = "sluicegate.lock"


@final
class FolderLock:
    """A held claim. The file stays when it is released, but for `withdraw`."""

    def __init__(self, folder: Path) -> None:
        """Take the claim. Raises FolderInUse with the holder's process id."""
        self._path = folder / LOCK_FILE
        self._descriptor = _locked(folder)
        while not _is_named(
            self._descriptor, self._path
        ):  # it was withdrawn as we opened it: the next has another file
            os.close(self._descriptor)
            self._descriptor = _locked(folder)
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def withdraw(self) -> None:
        """Remove the file and give the claim up, for a folder in which nothing was made."""
        self._path.unlink(missing_ok=True)
        self.release()

    def release(self) -> None:
        """Give the claim up. May be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _locked(folder: Path) -> int:
    """Return the open file, locked. Raises FolderInUse."""
    descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 32, 0).strip()
        os.close(descriptor)
        raise FolderInUse(folder, int(holder) if holder.isdigit() else None) from None
    return descriptor


def _is_named(descriptor: int, path: Path) -> bool:
    """Return whether the open file is the one that who opens the path now gets."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
