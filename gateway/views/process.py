"""Memory and processor time of this process, as the operating system reports them. `/metrics` has the same values."""

import resource
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PAGES: Final = Path("/proc/self/statm")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFigures:
    """The process of a node at one moment."""

    memory_bytes: int  # resident
    cpu_ms_total: int  # of all its threads, user and system


def process_figures() -> ProcessFigures | None:
    """Return the figures of this process; None on a system without /proc."""
    try:
        resident_pages = int(_PAGES.read_text().split()[1])
    except FileNotFoundError:
        return None
    return ProcessFigures(
        memory_bytes=resident_pages * resource.getpagesize(), cpu_ms_total=round(time.process_time() * 1000)
    )
