"""The files of the journal: used again without a trace of what they held, and free of appends that failed."""

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sluicegate.storage.errors import CommitInDoubt, StoreFailed, StoreFull
from sluicegate.storage.interface import CheckpointJob
from sluicegate.storage.log.journal import Journal
from sluicegate.storage.store.store import SpoolStore
from support.storage.log_files import segments_in
from support.storage.sample_records import publish_job
from unit.storage.conftest import OpenStore

INCARNATION = 5
SEGMENT_BYTES = 4096


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "log").mkdir()
    return tmp_path


def opened(folder: Path, *, after: int = 0) -> Journal:
    journal = Journal(folder / "log", INCARNATION, segment_bytes=SEGMENT_BYTES, sync=False)
    journal.open_for_appending(after)
    return journal


def records(journal: Journal) -> dict[int, bytes]:
    assert journal.damages == []
    return {entry.number: entry.data for entry in journal.read(1)}


@pytest.mark.parametrize("sizes", [[1 << 20], [3 << 20], [700_000] * 4, [(1 << 20) - 40, 1, 0, 5 << 20, 7]])
def test_a_record_that_takes_several_writes_is_read_as_it_was(folder: Path, sizes: list[int]) -> None:
    journal = opened(folder)
    pieces = [bytes([number]) * size for number, size in enumerate(sizes, 1)]
    journal.append(1, pieces, uses_reserve=False)
    journal.append(2, [b"behind it"], uses_reserve=False)
    journal.close()
    again = Journal(folder / "log", INCARNATION, segment_bytes=SEGMENT_BYTES, sync=False)
    assert records(again) == {1: b"".join(pieces), 2: b"behind it"}


def test_a_file_that_is_used_again_gives_none_of_its_old_records(folder: Path) -> None:
    """Old frames lie behind each new one, at the same places and of the same size."""
    journal = opened(folder)
    kept: dict[int, bytes] = {}
    for number in range(1, 400):
        record = b"%05d" % number * 40
        journal.append(number, [record], uses_reserve=False)
        kept[number] = record
        if number % 7 == 0:
            journal.trim(number - 20)
            first = min(records(journal))
            kept = {each: data for each, data in kept.items() if each >= first}
            assert first <= number - 20 or number < 40
            assert records(journal) == kept
            again = Journal(folder / "log", INCARNATION, segment_bytes=SEGMENT_BYTES, sync=False)
            assert records(again) == kept
            assert (again.torn, again.damages, again.last_number) == ("", [], number)
    journal.close()
    assert len(os.listdir(folder / "log")) < 9


def test_records_of_any_size_fit(folder: Path) -> None:
    """One that is larger than a segment has a file of its own, which is not used again."""
    journal = opened(folder)
    sizes = [0, 1, 7, 8, 3000, 4000, 4096, 10_000, 5, 100_000, 1]
    for number, size in enumerate(sizes, 1):
        journal.append(number, [bytes(size)], uses_reserve=False)
    assert {number: len(data) for number, data in records(opened(folder)).items()} == dict(enumerate(sizes, 1))
    journal.trim(1 << 40)
    assert {path.stat().st_size for path in (folder / "log").glob("spare*")} == {SEGMENT_BYTES}
    journal.close()


GROWN_BYTES = 8 * SEGMENT_BYTES


def growing(folder: Path) -> Journal:
    journal = Journal(folder / "log", INCARNATION, segment_bytes=GROWN_BYTES, first_bytes=SEGMENT_BYTES, sync=False)
    journal.open_for_appending(0)
    return journal


def sizes_in(folder: Path) -> list[int]:
    """Return the sizes of all files, spare ones last."""
    return [path.stat().st_size for path in sorted((folder / "log").iterdir())]


