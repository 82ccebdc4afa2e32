"""Large messages are on the disk once: their pages are links into the log, whose files stay as long as needed."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sluicegate.storage.backup.reader import SpoolReader
from sluicegate.storage.backup.restore import restore_backup
from sluicegate.storage.environment.databases import PAGE_KEY
from sluicegate.storage.errors import DamagedRecord
from sluicegate.storage.integrity.salvage_copy import salvage_spool
from sluicegate.storage.interface import CheckpointJob, PageDamage, PageKey, PageWrite
from sluicegate.storage.records.linked_page import is_linked
from sluicegate.storage.records.page import Run, encode_page
from sluicegate.storage.store.store import SpoolStore
from support.storage.linked_pages import (
    PAYLOAD,
    P,
    backup_of,
    contents,
    delete,
    fill_segment,
    kept,
    numbered,
    page_out,
    publish,
    read,
)
from support.storage.log_files import flip
from support.storage.spool_file import flip_raw, get_raw
from support.storage.store_work import commit, trim

MAP_BYTES = 16 << 20
OpenStore = Callable[[], SpoolStore]


def stored(store: SpoolStore, key: PageKey) -> bytes | None:
    """Close the store, and return what its data file has of a page."""
    store.close()
    return get_raw(store.folder, "pages", PAGE_KEY.pack(*key))


def test_a_page_of_large_batches_is_links_and_reads_as_the_page(store: SpoolStore) -> None:
    numbers = publish(store, 3)
    key = page_out(store, numbers)

    assert read(store, key) == contents(numbers)
    data = stored(store, key)
    assert data is not None
    assert is_linked(data)
    assert len(data) < 300, "the messages are in the log"


def test_a_page_is_read_with_each_file_opened_once(store: SpoolStore, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = publish(store, 3)
    key = page_out(store, numbers)
    opened: list[Path] = []

    def open_and_note(path: Path, flags: int, real: Callable[[Path, int], int] = os.open) -> int:
        descriptor = real(path, flags)
        opened.append(path)
        return descriptor

    monkeypatch.setattr(os, "open", open_and_note)
    assert read(store, key) == contents(numbers)
    assert len(opened) == 1


def test_a_page_of_small_batches_has_its_messages(store: SpoolStore) -> None:
    """The caller names no records for it. Nor can a page link to records of which the store does not know the place."""
    numbers = publish(store, 3, payload_bytes=100)
    key = page_out(store, [*numbers], payload_bytes=100)

    data = stored(store, key)
    assert data is not None
    assert not is_linked(data)


def test_a_page_with_other_content_than_the_record_has_its_messages(store: SpoolStore) -> None:
    """A partition may have a selection of a batch."""
    numbers = publish(store, 2)
    runs = [Run(10 * number, numbered(number + 7)) for number in numbers]
    key = PageKey(P, runs[0].first_sequence)
    job = CheckpointJob(
        applied=numbers[-1], needed_from=1, page_writes=[PageWrite(P, encode_page(runs))], log_records={key: numbers}
    )
    store.checkpoint(job)

    assert read(store, key) == {10 * number: b"%d." % (number + 7) for number in numbers}
    data = stored(store, key)
    assert data is not None
    assert not is_linked(data)


def test_a_file_that_pages_link_to_stays_until_the_last_of_them_is_deleted(store: SpoolStore) -> None:
    first = publish(store, 2)
    keys = [page_out(store, first)]
    second = publish(store, 2)
    keys.append(page_out(store, second))
    fill_segment(store)
    assert len(kept(store)) == 1

    delete(store, keys[0])
    assert len(kept(store)) == 1
    assert read(store, keys[1]) == contents(second)

    delete(store, keys[1])
    assert kept(store) == []


def test_a_deleted_partition_lets_its_files_go(store: SpoolStore) -> None:
    page_out(store, publish(store, 2))
    fill_segment(store)
    assert len(kept(store)) == 1

    commit(store, purges=[P])
    trim(store)
    trim(store)
    assert kept(store) == []


def test_links_are_followed_and_counted_after_a_start(store: SpoolStore, open_store: OpenStore) -> None:
    numbers = publish(store, 3)
    key = page_out(store, numbers)
    fill_segment(store)
    store.close()

    store = open_store()
    assert read(store, key) == contents(numbers)
    assert store.recover().quarantined == []
    trim(store)
    assert len(kept(store)) == 1
    delete(store, key)
    assert kept(store) == []


def test_a_segment_that_is_still_in_the_log_at_a_start_is_kept_when_it_is_trimmed(
    store: SpoolStore, open_store: OpenStore
) -> None:
    numbers = publish(store, 3)
    key = page_out(store, numbers)
    store.close()

    store = open_store()
    fill_segment(store)
    assert len(kept(store)) == 1
    assert read(store, key) == contents(numbers)


def test_kept_files_that_nothing_links_to_go_with_the_first_checkpoint(
    store: SpoolStore, open_store: OpenStore
) -> None:
    """A crash between a checkpoint and its trimming leaves them."""
    page_out(store, publish(store, 3))
    fill_segment(store)
    left = kept(store)[0]
    store.close()
    left.with_name("000000000000.kept").write_bytes(left.read_bytes()[:1000])

    store = open_store()
    trim(store)
    assert kept(store) == [left]


def test_a_damaged_batch_in_the_log_costs_that_batch(store: SpoolStore, open_store: OpenStore) -> None:
    numbers = publish(store, 3)
    key = page_out(store, numbers)
    fill_segment(store)
    flip(kept(store)[0], PAYLOAD * 2 + 5_000)

    page = store.read_page(*key)
    assert [run.first_sequence for run in page.runs] == [10 * numbers[0], 10 * numbers[2]]
    assert page.lost == "the checksums of 1 of 3 batches do not match"


def test_the_quarantine_has_the_messages_of_a_linked_page(store: SpoolStore) -> None:
    numbers = publish(store, 3)
    key = page_out(store, numbers)
    job = CheckpointJob(applied=numbers[-1], needed_from=numbers[-1] + 1)
    store.checkpoint(replace(job, page_quarantines=[PageDamage(*key, "torn")]))
    fill_segment(store)

    assert kept(store) == []
    store.close()
    with SpoolReader.open_folder(store.folder) as reader:
        (item,) = reader.quarantine(10)
    assert item.data == encode_page([Run(number * 10, numbered(number)) for number in numbers])


def test_a_missing_file_is_named(store: SpoolStore) -> None:
    key = page_out(store, publish(store, 3))
    fill_segment(store)
    path = kept(store)[0]
    path.unlink()

    with pytest.raises(DamagedRecord, match=f"its messages are in {path}, which does not exist"):
        store.read_page(*key)


def test_a_damaged_directory_row_frees_no_file(store: SpoolStore, open_store: OpenStore) -> None:
    """Its page has the links as well."""
    numbers = publish(store, 3)
    key = page_out(store, numbers)
    fill_segment(store)
    store.close()
    flip_raw(store.folder, "directory", PAGE_KEY.pack(*key), 20)

    store = open_store()
    store.recover()
    trim(store)
    assert read(store, key) == contents(numbers)
    delete(store, key)
    assert kept(store) == []


def test_files_of_which_little_is_linked_are_emptied(store: SpoolStore) -> None:
    """A message here and there must not keep all the room that others had."""
    keys: dict[PageKey, list[int]] = {}
    for _ in range(12):
        numbers = publish(store, 1)
        keys[page_out(store, numbers)] = numbers
        fill_segment(store)
    held = sum(path.stat().st_size for path in kept(store))

    assert held <= 2 * MAP_BYTES // 64 + 12 * 2 * PAYLOAD
    for key, numbers in keys.items():
        assert read(store, key) == contents(numbers)
    delete(store, *keys)
    assert kept(store) == []


def test_the_usage_says_whether_another_checkpoint_empties_files(
    store: SpoolStore, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint empties some of them. A full spool must not wait for the next message to do the rest."""
    monkeypatch.setattr("sluicegate.storage.store.store.REWRITTEN_BYTES", 0)  # one file at a time
    stays: dict[PageKey, list[int]] = {}
    goes: list[PageKey] = []
    for _ in range(8):
        numbers = publish(store, 1)
        stays[page_out(store, numbers)] = numbers
        goes.append(page_out(store, publish(store, 2, payload_bytes=45_000), payload_bytes=45_000))
        fill_segment(store)
    assert not store.usage().is_sparse
    delete(store, *goes)
    assert store.usage().is_sparse
    store.close()

    store = open_store()
    before = len(kept(store))
    checkpoints = 0
    while store.usage().is_sparse:
        trim(store)
        checkpoints += 1
    assert checkpoints > 1
    assert len(kept(store)) == before - checkpoints
    for key, numbers in stays.items():
        assert read(store, key) == contents(numbers)


