"""The log of a copy after power failures and disks that refuse: what is missing at its end is taken again."""

import os
from pathlib import Path

import pytest

from sluicegate.storage.errors import DamagedRecord, StoreDamaged, StoreFailed
from sluicegate.storage.interface import CheckpointJob, CommitJob, LogEntry, Table, TableWrite
from sluicegate.storage.log.record import LogRecord, decode_log_record, encode_log_record, record_of
from sluicegate.storage.store.store import SpoolStore

RECORDS = range(1, 9)


def opened(folder: Path, *, is_copy: bool = True, sync: bool = False) -> SpoolStore:
    return SpoolStore.open(
        folder, map_bytes_max=16 << 20, reserve_bytes=1 << 20, sync=sync, incarnation=7, is_copy=is_copy
    )


def record(number: int) -> bytes:
    value = b"%d" % number * 1000
    return encode_log_record(
        record_of(CommitJob(number=number, table_writes=[TableWrite(Table.RETAINED, b"k", value)]))
    )


def decoded(number: int) -> LogRecord:
    return decode_log_record(record(number), "record", is_sound=True)


def copied(folder: Path, *, applied: int = 0) -> None:
    """Make a store that has taken all records, of which some are in its state."""
    store = opened(folder)
    for number in RECORDS:
        store.take([(number, record(number))])
        if number == applied:
            store.checkpoint(CheckpointJob(applied=number, needed_from=1))
    store.close()


def numbers_in(store: SpoolStore) -> list[int]:
    return [entry.number for entry in store.log_records(1)]


def test_records_that_come_together_are_kept_in_order_in_as_many_files_as_they_need(tmp_path: Path) -> None:
    numbers = range(1, 2001)  # of 1 KB, and the first files have 256 KiB
    store = opened(tmp_path)
    taken = store.take([(number, record(number)) for number in numbers])
    assert [each.rows[0].data for each in taken] == [decoded(number).rows[0].data for number in numbers]
    assert len(list((tmp_path / "log").glob("0*.log"))) > 1
    for _ in range(2):
        assert store.last_number == numbers[-1]
        assert [entry.data for entry in store.log_records(1)] == [record(number) for number in numbers]
        store.close()
        store = opened(tmp_path)
    store.close()


def test_before_records_begin_another_file_the_former_one_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(tmp_path, sync=True)
    synced: dict[str, int] = {}  # the bytes that frames have in each file when it is stored last
    real = os.fdatasync

    def noted(descriptor: int) -> None:
        real(descriptor)
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        synced[path] = Path(path).read_bytes().count(b"SGLR")

    monkeypatch.setattr(os, "fdatasync", noted)
    store._log._sync = noted
    store.take([(number, record(number)) for number in range(1, 2001)])
    *former, current = sorted((tmp_path / "log").glob("0*.log"))
    assert former
    assert [synced[str(each)] for each in former] == [each.read_bytes().count(b"SGLR") for each in former]
    assert synced.get(str(current), 0) < current.read_bytes().count(b"SGLR"), "no record waits for the disk"
    store.close()


@pytest.mark.parametrize("written", [0, 2500, 1 << 20], ids=["nothing", "two of four", "all"])
def test_of_records_whose_write_failed_none_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    real = os.pwrite
    failures = 1

    def fails(descriptor: int, data: bytes, offset: int) -> int:
        nonlocal failures
        if failures == 0:
            return real(descriptor, data, offset)
        failures -= 1
        real(descriptor, data[:written], offset)
        raise OSError(5, "Input/output error")

    store = opened(tmp_path)
    store.take([(1, record(1)), (2, record(2))])
    monkeypatch.setattr(os, "pwrite", fails)
    with pytest.raises(StoreFailed):
        store.take([(number, record(number)) for number in range(3, 7)])
    assert numbers_in(store) == [1, 2]
    store.close()
    for is_copy in (False, True):
        store = opened(tmp_path, is_copy=is_copy)
        assert numbers_in(store) == [1, 2]
        assert store.recover().quarantined == []
        store.close()
    store = opened(tmp_path)
    store.take([(number, record(number)) for number in RECORDS[2:]])
    assert numbers_in(store) == list(RECORDS)
    store.close()


