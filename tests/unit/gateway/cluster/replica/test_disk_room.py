"""When an owner whose disk is full hands over: the numbers, and the time that it waits."""

import pytest

from sluicegate.gateway.cluster.replica.disk_room import FULL_S, DiskWatch, has_room, is_full
from sluicegate.storage.interface import StoreUsage

RESERVE = 32 << 20


def usage(*, disk_free: int, free_in_files: int = 0) -> StoreUsage:
    return StoreUsage(
        used_bytes=1 << 30,
        file_bytes=(1 << 30) + free_in_files,
        map_bytes_max=1 << 40,
        reserve_bytes=RESERVE,
        disk_free_bytes=disk_free,
        log_bytes=0,
        log_records=0,
        checkpoint_bytes=0,
        page_entries=0,
        quarantine_entries=0,
    )


@pytest.mark.parametrize(
    ("disk_free", "free_in_files", "full", "room"),
    [
        (RESERVE - 1, 0, True, False),
        (RESERVE, 0, False, False),
        (0, 5 * RESERVE, False, False),  # consumers have made room, though the file keeps its size
        (0, 8 * RESERVE, False, True),
        (8 * RESERVE, 0, False, True),
    ],
)
def test_a_disk_is_full_or_has_room_or_neither(disk_free: int, free_in_files: int, full: bool, room: bool) -> None:
    found = usage(disk_free=disk_free, free_in_files=free_in_files)
    assert (is_full(found), has_room(found)) == (full, room)


def test_an_owner_hands_over_when_its_disk_stays_full_and_a_standby_has_room() -> None:
    watch, full, well = DiskWatch(), usage(disk_free=0), usage(disk_free=RESERVE)
    assert not watch.hands_over(full, "b", 10.0)
    assert not watch.hands_over(well, "b", 10.0 + FULL_S)  # for a moment
    assert not watch.hands_over(full, "b", 20.0)
    assert not watch.hands_over(full, None, 20.0 + FULL_S)
    assert watch.hands_over(full, "b", 20.5 + FULL_S)
