"""The lock of one process on a data folder: advisory locks, which end with the process in every case.

Two files are locked: `sluicegate.lock`, which contains the holder's process id, and the data file. So the lock survives
the removal of the former while a node runs, and a node detects the removal or replacement of the data file.
"""

import errno
import fcntl
import os
from pathlib import Path
from typing import Final, final

from sluicegate.storage.environment.file_kinds import is_there
from sluicegate.storage.environment.file_rights import FILE_MODE
from sluicegate.storage.errors import FolderInUse, StoreDamaged, StoreFailed

DATA_FILE: Final = "data.mdb"
LOCK_FILE: Final = "sluicegate.lock"


@final
class FolderLock:
    """A held lock. The lock file stays after `release`; `withdraw` removes it.

    `was_held`: a process has held the folder before.
    """

    def __init__(self, folder: Path) -> None:
        """Take the lock, with the data file if there is one. Raises FolderInUse with the holder's process id."""
        self._folder = folder
        self._path = folder / LOCK_FILE
        self._data_path = str(folder / DATA_FILE)
        self._data_descriptor = -1
        self._descriptor = _locked_file(folder)
        while not _is_named(
            self._descriptor, self._path
        ):  # it was withdrawn as we opened it: the next has another file
            os.close(self._descriptor)
            self._descriptor = _locked_file(folder)
        self.was_held = os.fstat(self._descriptor).st_size > 0
        try:
            self.lock_data()
        except BaseException:
            self.release()
            raise
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def lock_data(self) -> None:
        """Lock the data file too, if it is there and is not locked yet. Raises FolderInUse."""
        if self._data_descriptor < 0 and is_there(self._folder / DATA_FILE):
            self._data_descriptor = _locked(self._folder, os.open(self._folder / DATA_FILE, os.O_RDWR | os.O_CLOEXEC))

    def check_data(self) -> None:
        """Raise StoreDamaged when the folder no longer contains the locked data file."""
        if not _is_named(self._data_descriptor, self._data_path):
            raise StoreDamaged(
                f"{self._data_path} was removed or replaced while the node runs: what it writes would be lost"
            )

    def withdraw(self) -> None:
        """Remove the lock file and release the lock, for a folder in which nothing was created."""
        self._path.unlink(missing_ok=True)
        self.release()

    def release(self) -> None:
        """Release the lock. May be called twice."""
        for descriptor in (self._data_descriptor, self._descriptor):
            if descriptor >= 0:
                os.close(descriptor)
        self._data_descriptor = self._descriptor = -1


def _locked_file(folder: Path) -> int:
    """Return the lock file, open and locked. Raises FolderInUse, and StoreFailed for a symbolic link.

    Following a link would write into a foreign file.
    """
    path = folder / LOCK_FILE
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise StoreFailed(f"{path} is a symbolic link, and is not followed: remove it") from None
        raise
    return _locked(folder, descriptor)


def _locked(folder: Path, descriptor: int) -> int:
    """Lock an open file and return it; close it and raise FolderInUse when another process has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise FolderInUse(folder, _holder(folder)) from None
    return descriptor


def _holder(folder: Path) -> int | None:
    """Return the process id in the lock file, None when there is none."""
    try:
        said = (folder / LOCK_FILE).read_bytes()[:32].strip()
    except OSError:
        return None
    return int(said) if said.isdigit() else None


def _is_named(descriptor: int, path: Path | str) -> bool:
    """Return whether the path still names the open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
