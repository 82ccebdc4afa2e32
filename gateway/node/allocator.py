"""What the C library does with memory that was freed: kept for what comes next, within a bound."""

import ctypes
from typing import Final

KEPT_BYTES: Final = 32 << 20  # the most that glibc takes for its limit of what is mapped singly

_M_TRIM_THRESHOLD: Final = -1  # malloc.h
_M_MMAP_THRESHOLD: Final = -3


def keep_freed_memory() -> None:
    """Have glibc keep up to `KEPT_BYTES` at the end of its heap, and take buffers up to that size from there.

    By itself it gives a large buffer back to the kernel at once, and the next one's pages are made and zeroed anew:
    half of what a message of 1 MiB costs. A C library that has no `mallopt` goes on as it is.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, KEPT_BYTES)
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
