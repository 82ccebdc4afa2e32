"""What a replica does that another process has started: it stops when that one is gone.

Its standard input is a pipe of which the other process has the only other end. Both stay when the replica replaces its
process by a new one.
"""

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Final

SUPERVISED: Final = "SLUICEGATE_SUPERVISED"  # variable of the environment of such a process


def watch_supervisor(stop: Callable[[], None]) -> None:
    """Have `stop` called when the process is gone that has started this one. Nothing happens if nobody supervises."""
    if not is_supervised():
        return
    loop, fd = asyncio.get_running_loop(), sys.stdin.fileno()

    def readable() -> None:
        if not os.read(fd, 1):
            loop.remove_reader(fd)
            stop()

    loop.add_reader(fd, readable)


def is_supervised() -> bool:
    """Return whether another process has started this one, and others beside it."""
    return SUPERVISED in os.environ