def test_a_log_begins_with_small_files_and_gets_large_ones_as_it_grows(folder: Path) -> None:
    journal = growing(folder)
    assert sizes_in(folder) == [SEGMENT_BYTES] * 2
    for number in range(1, 200):
        journal.append(number, [b"%04d" % number * 250], uses_reserve=False)
    sizes = sizes_in(folder)[:-1]  # without the reserve
    assert sizes == sorted(sizes)
    assert set(sizes) == {SEGMENT_BYTES, 2 * SEGMENT_BYTES, 4 * SEGMENT_BYTES, GROWN_BYTES}
    assert journal.file_bytes() == sum(sizes_in(folder))
    assert len(records(growing(folder))) == 199


def test_a_log_that_is_trimmed_in_time_keeps_its_small_files(folder: Path) -> None:
    journal = growing(folder)
    for number in range(1, 200):
        journal.append(number, [bytes(1000)], uses_reserve=False)
        journal.trim(number)
        journal.prepare()
    assert sizes_in(folder) == [SEGMENT_BYTES] * len(sizes_in(folder))
    assert len(sizes_in(folder)) <= 4


def test_a_log_that_has_grown_gives_its_small_files_up_and_is_as_large_at_the_next_start(folder: Path) -> None:
    journal = growing(folder)
    for number in range(1, 200):
        journal.append(number, [bytes(1000)], uses_reserve=False)
    journal.trim(199)
    journal.prepare()
    journal.close()
    assert set(sizes_in(folder)) == {SEGMENT_BYTES, GROWN_BYTES}, "the first reserve, until it is used"
    journal = growing(folder)
    for number in range(200, 300):
        journal.append(number, [bytes(1000)], uses_reserve=False)
        journal.trim(number)
        journal.prepare()
    assert set(sizes_in(folder)) == {GROWN_BYTES}
    assert len(sizes_in(folder)) <= 4


def test_a_record_longer_than_the_files_makes_them_larger_unless_it_is_longer_than_any(folder: Path) -> None:
    journal = growing(folder)
    journal.append(1, [bytes(GROWN_BYTES)], uses_reserve=False)
    journal.append(2, [bytes(3 * SEGMENT_BYTES)], uses_reserve=False)
    journal.append(3, [bytes(SEGMENT_BYTES)], uses_reserve=False)
    journal.close()
    assert sizes_in(folder)[1:] == [4 * SEGMENT_BYTES] * 2 + [SEGMENT_BYTES] * 2
    assert {number: len(data) for number, data in records(growing(folder)).items()} == {
        1: GROWN_BYTES,
        2: 3 * SEGMENT_BYTES,
        3: SEGMENT_BYTES,
    }


@pytest.mark.parametrize("uses_reserve", [False, True])
def test_on_a_full_disk_the_reserve_is_used_if_the_record_fits_it(
    monkeypatch: pytest.MonkeyPatch, folder: Path, uses_reserve: bool
) -> None:
    journal = growing(folder)
    allocate = Failing(monkeypatch, "posix_fallocate", errno.ENOSPC)
    allocate.failures = 1 << 20
    for number in range(1, 4):
        journal.append(number, [bytes(1000)], uses_reserve=False)
    with pytest.raises(OSError, match="No space"):
        journal.append(4, [bytes(SEGMENT_BYTES)], uses_reserve=uses_reserve)
    if uses_reserve:
        journal.append(4, [bytes(2000)], uses_reserve=True)
        assert len(records(growing(folder))) == 4
    else:
        with pytest.raises(OSError, match="No space"):
            journal.append(4, [bytes(2000)], uses_reserve=False)


def test_a_spare_file_whose_allocation_was_interrupted_is_removed(folder: Path) -> None:
    (folder / "log" / "spare-7.log").write_bytes(bytes(100))
    journal = growing(folder)
    assert sizes_in(folder) == [SEGMENT_BYTES] * 2
    journal.append(1, [b"record"], uses_reserve=False)
    assert records(journal) == {1: b"record"}