def test_nothing_is_taken_of_records_one_of_which_cannot_be_read(tmp_path: Path) -> None:
    store = opened(tmp_path)
    with pytest.raises(DamagedRecord, match="record 2 of the replicated log"):
        store.take([(1, record(1)), (2, record(2)[:-1])])
    assert store.last_number == 0
    store.close()


def damage(folder: Path, number: int, *, has_head: bool) -> None:
    """Overwrite a record, or all but its head."""
    (segment,) = (folder / "log").glob("0*.log")
    data = segment.read_bytes()
    start = data.rindex(b"SGLR", 0, data.index(b"%d" % number * 900))
    size = 1000
    if has_head:
        start += 100
    segment.write_bytes(data[:start] + bytes(size) + data[start + size :])


@pytest.mark.parametrize("has_head", [False, True])
@pytest.mark.parametrize("number", [3, 8])
def test_a_copy_goes_on_before_the_first_record_that_is_missing(tmp_path: Path, number: int, *, has_head: bool) -> None:
    copied(tmp_path, applied=2)
    damage(tmp_path, number, has_head=has_head)
    for _ in range(2):  # also when it was not written before the next start
        store = opened(tmp_path)
        assert store.last_number == number - 1
        assert store.recover().quarantined == []
        store.close()
    store = opened(tmp_path)
    for each in range(number, RECORDS.stop):
        store.take([(each, record(each))])
    store.close()
    store = opened(tmp_path)
    assert store.recover().quarantined == []
    assert [entry.number for entry in store.log_records(1)] == list(RECORDS)
    assert all(entry.data == record(entry.number) for entry in store.log_records(1))
    store.close()


def test_a_record_that_the_state_has_been_made_of_is_damaged_and_not_cut_off(tmp_path: Path) -> None:
    copied(tmp_path, applied=5)
    damage(tmp_path, 3, has_head=True)
    store = opened(tmp_path)
    list(store.recover().journal)
    assert store.last_number == RECORDS[-1]
    assert [entry.is_sound for entry in store.log_records(3)][:2] == [False, True]
    store.close()


def test_a_log_that_nobody_has_a_copy_of_is_damaged_by_a_missing_record(tmp_path: Path) -> None:
    copied(tmp_path, applied=2)
    damage(tmp_path, 4, has_head=False)
    store = opened(tmp_path, is_copy=False)
    assert store.last_number == RECORDS[-1]
    recovery = store.recover()
    list(recovery.journal)
    assert recovery.quarantined
    store.close()


def test_after_a_sync_that_failed_nothing_is_taken_for_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: int) -> None:
        raise OSError(5, "Input/output error")

    store = opened(tmp_path, sync=True)
    for number in RECORDS:
        store.take([(number, record(number))])
    with monkeypatch.context() as patch:
        patch.setattr(store._log, "_sync", fails)
        with pytest.raises(StoreDamaged, match="may be lost"):
            store.checkpoint(CheckpointJob(applied=3, needed_from=1))
    with pytest.raises(StoreDamaged, match="opened again"):  # though the disk would have it now, as far as it says
        store.checkpoint(CheckpointJob(applied=3, needed_from=1))
    with pytest.raises(StoreDamaged):
        store.take([(RECORDS.stop, record(RECORDS.stop))])
    assert store.recover().applied == 0
    store.close()


def test_the_end_of_a_log_is_read_from_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copied(tmp_path)
    (segment,) = (tmp_path / "log").glob("0*.log")
    forgotten: list[str] = []
    real = os.posix_fadvise

    def noted(descriptor: int, offset: int, size: int, advice: int) -> None:
        if advice == os.POSIX_FADV_DONTNEED:
            forgotten.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor, offset, size, advice)

    monkeypatch.setattr(os, "posix_fadvise", noted)
    opened(tmp_path, sync=True).close()
    assert str(segment) in forgotten


def test_a_file_that_is_trimmed_meanwhile_need_not_be_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(tmp_path, sync=True)
    journal = store._log
    size = 200_000
    for number in RECORDS:
        journal.append_copies([LogEntry(number, bytes(size), is_sound=True)])
    real = os.open
    is_trimmed = False

    def trimming(path: str | Path, flags: int, mode: int = 0o777) -> int:
        nonlocal is_trimmed
        if not is_trimmed and str(path).endswith(".log"):
            is_trimmed = True
            journal.trim(RECORDS[-1])
        return real(path, flags, mode)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", trimming)
        journal.sync()
    assert is_trimmed
    store.close()
