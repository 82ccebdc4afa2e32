"""The processor time, resident memory and writes of a process and its children, read from /proc."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")  # 100 almost everywhere: runs of a second or more, not less
TICK_S: Final = 1 / _TICKS_PER_S  # the resolution of processor time
_STAT_UTIME: Final = 11  # counted from the field after the command's closing parenthesis, proc(5)
_STAT_STIME: Final = 12
MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident memory of a process tree."""

    rss_bytes: int  # everything, pages of a mapped spool file included
    anonymous_bytes: int  # what the process allocated itself

    def minus(self, other: "Memory") -> "Memory":
        """Return the growth since `other`."""
        return Memory(self.rss_bytes - other.rss_bytes, self.anonymous_bytes - other.anonymous_bytes)


def cpu_seconds(pid: int) -> float:
    """Return user plus system time of the process and its living descendants, all threads."""
    ticks = 0
    for text in _of_tree(pid, "stat"):
        fields = text.rpartition(")")[2].split()
        ticks += int(fields[_STAT_UTIME]) + int(fields[_STAT_STIME])
    return ticks / _TICKS_PER_S


def memory(pid: int) -> Memory:
    """Return the resident memory of the process and its living descendants."""
    rss_kib = anonymous_kib = 0
    for text in _of_tree(pid, "status"):
        for line in text.splitlines():
            if line.startswith("VmRSS:"):
                rss_kib += int(line.split()[1])
            elif line.startswith("RssAnon:"):
                anonymous_kib += int(line.split()[1])
    return Memory(rss_bytes=rss_kib * 1024, anonymous_bytes=anonymous_kib * 1024)


def written_bytes(pid: int) -> int:
    """Return the bytes that the process and its living descendants have handed to disks: /proc/PID/io, write_bytes."""
    total = 0
    for text in _of_tree(pid, "io"):
        for line in text.splitlines():
            if line.startswith("write_bytes:"):
                total += int(line.split()[1])
    return total


def _of_tree(pid: int, name: str) -> list[str]:
    """Return a file of the process, which must exist, and of each descendant that has not ended meanwhile."""
    texts: list[str] = []
    found = [pid]
    for member in found:  # grows while it is walked
        try:
            texts.append(Path(f"/proc/{member}/{name}").read_text())
            threads = os.listdir(f"/proc/{member}/task")
        except (FileNotFoundError, ProcessLookupError):
            if member == pid:
                raise
            continue
        for thread in threads:
            found += _children(member, thread)
    return texts


def _children(process: int, thread: str) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{process}/task/{thread}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):  # the thread has ended
        return []
