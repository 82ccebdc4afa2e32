"""Bytes objects that are filled from outside."""

from pathlib import Path

from sluicegate.protocols.transport.loop.uninitialised_bytes import UninitialisedBytes

PAGE_BYTES = 4096


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


def test_bytes_written_into_the_room_complete_the_whole() -> None:
    memory = UninitialisedBytes(b"begun ", 10)
    assert len(memory.room) == 10
    memory.room[:4] = b"and "
    memory.filled(4)
    memory.room[:] = b"filled"
    memory.filled(6)
    assert type(memory.whole()) is bytes
    assert memory.whole() == b"begun and filled"


def test_the_bytes_are_the_memory_that_was_filled_and_no_copy() -> None:
    memory = UninitialisedBytes(b"", 1 << 20)
    room = memory.room
    memory.filled(1 << 20)
    room[:5] = b"later"  # nobody may; here it shows whose memory it is
    assert memory.whole()[:5] == b"later"


def test_announced_bytes_that_do_not_come_take_no_memory() -> None:
    before = resident_bytes()
    waiting = [UninitialisedBytes(b"begun", 256 << 20) for _ in range(4)]
    assert resident_bytes() - before < 16 << 20
    assert bytes(waiting[0].room[:0]) == b""
