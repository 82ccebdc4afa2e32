"""Linked pages, and the rest of the store, when something about them is damaged, missing, or cannot be read."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sluicegate.storage.backup.backup import Backup
from sluicegate.storage.backup.reader import SpoolReader
from sluicegate.storage.environment.databases import PAGE_KEY
from sluicegate.storage.errors import BackupEnded, DamagedRecord
from sluicegate.storage.integrity.salvage_copy import salvage_spool
from sluicegate.storage.interface import CheckpointJob, CommitJob, PageKey, PageWrite
from sluicegate.storage.records.journal import JournalEntry, Match, batch_spans, encode_journal_record
from sluicegate.storage.records.linked_page import Link, is_linked
from sluicegate.storage.records.page import Run, encode_page
from sluicegate.storage.store.store import SpoolStore
from support.storage.linked_pages import (
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
from support.storage.log_files import flip, frames_in
from support.storage.spool_file import flip_raw, get_raw
from support.storage.store_work import next_number, trim
from support.storage.tree_files import walked

MAP_BYTES = 16 << 20
PAGE_BYTES = 4096  # of LMDB
LINKS_AT = 100  # an offset in the links of a page
OpenStore = Callable[[], SpoolStore]


def test_damaged_links_of_a_page_are_read_from_the_directory(store: SpoolStore, open_store: OpenStore) -> None:
    numbers = publish(store, 3)
    key = page_out(store, numbers)
    store.close()
    flip_raw(store.folder, "pages", PAGE_KEY.pack(*key), LINKS_AT)

    store = open_store()
    assert read(store, key) == contents(numbers)
    store.close()
    with SpoolReader.open_folder(store.folder) as reader:
        assert read(reader, key) == contents(numbers)


def test_a_backup_takes_damaged_links_of_a_page_from_the_directory(
    store: SpoolStore, open_store: OpenStore, tmp_path: Path
) -> None:
    numbers = publish(store, 3)
    key = page_out(store, numbers)
    store.close()
    flip_raw(store.folder, "pages", PAGE_KEY.pack(*key), LINKS_AT)

    store = open_store()
    backup_of(store, tmp_path / "backup")
    with SpoolReader.open_backup(tmp_path / "backup") as reader:
        assert read(reader, key) == contents(numbers)


def test_a_backup_has_the_messages_of_a_page_whose_directory_row_is_damaged(
    store: SpoolStore, open_store: OpenStore, tmp_path: Path
) -> None:
    numbers = publish(store, 3)
    key = page_out(store, numbers)
    store.close()
    flip_raw(store.folder, "directory", PAGE_KEY.pack(*key), 4)

    store = open_store()
    Backup(store, tmp_path / "backup", incarnation=1, taken_ms=0, node="node", release="0").run()
    with SpoolReader.open_backup(tmp_path / "backup") as reader:
        assert read(reader, key) == contents(numbers)


def test_a_page_with_damaged_links_stops_no_backup(store: SpoolStore, open_store: OpenStore, tmp_path: Path) -> None:
    lost = page_out(store, publish(store, 1))
    numbers = publish(store, 1)
    key = page_out(store, numbers)
    store.close()
    flip_raw(store.folder, "pages", PAGE_KEY.pack(*lost), LINKS_AT)
    flip_raw(store.folder, "directory", PAGE_KEY.pack(*lost), LINKS_AT)

    store = open_store()
    backup_of(store, tmp_path / "backup")
    with SpoolReader.open_backup(tmp_path / "backup") as reader:
        assert read(reader, key) == contents(numbers)
        with pytest.raises(DamagedRecord):
            read(reader, lost)


def test_a_salvage_takes_damaged_links_of_a_page_from_the_directory(store: SpoolStore, tmp_path: Path) -> None:
    numbers = publish(store, 3)
    key = page_out(store, numbers)
    store.close()
    flip_raw(store.folder, "pages", PAGE_KEY.pack(*key), LINKS_AT)

    found = salvage_spool(store.folder / "data.mdb", tmp_path / "new", incarnation=42, looked=lambda: None)
    assert found.is_whole()
    salvaged = SpoolStore.open(tmp_path / "new", map_bytes_max=MAP_BYTES, reserve_bytes=1 << 20, sync=False)
    assert read(salvaged, key) == contents(numbers)
    salvaged.close()


def test_a_missing_file_costs_only_the_batches_in_it(store: SpoolStore) -> None:
    first = publish(store, 1)
    for _ in range(3):
        publish(store, 1, payload_bytes=200_000)
    last = publish(store, 1)
    key = page_out(store, [*first, *last])
    fill_segment(store)
    kept(store)[0].unlink()

    assert read(store, key) == contents(last)


def test_a_kept_file_that_cannot_be_read_stops_no_checkpoint(store: SpoolStore) -> None:
    """Its messages stay where they are, and wait; other files are emptied as before."""
    keys: dict[PageKey, list[int]] = {}
    unreadable = Path()
    for turn in range(12):
        numbers = publish(store, 1)
        keys[page_out(store, numbers)] = numbers
        fill_segment(store)
        if turn == 0:
            unreadable = kept(store)[0].rename(store.folder / "aside")
            (store.folder / "log" / "000000000001.kept").mkdir()  # reading it fails

    place = store.folder / "log" / "000000000001.kept"
    place.rmdir()
    unreadable.rename(place)
    for key, numbers in keys.items():
        assert read(store, key) == contents(numbers)
    assert len(kept(store)) < 12


def test_a_record_that_cannot_be_read_back_is_written_into_the_page(store: SpoolStore) -> None:
    """The messages are in memory: a bad sector of the log must not keep them there."""
    numbers = publish(store, 3)
    path = frames_in(store.folder)[0].path
    path.rename(store.folder / "aside")
    path.mkdir()
    key = page_out(store, numbers)
    assert read(store, key) == contents(numbers)
    path.rmdir()
    (store.folder / "aside").rename(path)


def test_a_record_whose_head_is_damaged_is_not_linked_to(store: SpoolStore) -> None:
    """Where its batches are is not known then."""
    number = next_number(store)
    entries = [JournalEntry(numbered(each), [Match(1, 10 * each, None)]) for each in (1, 2)]
    record = encode_journal_record(entries, [])
    store.commit(CommitJob(number=number, record=record))
    frame = frames_in(store.folder)[-1]
    sizes_at = batch_spans(record)[0].start - 8 - 2 * 8 - 2 * 4  # before them, checksums, and the head's own
    flip(frame.path, frame.end - len(record) + sizes_at)

    key = PageKey(1, 20)
    page = PageWrite(1, encode_page([Run(20, numbered(2))]))
    job = CheckpointJob(applied=number, needed_from=number + 1, page_writes=[page], log_records={key: [number]})
    store.checkpoint(job)
    assert read(store, key) == {20: b"2."}


def test_a_missing_file_that_is_no_longer_needed_stops_no_checkpoint(store: SpoolStore) -> None:
    key = page_out(store, publish(store, 3))
    fill_segment(store)
    kept(store)[0].unlink()
    delete(store, key)
    assert kept(store) == []


def test_no_page_is_rewritten_while_a_backup_holds_the_log(store: SpoolStore) -> None:
    """No file would go, and each checkpoint would write more pages."""
    keys: list[PageKey] = []
    for _ in range(12):
        keys.append(page_out(store, publish(store, 4, payload_bytes=28_000), payload_bytes=28_000))
        fill_segment(store)
    with store.log_held():
        delete(store, *keys[:8])
        trim(store)
        assert len(kept(store)) == 12
    trim(store)
    assert len(kept(store)) == 4
    store.close()
    assert all(is_linked(get_raw(store.folder, "pages", PAGE_KEY.pack(*key))) for key in keys[8:])


def fan_out(store: SpoolStore, partitions: range, payload_bytes: int) -> list[PageKey]:
    """Commit one batch for many partitions, and move it into a page of each."""
    number = next_number(store)
    batch = numbered(number, payload_bytes=payload_bytes)
    matches = [Match(each, 10, None) for each in partitions]
    store.commit(CommitJob(number=number, record=encode_journal_record([JournalEntry(batch, matches)], [])))
    pages = [PageWrite(each, encode_page([Run(10, batch)])) for each in partitions]
    keys = [PageKey(each, 10) for each in partitions]
    job = CheckpointJob(
        applied=number, needed_from=number + 1, page_writes=pages, log_records={key: [number] for key in keys}
    )
    store.checkpoint(job)
    return keys


def test_a_backup_has_room_for_messages_that_many_queues_share(store: SpoolStore, tmp_path: Path) -> None:
    """They are in the log once, and in each of its pages."""
    keys = fan_out(store, range(1, 71), 500_000)
    backup_of(store, tmp_path / "backup")
    with SpoolReader.open_backup(tmp_path / "backup") as reader:
        assert all(len(reader.read_page(*key).runs) == 1 for key in keys)


def test_a_salvage_has_room_for_messages_that_many_queues_share(store: SpoolStore, tmp_path: Path) -> None:
    fan_out(store, range(1, 81), 500_000)
    store.close()
    found = salvage_spool(store.folder / "data.mdb", tmp_path / "new", incarnation=42, looked=lambda: None)
    assert found.is_whole()


@pytest.mark.parametrize("tables", [["pages"], ["directory"], ["pages", "directory"]])
def test_a_salvage_finds_links_below_zeroed_roots(store: SpoolStore, tmp_path: Path, tables: list[str]) -> None:
    """Pages and directory have the same rows then, and either will do."""
    keys = fan_out(store, range(1, 151), 10_000)
    store.close()
    data_file = store.folder / "data.mdb"
    data = bytearray(data_file.read_bytes())
    for table in tables:
        root = walked(data_file).trees[table].root.root
        data[root * PAGE_BYTES : (root + 1) * PAGE_BYTES] = bytes(PAGE_BYTES)
    data_file.write_bytes(data)

    found = salvage_spool(data_file, tmp_path / "new", incarnation=42, looked=lambda: None)
    assert found.pages_lost == []
    assert found.unclaimed == 0
    salvaged = SpoolStore.open(tmp_path / "new", map_bytes_max=MAP_BYTES, reserve_bytes=1 << 20, sync=False)
    assert len(salvaged.recover().pages) == len(keys)
    assert all(len(salvaged.read_page(*key).runs) == 1 for key in keys)
    salvaged.close()


def test_a_backup_that_is_cancelled_follows_no_more_links(store: SpoolStore, tmp_path: Path) -> None:
    page_out(store, publish(store, 3))
    backup = Backup(store, tmp_path / "backup", incarnation=1, taken_ms=0, node="node", release="0")
    followed: list[Link] = []
    fetch = store.read_linked

    def cancelled_meanwhile(link: Link) -> bytes | None:
        followed.append(link)
        backup.end("it was cancelled")
        return fetch(link)

    store.read_linked = cancelled_meanwhile  # type: ignore[method-assign]
    with pytest.raises(BackupEnded):
        backup.run()
    assert len(followed) == 1
