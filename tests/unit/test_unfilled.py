"""Bytes objects that are filled from outside."""

from pathlib import Path

from sluicegate.protocols.transport.loop.uninitialised_bytes import Unfilled

PAGE_BYTES = 4096


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


def test_what_is_put_to_the_room_is_the_rest_of_the_bytes() -> None:
    unfilled = Unfilled(b"begun ", 10)
    assert len(unfilled.room) == 10
    unfilled.room[:4] = b"and "
    unfilled.filled(4)
    unfilled.room[:] = b"filled"
    unfilled.filled(6)
    assert type(unfilled.whole()) is bytes
    assert unfilled.whole() == b"begun and filled"


def test_the_bytes_are_the_memory_that_was_filled_and_no_copy() -> None:
    unfilled = Unfilled(b"", 1 << 20)
    room = unfilled.room
    unfilled.filled(1 << 20)
    room[:5] = b"later"  # nobody may; here it shows whose memory it is
    assert unfilled.whole()[:5] == b"later"


def test_what_is_announced_and_does_not_come_takes_no_memory() -> None:
    before = resident_bytes()
    waiting = [Unfilled(b"begun", 256 << 20) for _ in range(4)]
    assert resident_bytes() - before < 16 << 20
    assert bytes(waiting[0].room[:0]) == b""
