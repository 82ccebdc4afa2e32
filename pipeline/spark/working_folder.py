"""The folder of a job's temporary files, including Spark's, and the removal of those of killed jobs.

A job owns its folder while it holds a lock on it; the system releases the lock when the process ends, in every case. So
each job removes the unlocked folders before it creates its own.
"""

import fcntl
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

PREFIX: Final = "sluicegate-pipeline-"

_log: Final = logging.getLogger("pipeline")


@contextmanager
def working_folder() -> Iterator[Path]:
    """Give a folder in the system's temporary one for the length of the block. Raises OSError."""
    for each in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        _remove_if_left(each)
    folder, handle = _made()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # a JVM may write there yet: the next job removes what is left
        os.close(handle)


def _made() -> tuple[Path, int]:
    """Return a new folder, and the handle that holds it."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        handle = _held(folder)
        if handle is not None and folder.exists():
            return folder, handle
        if handle is not None:
            os.close(handle)  # before it was held, another job took it for one that was left


def _remove_if_left(folder: Path) -> None:
    handle = _held(folder)
    if handle is not None:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)
        _log.info("removed %s, a leftover of a killed job", folder)


def _held(folder: Path) -> int | None:
    """Return the handle that holds a folder; None when it is another's, or none at all."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle
