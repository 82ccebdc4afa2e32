"""The memory in which brokers of a machine show each other what they use of limits that are the machine's.

The supervisor makes it, and brokers get its file. It has no name, and goes with the last process.
"""

import fcntl
import mmap
import os
import time
from types import TracebackType
from typing import Final, final

from sluicegate.messaging.limits.counts import ROW_WORDS, WORD_BYTES, Words

ROWS: Final = 1 << 17  # of one broker: so many usernames with a limit can be connected to it. 2 MiB, as far as written
WAIT_S: Final = 0.01  # for the lock, which is held for microseconds: a process that was stopped meanwhile may keep it


def make_memory(brokers_count: int) -> int:
    """Return the file of new memory for so many brokers."""
    fd = os.memfd_create("sluicegate-limits")
    os.ftruncate(fd, brokers_count * ROWS * ROW_WORDS * WORD_BYTES)
    return fd


def words_of(fd: int) -> Words:
    """Return what is in the memory of a file."""
    return memoryview(mmap.mmap(fd, 0)).cast("q")


@final
class MachineLock:
    """The lock that brokers hold while they take of a limit. It is the kernel's, and goes with the process.

    Who does not get it in time goes on without: at worst, two brokers take the same place.
    """

    def __init__(self, fd: int) -> None:
        self._fd: Final = fd

    def __enter__(self) -> None:
        until_s = 0.0
        while True:
            try:
                fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):  # POSIX allows either
                now_s = time.monotonic()
                until_s = until_s or now_s + WAIT_S
                if now_s > until_s:
                    return
                os.sched_yield()
            else:
                return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        fcntl.lockf(self._fd, fcntl.LOCK_UN)