def test_a_backup_has_the_messages(store: SpoolStore, tmp_path: Path) -> None:
    numbers = publish(store, 3)
    key = page_out(store, numbers)
    fill_segment(store)
    backup_of(store, tmp_path / "backup")

    with SpoolReader.open_backup(tmp_path / "backup") as reader:
        assert read(reader, key) == contents(numbers)
        assert reader.damage == []
    restore_backup(tmp_path / "backup", tmp_path / "restored", incarnation=9, copied=lambda _: None)
    restored = SpoolStore.open(tmp_path / "restored", map_bytes_max=MAP_BYTES, reserve_bytes=1 << 20, sync=False)
    assert read(restored, key) == contents(numbers)
    restored.close()


def test_the_folder_of_a_stopped_node_is_read(store: SpoolStore) -> None:
    numbers = publish(store, 3)
    key = page_out(store, numbers)
    fill_segment(store)
    store.close()

    with SpoolReader.open_folder(store.folder) as reader:
        assert read(reader, key) == contents(numbers)
        assert reader.damage == []


def test_a_salvage_has_the_messages(store: SpoolStore, tmp_path: Path) -> None:
    numbers = publish(store, 3)
    key = page_out(store, numbers)
    fill_segment(store)
    store.close()

    found = salvage_spool(store.folder / "data.mdb", tmp_path / "new", incarnation=42, looked=lambda: None)
    assert found.is_whole()
    salvaged = SpoolStore.open(tmp_path / "new", map_bytes_max=MAP_BYTES, reserve_bytes=1 << 20, sync=False)
    assert read(salvaged, key) == contents(numbers)
    salvaged.close()
