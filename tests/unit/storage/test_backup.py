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
from sluicegate.storage.errors import BackupEnded, BackupRefused, FolderInUse, StoreFull, UnsupportedFormat
from sluicegate.storage.interface import CommitJob, PageWrite, Table, TableWrite
from sluicegate.storage.records.cursor import CursorRecord
from sluicegate.storage.store.store import SPOOL_FULL, SpoolStore
from support.storage.sample_records import page_bytes, publish_job
from unit.storage.conftest import OpenStore

KIB = b"x" * 1024


class HookedStore:
    """A store whose copy calls somebody with each piece: where a test does what is to happen meanwhile."""

    def __init__(self, store: SpoolStore, hook: Callable[[], None]) -> None:
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
    """Journal some records, and store a page, a cursor and a row."""
    for number in range(1, count + 1):
        store.commit(publish_job(number, payload=KIB, count=24))
    store.commit(
        CommitJob(
            page_writes=[PageWrite(2, page_bytes(1))],
            cursor_puts=[CursorRecord(1, 5, [], 9, [])],
            table_writes=[TableWrite(Table.CATALOG, b"k", b"v")],
        )
    )


def restored(backup: Path, folder: Path, incarnation: int = 99) -> SpoolStore:
    restore_backup(backup, folder, incarnation=incarnation, copied=lambda _: None)
    return SpoolStore.open(folder, map_bytes_max=16 << 20, reserve_bytes=1 << 20)


def test_a_backup_has_what_was_committed_before_it_and_nothing_that_came_while_it_was_made(
    store: SpoolStore, tmp_path: Path
) -> None:
    """Spark reference 3.1: a consistent copy. Commits go on meanwhile."""
    filled(store)
    meanwhile = iter(range(21, 1000))

    note = backup_of(HookedStore(store, lambda: store.commit(publish_job(next(meanwhile)))), tmp_path / "b" / "1").run()

    assert sorted(os.listdir(tmp_path / "b" / "1")) == sorted([DATA_FILE, NOTE_FILE])
    assert read_note(tmp_path / "b" / "1") == note
    assert (note.incarnation, note.node, note.taken_ms) == (7, "n", 1_700_000_000_000)
    again = restored(tmp_path / "b" / "1", tmp_path / "data")
    recovery = again.recover()
    assert [number for number, _ in recovery.journal] == list(range(1, 21))
    assert [page.partition_id for page in recovery.pages] == [2]
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
    publish_until_full(store)
    pages = [PageWrite(1, page_bytes(first * 100, payload=KIB, count=24)) for first in range(8)]
    moving = Meanwhile(lambda: store.commit(CommitJob(page_writes=pages, uses_reserve=True)))

    with pytest.raises(BackupEnded, match=SPOOL_FULL):
        backup_of(HookedStore(store, moving), tmp_path / "b" / "1").run()
    moving.join()

    assert len(store.recover().pages) == 8
    store.close()


def test_a_full_spool_goes_on_though_the_disk_of_its_backup_does_not_answer(tmp_path: Path) -> None:
    store = SpoolStore.open(tmp_path / "spool", map_bytes_max=2 << 20, reserve_bytes=256 << 10)
    publish_until_full(store)
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

    pages = [PageWrite(1, page_bytes(first * 100, payload=KIB, count=24)) for first in range(8)]
    store.commit(CommitJob(page_writes=pages, uses_reserve=True))

    assert making.is_alive(), "the disk has not answered yet"
    assert len(store.recover().pages) == 8
    answers.set()
    making.join()
    assert told == [SPOOL_FULL]
    assert os.listdir(tmp_path / "b") == []
    store.close()


def publish_until_full(store: SpoolStore) -> None:
    for number in range(1, 10_000):
        try:
            store.commit(publish_job(number, payload=KIB, count=24))
        except StoreFull:
            return


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
    damaged = bytearray((store.folder / DATA_FILE).read_bytes())
    at = damaged.index(b"SGJ")
    damaged[at + 100] ^= 1
    (store.folder / DATA_FILE).write_bytes(damaged)
    before = {path.name: path.read_bytes() for path in store.folder.iterdir()}

    with SpoolReader.open_folder(store.folder) as reader:
        assert [(each.reason, each.where.startswith("journal record")) for each in reader.damage] == [("damaged", True)]
        assert reader.journal_records_count == 20, "what it settled is read, whatever became of its batches"

    assert {path.name: path.read_bytes() for path in store.folder.iterdir()} == before


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
