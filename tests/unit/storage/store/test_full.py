"""A full map or disk: publishes are refused, settling goes on, publishing resumes by itself."""

import contextlib
import errno
import os
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sluicegate.storage.errors import StoreFull
from sluicegate.storage.interface import PageKey, PageWrite, StoreUsage
from sluicegate.storage.records.cursor import CursorRecord
from sluicegate.storage.records.journal import Settlement, encode_journal_record
from sluicegate.storage.store.store import SpoolStore
from support.storage.sample_records import page_bytes, publish_job
from support.storage.store_work import checkpoint, commit
from unit.storage.conftest import OpenStore

RESERVE_BYTES = 256 << 10
KIB = b"x" * 1024


@pytest.fixture
def small_map(tmp_path: Path) -> Iterator[SpoolStore]:
    """A store with a map of 2 MiB."""
    store = SpoolStore.open(tmp_path, map_bytes_max=2 << 20, reserve_bytes=RESERVE_BYTES)
    yield store
    store.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a tmpfs needs root")
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(tmp_path)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"no tmpfs here: {mounted.stderr.strip()}")
    yield tmp_path
    # Lazily: after a failed test the store is still open.
    subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def open_on(folder: Path) -> SpoolStore:
    """Open a store whose segments are small, and whose map is larger than the disk."""
    return SpoolStore.open(folder, map_bytes_max=16 << 20, reserve_bytes=RESERVE_BYTES)


def settlements(partition_id: int, first: int, end: int) -> bytes:
    return encode_journal_record([], [Settlement(partition_id, first, end)])


def publish_until_full(store: SpoolStore) -> tuple[int, StoreFull]:
    """Publish 24 KiB at a time; return the last number that was stored, and the refusal."""
    for number in range(store.recover().next_record_number, 10_000):
        try:
            store.commit(publish_job(number, payload=KIB, count=24))
        except StoreFull as refusal:
            return number - 1, refusal
    raise AssertionError("it never got full")


def page_until_full(store: SpoolStore, *, kib_per_page: int = 8) -> list[int]:
    """Store pages, also in the reserve; return their first sequences."""
    stored: list[int] = []
    while True:
        write = PageWrite(1, page_bytes(len(stored) * 100, payload=KIB, count=kib_per_page))
        try:
            checkpoint(store, pages=[write])
        except StoreFull:
            return stored
        stored.append(len(stored) * 100)


def fill_disk(ballast: Path) -> None:
    """Write until the file system takes no more."""
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)) > 0:
            pass


def journal_numbers(store: SpoolStore) -> list[int]:
    return [number for number, _ in store.recover().journal]


def test_a_full_map_refuses_publishes_and_keeps_what_it_has(small_map: SpoolStore) -> None:
    """A refusal is whole: nothing of the refused job is there."""
    last, refusal = publish_until_full(small_map)

    assert refusal.kind == "map"
    assert last > 20
    assert journal_numbers(small_map) == list(range(1, last + 1))
    assert small_map.usage().used_bytes <= (2 << 20) - RESERVE_BYTES


def test_a_full_map_still_settles_and_pages(small_map: SpoolStore) -> None:
    """Deleting writes too: LMDB copies what it changes. That is what the reserve is for."""
    last, _ = publish_until_full(small_map)

    settled = commit(small_map, record=settlements(1, 1000, 1010), uses_reserve=True)
    moved = PageWrite(1, page_bytes(1010, payload=KIB, count=14))
    checkpoint(small_map, pages=[moved], cursors=[CursorRecord(1, 1010, [], 2000, [])], needed_from=2)

    assert journal_numbers(small_map) == [*range(2, last + 1), settled]
    assert len(small_map.recover().pages) == 1


