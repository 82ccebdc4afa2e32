"""A spool of format 1, whose journal was in the data file: opened as a whole, whatever interrupts the conversion."""

import lzma
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sluicegate.storage.backup.backup import Backup
from sluicegate.storage.backup.reader import SpoolReader
from sluicegate.storage.backup.restore import restore_backup
from sluicegate.storage.errors import StoreFailed
from sluicegate.storage.interface import CheckpointJob, Recovery, Table
from sluicegate.storage.records.cursor import CursorRecord
from sluicegate.storage.records.journal import Settlement
from sluicegate.storage.store.store import SpoolStore
from support.storage.log_files import segments_in
from support.storage.sample_records import batch, publish_job, rows_of
from support.storage.spool_file import flip_raw

DATA = Path(__file__).parents[3] / "data" / "storage"
FOUND_BY_A_START = [3, 4, 5, 6]  # records 1 and 2 were moved into pages
CALLS_OF_A_CONVERSION = 10  # that change files, at least
KILLED = 9


def old_spool(folder: Path, name: str = "spool_format_1") -> Path:
    """Make a data folder as the release before the log left it: not shut down cleanly, with six records."""
    folder.mkdir()
    (folder / "data.mdb").write_bytes(lzma.decompress((DATA / f"{name}.mdb.xz").read_bytes()))
    return folder


def opened(folder: Path, *, sync: bool = False) -> SpoolStore:
    return SpoolStore.open(folder, map_bytes_max=16 << 20, reserve_bytes=1 << 20, sync=sync)


def check_content(recovery: Recovery, *, later: tuple[int, ...] = ()) -> None:
    """Check that everything is there."""
    records = dict(recovery.journal)
    assert list(records) == [*FOUND_BY_A_START, *later]
    assert rows_of(records[3].entries[0].batch) == rows_of(batch(3))
    assert records[5].settlements == [Settlement(1, 4000, 4002)]
    assert [(page.partition_id, page.summary.first_sequence) for page in recovery.pages] == [
        (1, 1000),
        (1, 2000),
        (9, 50),
    ]
    tables = {table: dict(rows) for table, rows in recovery.tables.items()}
    assert tables[Table.CATALOG] == {b"profile": b"{}"}
    assert tables[Table.RETAINED] == {b"plant/7": b"on"}
    assert tables[Table.SESSIONS] == {b"k" * 600: b"long"}
    assert sorted(recovery.cursors) == [1, 2]
    assert (recovery.incarnation, recovery.next_record_number) == (99, max([6, *later]) + 1)
    assert recovery.quarantined == []


def test_an_old_spool_opens_with_everything_in_it_and_goes_on(tmp_path: Path) -> None:
    folder = old_spool(tmp_path / "data")
    with SpoolReader.open_folder(folder) as reader:
        assert (reader.damage, reader.journal_records_count) == ([], 4)
    store = opened(folder, sync=True)
    recovery = store.recover()
    check_content(recovery)
    assert not recovery.was_clean
    assert recovery.applied < 3, "the cursors may lack the settlements of the records"
    store.commit(publish_job(7))
    for _ in range(2):
        store.close()
        store = opened(folder)
        check_content(store.recover(), later=(7,))
    store.checkpoint(CheckpointJob(applied=7, needed_from=8))
    store.close()
    store = opened(folder)
    assert list(store.recover().journal) == []
    store.close()


def test_an_old_spool_that_was_shut_down_cleanly_still_was(tmp_path: Path) -> None:
    """Its cursors are complete: its messages are no possible duplicates."""
    folder = old_spool(tmp_path / "data", "spool_format_1_clean")
    with SpoolReader.open_folder(folder) as reader:
        assert reader.was_clean
    for _ in range(2):
        store = opened(folder)
        recovery = store.recover()
        check_content(recovery)
        assert (recovery.was_clean, recovery.applied) == (True, 6)
        assert recovery.cursors[1] == CursorRecord(1, 1000, [(4000, 4002)], 1 << 20, [(5000, 5001, 2)])
        store.close()
    store = opened(folder)
    store.commit(publish_job(7))
    store.close()
    store = opened(folder)
    assert not store.recover().was_clean
    store.close()


