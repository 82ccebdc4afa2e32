"""When an owner whose disk is full hands the broker over to a standby whose disk is not.

All replicas have the same messages, so a full map, quota or log is full at each of them; a disk is not. What counts as
full and what as room are far apart: a broker goes back only when the disk of the next owner has been filled meanwhile.
"""

from typing import Final, final

from sluicegate.storage.interface import StoreUsage

FULL_RESERVES: Final = 4  # so many times the reserve is left, with what is free in the files, and the disk is full
ROOM_RESERVES: Final = 8  # so many times the reserve is room
FULL_S: Final = 5.0  # a disk that is full for less may have room again: a checkpoint frees some


def is_full(usage: StoreUsage) -> bool:
    """Return whether publishers are refused, or soon will be, because the disk here is full."""
    reserve = usage.reserve_bytes
    return usage.disk_free_bytes < reserve and usage.disk_room_bytes() < FULL_RESERVES * reserve


def has_room(usage: StoreUsage) -> bool:
    """Return whether the disk here has room for a broker whose owner has none."""
    return usage.disk_room_bytes() >= ROOM_RESERVES * usage.reserve_bytes


@final
class DiskWatch:
    """The watch of an owner. By the monotonic clock."""

    def __init__(self) -> None:
        self._full_since_s: float | None = None

    def hands_over(self, usage: StoreUsage, successor: str | None, now_s: float) -> bool:
        """Return whether the owner hands over to a standby with room, None: there is none."""
        if not is_full(usage):
            self._full_since_s = None
            return False
        if self._full_since_s is None:
            self._full_since_s = now_s
        return successor is not None and now_s - self._full_since_s >= FULL_S