def test_a_map_that_is_full_of_log_can_be_moved_into_pages(small_map: SpoolStore) -> None:
    """The messages are there twice until the checkpoint has trimmed the log."""
    last, _ = publish_until_full(small_map)

    moved = range(1, last * 3 // 4)
    pages = [PageWrite(1, page_bytes(1000 * number, payload=KIB, count=24)) for number in moved]
    checkpoint(small_map, pages=pages, needed_from=last * 3 // 4)

    assert journal_numbers(small_map) == list(range(last * 3 // 4, last + 1))
    assert len(small_map.recover().pages) == len(moved)


def test_publishing_resumes_once_messages_were_settled(small_map: SpoolStore) -> None:
    """By itself. Again and again, for space that comes back only once would be a leak."""
    for _ in range(20):
        last, _ = publish_until_full(small_map)
        checkpoint(small_map, needed_from=last + 1)
        small_map.commit(publish_job(last + 1, payload=KIB, count=24))

    assert journal_numbers(small_map) == [last + 1]


def test_a_map_that_was_filled_with_the_reserve_can_be_emptied_page_by_page(small_map: SpoolStore) -> None:
    """The worst case: moving to pages took the reserve as well, and every deletion needs room of its own."""
    stored = page_until_full(small_map)

    for first_sequence in stored:
        checkpoint(small_map, deletes=[PageKey(1, first_sequence)])

    assert small_map.recover().pages == []
    small_map.commit(publish_job(1, payload=KIB, count=24))


def test_a_reader_is_not_disturbed_while_a_full_map_is_replaced(small_map: SpoolStore) -> None:
    """The writer moves LMDB's map to reach the reserve; a read under way would then read unmapped memory."""
    checkpoint(small_map, pages=[PageWrite(2, page_bytes(0, payload=KIB, count=60))])
    stopped = threading.Event()

    def read_on() -> int:
        reads = 0
        while not stopped.is_set() or reads == 0:
            (run,) = small_map.read_page(2, 0).runs
            assert run.batch.payloads() == [KIB] * 60
            reads += 1
        return reads

    with ThreadPoolExecutor(1) as reader:
        reads = reader.submit(read_on)
        try:
            for _ in range(2):
                stored = page_until_full(small_map, kib_per_page=64)
                checkpoint(small_map, deletes=[PageKey(1, first) for first in stored])
        finally:
            stopped.set()
        assert reads.result() > 0


def test_a_larger_map_lifts_the_refusal(tmp_path: Path) -> None:
    """An operator raises the limit and starts again."""
    store = SpoolStore.open(tmp_path, map_bytes_max=1 << 20, reserve_bytes=RESERVE_BYTES)
    last, _ = publish_until_full(store)
    store.close()

    store = SpoolStore.open(tmp_path, map_bytes_max=4 << 20, reserve_bytes=RESERVE_BYTES)
    store.commit(publish_job(last + 1, payload=KIB, count=24))

    assert journal_numbers(store) == list(range(1, last + 2))
    store.close()


def test_a_full_disk_refuses_publishes_settles_and_resumes(small_disk: Path) -> None:
    """The reserve of the disk: publishes stop before it is used up."""
    store = open_on(small_disk)
    last, refusal = publish_until_full(store)
    assert refusal.kind == "disk"
    assert journal_numbers(store) == list(range(1, last + 1))

    settled = commit(store, record=settlements(1, 0, 1 << 20), uses_reserve=True)
    checkpoint(store, needed_from=settled)
    store.commit(publish_job(settled + 1, payload=KIB, count=24))

    assert journal_numbers(store) == [settled, settled + 1]
    store.close()


def test_a_start_on_a_full_disk_goes_on_and_can_be_emptied(small_disk: Path) -> None:
    store = open_on(small_disk)
    last, _ = publish_until_full(store)
    store.close()
    fill_disk(small_disk / "ballast")

    store = open_on(small_disk)
    assert journal_numbers(store) == list(range(1, last + 1))
    with pytest.raises(StoreFull, match="disk"):
        store.commit(publish_job(last + 1, payload=KIB, count=24))
    settled = commit(store, record=settlements(1, 0, 1 << 20), uses_reserve=True)
    (small_disk / "ballast").unlink()
    checkpoint(store, needed_from=settled)
    store.commit(publish_job(settled + 1, payload=KIB, count=24))

    assert journal_numbers(store) == [settled, settled + 1]
    store.close()


def test_without_room_for_another_segment_publishes_are_refused_and_settlements_use_the_spare_file(
    store: SpoolStore, monkeypatch: pytest.MonkeyPatch, open_store: OpenStore
) -> None:
    """The space check goes by what statvfs says. Quotas and reserved blocks are met by the allocation only."""

    def no_room(descriptor: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", no_room)
    last, refusal = publish_until_full(store)
    assert refusal.kind == "disk"
    settled = [commit(store, record=settlements(1, 0, 1 << 20), uses_reserve=True) for _ in range(100)]
    assert journal_numbers(store) == [*range(1, last + 1), *settled]
    assert not list((store.folder / "log").glob("spare*"))

    store = open_store()
    assert journal_numbers(store) == [*range(1, last + 1), *settled]
    with pytest.raises(StoreFull, match="disk"):
        commit(store, record=settlements(1, 0, 1 << 20), uses_reserve=True)
    checkpoint(store, needed_from=settled[-1] + 1)
    number = commit(store, record=settlements(1, 0, 1 << 20), uses_reserve=True)
    store.commit(publish_job(number + 1))
    assert journal_numbers(store) == [number, number + 1]


def test_a_disk_that_others_fill_to_the_last_byte_gives_a_refusal_and_the_store_goes_on(small_disk: Path) -> None:
    """The reserve does not bind other writers. LMDB reports a short write as an I/O error: it is a full disk."""
    store = open_on(small_disk)
    store.commit(publish_job(1, payload=KIB, count=24))
    ballast = small_disk / "ballast"
    fill_disk(ballast)

    for _ in range(3):
        with pytest.raises(StoreFull, match="disk"):
            checkpoint(store, pages=[PageWrite(1, page_bytes(1, payload=KIB, count=64))])
    ballast.unlink()
    store.commit(publish_job(2, payload=KIB, count=24))

    assert journal_numbers(store) == [1, 2]
    assert store.recover().pages == []
    store.close()


def test_freed_pages_of_the_data_file_count_as_disk_space() -> None:
    """It never shrinks: a disk that it has filled has room again as soon as consumers have settled."""
    usage = StoreUsage(
        used_bytes=10 << 20,
        file_bytes=90 << 20,
        map_bytes_max=1 << 30,
        reserve_bytes=32 << 20,
        disk_free_bytes=5 << 20,
        log_bytes=0,
        log_records=0,
        checkpoint_bytes=0,
        page_entries=0,
        quarantine_entries=0,
    )
    assert usage.disk_room_bytes() == 85 << 20
