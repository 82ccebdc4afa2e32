"""Backups of a store in use: whole or not there, consistent, and brought back under another identity."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sluicegate.storage.backup.backup import Backup
from sluicegate.storage.backup.folder import (
    NOTE_FILE,
    PARTIAL_FILE,
    BackupNote,
    locked_partial,
    read_note,
    remove_leftovers,
)
from sluicegate.storage.backup.reader import SpoolReader
from sluicegate.storage.backup.restore import restore_backup
from sluicegate.storage.environment.folder_lock import DATA_FILE
from sluicegate.storage.errors import BackupEnded, BackupRefused, FolderInUse, UnsupportedFormat
from sluicegate.storage.interface import CheckpointJob, PageWrite, Reservation, Table, TableWrite
from sluicegate.storage.records.cursor import CursorRecord
from sluicegate.storage.store.store import SPOOL_FULL, SpoolStore
from support.storage.sample_records import page_bytes, publish_job
from support.storage.store_work import checkpoint, commit
from unit.storage.conftest import OpenStore

KIB = b"x" * 1024


class HookedStore:
    """A store whose copy calls somebody with each piece: where a test does what is to happen meanwhile."""

    def __init__(self, store: SpoolStore, hook: Callable[[], object]) -> None:
        self._store = store
        self._hook = hook
        self.usage = store.usage

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def stream_copy(self, sink: Callable[[bytes], None]) -> None:
        def hooked(piece: bytes) -> None:
            self._hook()
            sink(piece)

        self._store.stream_copy(hooked)


def backup_of(store: object, folder: Path) -> Backup:
    return Backup(store, folder, incarnation=7, taken_ms=1_700_000_000_000, node="n", release="1")  # type: ignore[arg-type]  # a store, or one with a hook


def filled(store: SpoolStore, count: int = 20) -> None:
    """Commit some records and a row, and store a cursor and pages."""
    for number in range(1, count + 1):
        store.commit(publish_job(number, payload=KIB, count=24))
    commit(store, rows=[TableWrite(Table.CATALOG, b"k", b"v")])
    pages = [PageWrite(2, page_bytes(100 * number, payload=KIB, count=24)) for number in range(count)]
    checkpoint(store, pages=pages, cursors=[CursorRecord(1, 5, [], 9, [])])


def restored(backup: Path, folder: Path, incarnation: int = 99) -> SpoolStore:
    restore_backup(backup, folder, incarnation=incarnation, copied=lambda _: None)
    return SpoolStore.open(folder, map_bytes_max=16 << 20, reserve_bytes=1 << 20)


def test_a_backup_has_what_was_committed_before_it_and_no_part_of_what_comes_later(
    store: SpoolStore, tmp_path: Path
) -> None:
    """Spark reference 3.1: a consistent copy. Commits go on meanwhile: it has those up to some moment."""
    filled(store)
    meanwhile = iter(range(22, 1000))

    note = backup_of(HookedStore(store, lambda: store.commit(publish_job(next(meanwhile)))), tmp_path / "b" / "1").run()

    assert sorted(os.listdir(tmp_path / "b" / "1")) == sorted([DATA_FILE, NOTE_FILE])
    assert read_note(tmp_path / "b" / "1") == note
    assert (note.incarnation, note.node, note.taken_ms) == (7, "n", 1_700_000_000_000)
    again = restored(tmp_path / "b" / "1", tmp_path / "data")
    recovery = again.recover()
    numbers = [number for number, _ in recovery.journal]
    assert numbers == [*range(1, 21), *range(22, numbers[-1] + 1)]
    assert [page.partition_id for page in recovery.pages] == [2] * 20
    assert recovery.cursors[1].floor == 5
    assert dict(recovery.tables[Table.CATALOG]) == {b"k": b"v"}
    assert recovery.quarantined == []
    again.close()
    assert len(list(store.recover().journal)) > 20, "commits were made meanwhile"


def test_a_restored_spool_is_another_incarnation_and_was_not_closed_in_order(store: SpoolStore, tmp_path: Path) -> None:
    """What it numbers from now on are other messages; and what it holds may have been delivered since."""
    filled(store)
    store.mark_clean()
    backup_of(store, tmp_path / "backup").run()

    again = restored(tmp_path / "backup", tmp_path / "data", incarnation=12345)

    recovery = again.recover()
    assert recovery.incarnation == 12345
    assert not recovery.was_clean
    again.close()


def test_nothing_is_left_of_a_backup_that_is_ended(store: SpoolStore, tmp_path: Path) -> None:
    filled(store)
    backup = backup_of(HookedStore(store, lambda: backup.end("it was cancelled")), tmp_path / "b" / "1")

    with pytest.raises(BackupEnded, match="it was cancelled"):
        backup.run()

    assert os.listdir(tmp_path / "b") == []
    assert backup_of(store, tmp_path / "b" / "1").run().data_bytes > 0, "and another one can be made"


class Meanwhile:
    """Something that cannot be done before a copy has ended, begun by the first piece of it on a thread of its own."""

    def __init__(self, deed: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=deed)

    def __call__(self) -> None:
        if self._thread.ident is None:
            self._thread.start()
        self._thread.join(0.05)  # time to ask for the end of the copy; there are many pieces

    def join(self) -> None:
        self._thread.join()


def test_a_store_that_is_closed_ends_its_backup(store: SpoolStore, tmp_path: Path) -> None:
    filled(store, count=60)
    closing = Meanwhile(store.close)

    with pytest.raises(BackupEnded, match="closed"):
        backup_of(HookedStore(store, closing), tmp_path / "b" / "1").run()
    closing.join()

    assert os.listdir(tmp_path / "b") == []


def test_a_spool_that_becomes_full_ends_its_backup_and_takes_its_room_back(tmp_path: Path) -> None:
    """What is settled while a backup is made cannot be used again before its end: consumers go first."""
    store = SpoolStore.open(tmp_path / "spool", map_bytes_max=2 << 20, reserve_bytes=256 << 10)
    stored = page_until_almost_full(store)
    moving = Meanwhile(lambda: store.checkpoint(MORE_PAGES))

    with pytest.raises(BackupEnded, match=SPOOL_FULL):
        backup_of(HookedStore(store, moving), tmp_path / "b" / "1").run()
    moving.join()

    assert len(store.recover().pages) == stored + 8
    store.close()


def test_a_full_spool_goes_on_though_the_disk_of_its_backup_does_not_answer(tmp_path: Path) -> None:
    store = SpoolStore.open(tmp_path / "spool", map_bytes_max=2 << 20, reserve_bytes=256 << 10)
    stored = page_until_almost_full(store)
    answers, has_begun = threading.Event(), threading.Event()
    told: list[str] = []

    def hang() -> None:
        has_begun.set()
        answers.wait(50)

    def make() -> None:
        try:
            backup_of(HookedStore(store, hang), tmp_path / "b" / "1").run()
        except BackupEnded as error:
            told.append(error.why)

    making = threading.Thread(target=make)
    making.start()
    has_begun.wait(50)

    store.checkpoint(MORE_PAGES)

    assert making.is_alive(), "the disk has not answered yet"
    assert len(store.recover().pages) == stored + 8
    answers.set()
    making.join()
    assert told == [SPOOL_FULL]
    assert os.listdir(tmp_path / "b") == []
    store.close()


def page_until_almost_full(store: SpoolStore) -> int:
    """Store pages until fewer than eight more fit without the reserve; return their number."""
    count = 0
    while store.usage().used_bytes < (2 << 20) - (256 << 10) - (128 << 10):
        store.checkpoint(CheckpointJob(applied=0, needed_from=1, page_writes=[large_page(2, count)]))
        count += 1
    return count


def large_page(partition_id: int, number: int) -> PageWrite:
    return PageWrite(partition_id, page_bytes(number * 100, payload=KIB, count=24))


MORE_PAGES = CheckpointJob(applied=0, needed_from=1, page_writes=[large_page(1, number) for number in range(8)])


def test_a_folder_that_holds_something_is_not_touched(store: SpoolStore, tmp_path: Path) -> None:
    filled(store)
    backup_of(store, tmp_path / "b" / "1").run()
    before = (tmp_path / "b" / "1" / DATA_FILE).read_bytes()

    with pytest.raises(BackupRefused, match="is not empty"):
        backup_of(store, tmp_path / "b" / "1").run()

    assert (tmp_path / "b" / "1" / DATA_FILE).read_bytes() == before


def test_leftovers_of_dead_writers_are_removed_and_files_of_living_ones_are_kept(
    store: SpoolStore, tmp_path: Path
) -> None:
    for name in ("dead", "strange", "alive"):
        (tmp_path / "b" / name).mkdir(parents=True)
    for name in ("dead", "strange"):
        (tmp_path / "b" / name / PARTIAL_FILE).write_bytes(b"half")
    (tmp_path / "b" / "strange" / "mine.txt").touch()

    with locked_partial(tmp_path / "b" / "alive"):
        with pytest.raises(BackupRefused, match="another process"), locked_partial(tmp_path / "b" / "alive"):
            raise AssertionError("two writers")
        backup_of(store, tmp_path / "b" / "1").run()

        assert sorted(os.listdir(tmp_path / "b")) == ["1", "alive", "strange"]
    assert remove_leftovers(tmp_path / "b") == [tmp_path / "b" / "alive"]


def test_without_room_nothing_is_begun(store: SpoolStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluicegate.storage.backup.backup.disk_free_bytes", lambda _: 64 << 20)

    with pytest.raises(BackupRefused, match="no room"):
        backup_of(store, tmp_path / "b" / "1").run()

    assert os.listdir(tmp_path / "b") == []


@pytest.mark.parametrize("damage", ["flipped", "cut short", "no note", "other format", "not json"])
def test_a_backup_that_is_not_what_was_written_is_refused_and_the_folder_stays_empty(
    store: SpoolStore, tmp_path: Path, damage: str
) -> None:
    filled(store)
    backup_of(store, tmp_path / "b").run()
    data, note = tmp_path / "b" / DATA_FILE, tmp_path / "b" / NOTE_FILE
    match damage:
        case "flipped":
            damaged = bytearray(data.read_bytes())
            damaged[len(damaged) // 2] ^= 1
            data.write_bytes(damaged)
        case "cut short":
            os.truncate(data, data.stat().st_size - 4096)
        case "no note":
            note.unlink()
        case "other format":
            note.write_text(note.read_text().replace('"format": 1', '"format": 2'))
        case "not json":
            note.write_text("{")

    with pytest.raises((BackupRefused, UnsupportedFormat)):
        restored(tmp_path / "b", tmp_path / "data")

    assert not (tmp_path / "data").exists() or os.listdir(tmp_path / "data") == []


def test_a_restore_overwrites_no_spool_and_no_running_gateway(
    store: SpoolStore, open_store: OpenStore, tmp_path: Path
) -> None:
    filled(store)
    backup_of(store, tmp_path / "b").run()
    with pytest.raises(FolderInUse):
        restored(tmp_path / "b", store.folder)
    store.close()
    with pytest.raises(BackupRefused, match=r"is not empty: it has data\.mdb"):
        restored(tmp_path / "b", store.folder)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letters").touch()
    with pytest.raises(BackupRefused, match="is not empty: it has letters"):
        restored(tmp_path / "b", tmp_path / "home")

    assert os.listdir(tmp_path / "home") == ["letters"]
    assert len(list(open_store().recover().journal)) == 20


def test_a_volume_that_has_nothing_but_its_lost_and_found_is_empty(store: SpoolStore, tmp_path: Path) -> None:
    """A file system of its own, as orchestrators give one, begins with that folder."""
    filled(store)
    backup_of(store, tmp_path / "b").run()
    (tmp_path / "data" / "lost+found").mkdir(parents=True)
    restored(tmp_path / "b", tmp_path / "data")
    assert (tmp_path / "data" / DATA_FILE).exists()


def test_a_restore_that_was_killed_can_be_done_again(store: SpoolStore, tmp_path: Path) -> None:
    filled(store)
    backup_of(store, tmp_path / "b").run()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / PARTIAL_FILE).write_bytes(b"half")
    (tmp_path / "data" / "sluicegate.lock").write_text("1\n")

    again = restored(tmp_path / "b", tmp_path / "data")

    assert len(list(again.recover().journal)) == 20
    again.close()


def test_a_reader_changes_nothing_and_names_what_is_damaged(store: SpoolStore, tmp_path: Path) -> None:
    filled(store)
    store.close()
    segment = segments_in(store.folder)[0]
    damaged = bytearray(segment.read_bytes())
    at = damaged.index(b"SGJ")
    damaged[at + 100] ^= 1
    segment.write_bytes(damaged)
    before = files_in(store.folder)

    with SpoolReader.open_folder(store.folder) as reader:
        assert [(each.reason, each.where) for each in reader.damage] == [("damaged", "log record 1")]
        assert reader.journal_records_count == 20, "what it settled is read, whatever became of its batches"

    assert files_in(store.folder) == before


def test_a_reader_of_a_stopped_node_applies_the_log_and_writes_nothing(store: SpoolStore, tmp_path: Path) -> None:
    """A node that was killed has recent rows, reservations and messages in its log only."""
    filled(store)
    number = commit(
        store,
        rows=[TableWrite(Table.CATALOG, b"k", None), TableWrite(Table.RETAINED, b"t", b"new")],
        staged=[PageWrite(7, page_bytes(300))],
        reservations=[Reservation(1, 0, 1 << 20)],
        purges=[2],
    )
    store.commit(publish_job(number + 1))
    store.close()
    before = files_in(store.folder)

    with SpoolReader.open_folder(store.folder) as reader:
        assert (reader.tables[Table.CATALOG], reader.tables[Table.RETAINED]) == ({}, {b"t": b"new"})
        assert [(page.partition_id, page.summary.first_sequence) for page in reader.pages] == [(7, 300)]
        assert reader.read_page(7, 300).runs[0].batch.count == 3
        assert (reader.cursor_states[1].floor, reader.cursor_states[1].next_sequence) == (5, 1 << 20)
        assert reader.journal_records_count == 21
        assert reader.damage == []

    assert files_in(store.folder) == before


def test_backups_of_a_store_that_commits_and_makes_checkpoints_are_whole_at_some_moment(
    store: SpoolStore, tmp_path: Path
) -> None:
    """Each record is in the log or on a page of every backup, up to the last record that the backup has."""
    stop = threading.Event()
    confirmed = [0]

    def work() -> None:
        for number in range(1, 100_000):
            if stop.is_set():
                return
            store.commit(publish_job(number, payload=KIB, count=2))
            confirmed[0] = number
            if number % 5 == 0:
                pages = [
                    PageWrite(1, page_bytes(1000 * each, payload=KIB, count=2))
                    for each in range(max(1, number - 5), number)
                ]
                floor = CursorRecord(1, number, [], number + 1, [])
                job = CheckpointJob(applied=number, needed_from=number, page_writes=pages, cursor_puts=[floor])
                store.checkpoint(job)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for name in ("a", "b", "c"):
            while (before := confirmed[0]) < 7:
                stop.wait(0.01)
            backup_of(store, tmp_path / name).run()
            again = restored(tmp_path / name, tmp_path / f"data-{name}")
            recovery = again.recover()
            journaled = {number for number, _ in recovery.journal}
            paged = {page.summary.first_sequence // 1000 for page in recovery.pages}
            last = max(journaled | paged)
            assert last >= before
            assert journaled | paged == set(range(1, last + 1))
            assert recovery.quarantined == []
            again.commit(publish_job(recovery.next_record_number))
            again.close()
    finally:
        stop.set()
        worker.join()


def segments_in(folder: Path) -> list[Path]:
    return sorted((folder / "log").glob("0*.log"))


def files_in(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_note_says_all_that_it_was_given(store: SpoolStore, tmp_path: Path) -> None:
    backup = backup_of(store, tmp_path / "b")
    note = backup.run()
    assert note == BackupNote(
        incarnation=7,
        taken_ms=1_700_000_000_000,
        node="n",
        release="1",
        data_bytes=(tmp_path / "b" / DATA_FILE).stat().st_size,
        data_xxh3=note.data_xxh3,
    )
    assert backup.written_bytes == note.data_bytes