def test_the_newest_segment_is_never_trimmed_while_it_begins(folder: Path) -> None:
    """The trim comes from another thread."""
    journal = opened(folder)
    stopped = threading.Event()
    failures: list[BaseException] = []

    def trim() -> None:
        try:
            while not stopped.is_set():
                journal.trim(journal.last_number)
        except BaseException as error:
            failures.append(error)

    trimming = threading.Thread(target=trim)
    trimming.start()
    for number in range(1, 1500):
        journal.append(number, [b"x" * 1500], uses_reserve=False)
    stopped.set()
    trimming.join()
    assert failures == []
    assert max(records(journal)) == max(records(opened(folder))) == 1499
    journal.close()


class Failing:
    """A system call that fails when a test wants it to, after it did its work or before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str, code: int = errno.EIO) -> None:
        self.calls = 0
        self.failures = 0  # the next so many calls fail
        self.works_before = False
        self.then_fails: Failing | None = None  # another call that fails from then on
        self._real: Callable[..., int | None] = getattr(os, name)
        self._code = code
        monkeypatch.setattr(os, name, self)

    def __call__(self, *arguments: object, **named: object) -> int | None:
        self.calls += 1
        if self.failures == 0:
            return self._real(*arguments, **named)
        self.failures -= 1
        if self.works_before:
            self._real(*arguments, **named)
        if self.then_fails is not None:
            self.then_fails.failures = 1 << 20
        raise OSError(self._code, os.strerror(self._code))


@pytest.mark.parametrize("name", ["pwrite", "fdatasync"])
@pytest.mark.parametrize("works_before", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("restarts", [False, True], ids=["goes on", "restarts"])
def test_an_append_that_failed_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    open_store: OpenStore,
    name: str,
    works_before: bool,
    restarts: bool,
) -> None:
    """Its publishers were told so. The next commit works, and a later start agrees."""
    failing = Failing(monkeypatch, name)
    store = open_store()
    store.commit(publish_job(1))
    failing.failures, failing.works_before = 1, works_before
    with pytest.raises(StoreFailed):
        store.commit(publish_job(2))
    for _ in range(2):
        assert numbers_in(store) == [1]
        if not restarts:
            break
        store = open_store()
    store.commit(publish_job(3))
    failing.failures = 1
    with pytest.raises(StoreFailed):
        store.commit(publish_job(4))
    store.commit(publish_job(5))
    for _ in range(2):
        assert numbers_in(store) == [1, 3, 5]
        assert store.recover().quarantined == []
        store = open_store()


def test_an_append_is_taken_back_even_when_nothing_can_be_written_for_a_while(
    monkeypatch: pytest.MonkeyPatch, open_store: OpenStore
) -> None:
    """The record stays on the disk; the header of the next segment says that it does not count."""
    pwrite, fdatasync = Failing(monkeypatch, "pwrite"), Failing(monkeypatch, "fdatasync")
    store = open_store()
    store.commit(publish_job(1))
    fdatasync.failures, fdatasync.then_fails = 1, pwrite
    for _ in range(3):
        with pytest.raises(CommitInDoubt, match="cannot be taken back"):
            store.commit(publish_job(2))
        store.checkpoint(CheckpointJob(applied=1, needed_from=2))
        assert numbers_in(store) == []
    pwrite.failures = 0
    fdatasync.failures, fdatasync.then_fails = 1, None  # that of the overwritten frame
    store.commit(publish_job(2, payload=b"again"))
    for _ in range(2):
        assert payloads_in(store) == {2: b"again"}
        store = open_store()


def test_a_record_in_doubt_is_there_after_a_start_and_so_it_was_not_refused(
    monkeypatch: pytest.MonkeyPatch, open_store: OpenStore
) -> None:
    pwrite, fdatasync = Failing(monkeypatch, "pwrite"), Failing(monkeypatch, "fdatasync")
    store = open_store()
    store.commit(publish_job(1))
    fdatasync.failures, fdatasync.then_fails = 1, pwrite
    with pytest.raises(CommitInDoubt):
        store.commit(publish_job(2))
    pwrite.failures = 0
    assert numbers_in(open_store()) == [1, 2]


def test_a_record_that_was_in_doubt_is_refused_once_it_is_void(
    monkeypatch: pytest.MonkeyPatch, open_store: OpenStore
) -> None:
    """Also where no later segment can be begun, as on a full disk."""
    fdatasync, rename = Failing(monkeypatch, "fdatasync"), Failing(monkeypatch, "rename")
    store = open_store()
    store.commit(publish_job(1))
    fdatasync.failures = 2
    with pytest.raises(CommitInDoubt):
        store.commit(publish_job(2))
    rename.failures = 1
    with pytest.raises(StoreFailed) as failed:
        store.commit(publish_job(2))
    assert not isinstance(failed.value, CommitInDoubt)
    assert numbers_in(open_store()) == [1]


def test_a_segment_that_could_not_begin_is_begun_again(monkeypatch: pytest.MonkeyPatch, open_store: OpenStore) -> None:
    """Each call between the spare file and the first record may fail."""
    calls = [Failing(monkeypatch, name) for name in ("open", "pwrite", "fdatasync", "rename", "fsync")]
    for failing in calls:
        store = open_store()
        number = store.recover().next_record_number
        failing.failures = 1
        with pytest.raises(StoreFailed):
            store.commit(publish_job(number))
        store.commit(publish_job(number + 1))
    store = open_store()
    assert len(numbers_in(store)) == len(calls)
    assert store.recover().quarantined == []
    store.checkpoint(CheckpointJob(applied=number + 1, needed_from=number + 2))
    assert segments_in(store.folder) == []


def test_without_space_an_append_is_refused_and_the_next_one_works(
    monkeypatch: pytest.MonkeyPatch, store: SpoolStore, open_store: OpenStore
) -> None:
    pwrite = Failing(monkeypatch, "pwrite", errno.ENOSPC)
    pwrite.failures = 1
    with pytest.raises(StoreFull, match="disk"):
        store.commit(publish_job(1))
    store.commit(publish_job(1))
    for _ in range(2):
        assert numbers_in(store) == [1]
        store = open_store()


def test_a_write_that_the_system_ends_early_is_continued(
    monkeypatch: pytest.MonkeyPatch, store: SpoolStore, open_store: OpenStore
) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, offset: pwrite(descriptor, data[:50], offset))
    store.commit(publish_job(1))
    store.commit(publish_job(2))
    assert numbers_in(open_store()) == [1, 2]


def numbers_in(store: SpoolStore) -> list[int]:
    return [number for number, _ in store.recover().journal]


def payloads_in(store: SpoolStore) -> dict[int, bytes]:
    return {number: record.entries[0].batch.payloads()[0] for number, record in store.recover().journal}


def test_an_append_is_at_hand_while_the_file_takes_the_record(folder: Path) -> None:
    """The first one begins a file, and so does each for which the present one has no room."""
    journal = opened(folder)
    assert not journal.has_room(0)
    sizes: list[tuple[int, bool]] = []
    for number in range(1, 40):
        had_room = journal.has_room(500)
        end = journal.append(number, [bytes(500)], uses_reserve=False)
        sizes.append((end.segment, had_room))
    firsts = [
        had_room
        for (segment, had_room), before in zip(sizes, [(0, False), *sizes], strict=False)
        if segment != before[0]
    ]
    assert len(firsts) > 2
    assert not any(firsts)
    assert sum([had_room for _, had_room in sizes]) == len(sizes) - len(firsts)
    journal.close()


def test_after_an_append_that_failed_none_is_at_hand(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = opened(folder)
    journal.append(1, [b"kept"], uses_reserve=False)
    assert journal.has_room(100)

    def refused(*_: object) -> int:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(os, "pwrite", refused)
    with pytest.raises(OSError, match="input/output"):
        journal.append(2, [b"lost"], uses_reserve=False)
    assert not journal.has_room(100)
    journal.close()