def test_a_conversion_that_was_interrupted_is_done_again(tmp_path: Path) -> None:
    """Each call that changes a file of the log may be the last one, and so may the one before LMDB's transaction."""
    for calls in range(1, 100):
        folder = old_spool(tmp_path / str(calls))
        has_ended = killed_after(calls, folder)
        store = opened(folder)
        check_content(store.recover())
        store.commit(publish_job(7))
        store.close()
        store = opened(folder)
        check_content(store.recover(), later=(7,))
        store.close()
        shutil.rmtree(folder)
        if has_ended:
            break
    assert calls > CALLS_OF_A_CONVERSION


def killed_after(calls: int, folder: Path) -> bool:
    """Open the spool in another process, which ends at a call; return whether it came to its end before."""
    if (child := os.fork()) == 0:
        left = [calls]
        for name in ("pwrite", "fdatasync", "fsync", "rename", "posix_fallocate"):
            setattr(os, name, ends_after(left, getattr(os, name)))
        opened(folder, sync=True).close()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) in (0, KILLED)
    return status == 0


def ends_after(left: list[int], real: Callable[..., object]) -> Callable[..., object]:
    """Return a call that works until `left` is used up, and ends the process then."""

    def call(*arguments: object, **named: object) -> object:
        left[0] -= 1
        if left[0] < 0:
            os._exit(KILLED)
        return real(*arguments, **named)

    return call


def test_a_log_that_was_begun_is_removed_and_a_strange_one_is_not(tmp_path: Path) -> None:
    """An interrupted conversion leaves copies. Another log would be lost."""
    folder = old_spool(tmp_path / "data")
    before = (folder / "data.mdb").read_bytes()
    opened(folder).close()
    converted = (folder / "data.mdb").read_bytes()
    (folder / "data.mdb").write_bytes(before)
    store = opened(folder)
    check_content(store.recover())
    store.commit(publish_job(7))
    store.close()
    (folder / "data.mdb").write_bytes(before)
    with pytest.raises(StoreFailed, match="is not the log of the data file beside it"):
        opened(folder)
    (folder / "data.mdb").write_bytes(converted)
    store = opened(folder)
    check_content(store.recover(), later=(7,))
    store.close()


def test_a_damaged_record_of_an_old_spool_is_reported_and_the_rest_is_served(tmp_path: Path) -> None:
    folder = old_spool(tmp_path / "data")
    flip_raw(folder, "journal", (4).to_bytes(8, "big"), 40)
    for start in range(2):
        store = opened(folder)
        recovery = store.recover()
        found = [number for number, record in recovery.journal if record.entries]
        assert set(found) >= {3, 5, 6}
        assert [item.where for item in recovery.quarantined] == ["log record 4"][start:]
        store.close()


def test_a_backup_of_an_old_spool_is_restored(tmp_path: Path) -> None:
    """Made by the old release: a data file of format 1. Made after the conversion: its records, and the later ones."""
    folder = old_spool(tmp_path / "data")
    store = opened(folder)
    store.commit(publish_job(7))
    Backup(store, tmp_path / "backup", incarnation=99, taken_ms=1, node="n", release="1").run()
    store.close()
    with SpoolReader.open_backup(tmp_path / "backup") as reader:
        assert (reader.damage, reader.journal_records_count) == ([], 5)
    restore_backup(tmp_path / "backup", tmp_path / "new", incarnation=99, copied=lambda _: None)
    for _ in range(2):
        store = opened(tmp_path / "new")
        check_content(store.recover(), later=(7,))
        store.close()
    assert len(segments_in(tmp_path / "new")) == 1
