"""The clock of a lease."""

import time
from typing import Final

# It goes on while the machine sleeps, where the system has such a clock: Linux, and macOS by the other name. On Linux
# CLOCK_MONOTONIC, which `time.monotonic` reads, stands still meanwhile, and so would an owner's lease.
_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def elapsed_s() -> float:
    """Return the seconds since some time in the past; it never goes back, and nobody can set it.

    A virtual machine that its host pauses has no clock that goes on.
    """
    return time.clock_gettime(_CLOCK)
