"""The claim of one process on a data folder: an advisory lock that ends with the process, however that ends."""

import fcntl
import os
from pathlib import Path
from typing import Final, final

from storage.errors import FolderInUse

LOCK_FILE: Final = "sluicegate.lock"


@final
class FolderLock:
    """A held claim. The file stays when it is released: removing it would let two claims exist on two files."""

    def __init__(self, folder: Path) -> None:
        """Take the claim. Raises FolderInUse with the holder's process id."""
        self._descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._descriptor, 32, 0).strip()
            os.close(self._descriptor)
            raise FolderInUse(folder, int(holder) if holder.isdigit() else None) from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Give the claim up. May be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
