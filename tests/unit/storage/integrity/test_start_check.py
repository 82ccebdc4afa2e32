"""What keeps a store from being opened: another one that is open, files that are gone, and broken pages of LMDB."""

import os
import shutil
from pathlib import Path

import pytest

from sluicegate.storage.environment.environment import READERS_FILE
from sluicegate.storage.environment.folder_lock import DATA_FILE, LOCK_FILE
from sluicegate.storage.errors import FolderInUse, SpoolMissing, StoreDamaged, StoreFailed
from sluicegate.storage.interface import CommitJob, PageWrite, Table, TableWrite
from sluicegate.storage.log.journal import LOG_FOLDER
from sluicegate.storage.store.store import SpoolStore
from support.storage.sample_records import page_bytes, publish_job
from support.storage.store_work import checkpoint
from support.storage.tree_files import tree_pages

MAP_BYTES = 1 << 26


def opened(folder: Path) -> SpoolStore:
    return SpoolStore.open(folder, map_bytes_max=MAP_BYTES)


def row(number: int) -> CommitJob:
    return CommitJob(number=number, table_writes=[TableWrite(Table.RETAINED, b"topic %d" % number, b"x" * 100)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a spool of some trees, closed."""
    store = opened(tmp_path)
    for number in range(1, 201):
        store.commit(row(number))
    checkpoint(store, pages=[PageWrite(1, page_bytes(7, payload=bytes(9000)))], needed_from=201)
    store.close()
    return tmp_path


def test_without_its_lock_file_a_store_that_is_open_cannot_be_opened_again(folder: Path) -> None:
    """Two nodes on one spool would each confirm messages that the other one writes over."""
    store = opened(folder)
    (folder / LOCK_FILE).unlink()
    with pytest.raises(FolderInUse):
        opened(folder)
    store.commit(row(201))
    store.close()
    opened(folder).close()


def test_a_new_store_is_locked_from_its_first_moment(tmp_path: Path) -> None:
    store = opened(tmp_path)
    (tmp_path / LOCK_FILE).unlink()
    with pytest.raises(FolderInUse):
        opened(tmp_path)
    store.close()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_store_whose_data_file_is_taken_away_commits_nothing_more(folder: Path, replaced: bool) -> None:
    store = opened(folder)
    content = (folder / DATA_FILE).read_bytes()
    (folder / DATA_FILE).unlink()
    if replaced:
        (folder / DATA_FILE).write_bytes(content)
    with pytest.raises(StoreDamaged, match="removed or replaced"):
        store.commit(row(201))
    store.close()


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


@pytest.mark.parametrize("left", [[LOCK_FILE], [READERS_FILE], [LOCK_FILE, READERS_FILE], [LOG_FOLDER]])
def test_a_spool_whose_data_file_is_gone_is_not_begun_anew_unless_that_is_meant(folder: Path, left: list[str]) -> None:
    for path in folder.iterdir():
        if path.name not in left:
            remove(path)
    for _ in range(2):
        with pytest.raises(SpoolMissing, match="is not there") as refused:
            opened(folder)
    command = str(refused.value).rpartition(": rm -r ")[2]
    for name in command.split(" "):
        remove(Path(name))
    opened(folder).close()


def test_a_spool_whose_log_is_gone_though_it_is_needed_is_refused(folder: Path) -> None:
    """The messages that no page has would be lost without a word."""
    store = opened(folder)
    store.commit(publish_job(201))
    checkpoint(store, needed_from=201)
    store.close()
    shutil.rmtree(folder / LOG_FOLDER)
    for _ in range(2):
        with pytest.raises(SpoolMissing, match="log has no records"):
            opened(folder)


def test_a_log_that_is_gone_and_has_nothing_that_is_needed_is_begun_anew(folder: Path) -> None:
    shutil.rmtree(folder / LOG_FOLDER)
    store = opened(folder)
    store.commit(row(201))
    store.close()
    store = opened(folder)
    assert store.recover().next_record_number == 202
    store.close()


def test_a_data_file_of_no_bytes_is_not_taken_for_a_new_spool(folder: Path) -> None:
    os.truncate(folder / DATA_FILE, 0)
    with pytest.raises(SpoolMissing, match="is empty"):
        opened(folder)
    assert (folder / DATA_FILE).stat().st_size == 0


@pytest.mark.parametrize("name", [DATA_FILE, LOG_FOLDER])
def test_what_cannot_be_looked_at_is_not_taken_for_missing(folder: Path, name: str) -> None:
    """No folder is closed to root, so a link to a name that is too long stands for one."""
    (folder / name).rename(folder / "elsewhere")
    (folder / name).symlink_to("x" * 300)
    for _ in range(2):
        with pytest.raises(StoreFailed, match="File name too long") as refused:
            opened(folder)
        assert not isinstance(refused.value, SpoolMissing)
    (folder / name).unlink()
    (folder / "elsewhere").rename(folder / name)
    store = opened(folder)
    assert store.recover().next_record_number == 201
    store.close()


def test_a_start_that_made_nothing_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / READERS_FILE).mkdir()
    with pytest.raises(StoreFailed):
        opened(tmp_path)
    (tmp_path / READERS_FILE).rmdir()
    opened(tmp_path).close()


def test_every_page_of_zeros_in_a_tree_is_named_before_lmdb_trips_over_it(folder: Path) -> None:
    sound = (folder / DATA_FILE).read_bytes()
    pages = [number for number, _ in tree_pages(folder / DATA_FILE)]
    assert len(pages) > 8
    for number in pages:
        damaged = bytearray(sound)
        damaged[number * 4096 : (number + 1) * 4096] = bytes(4096)
        (folder / DATA_FILE).write_bytes(damaged)
        with pytest.raises(StoreDamaged, match="doctor --salvage"):
            opened(folder)
        assert (folder / DATA_FILE).read_bytes() == damaged
    (folder / DATA_FILE).write_bytes(sound)
    opened(folder).close()


def test_a_lock_file_that_is_a_symbolic_link_is_not_followed(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    target = tmp_path_factory.mktemp("other") / "precious"
    target.write_text("of somebody else")
    (folder / LOCK_FILE).unlink()
    (folder / LOCK_FILE).symlink_to(target)
    with pytest.raises(StoreFailed, match="symbolic link"):
        opened(folder)
    assert target.read_text() == "of somebody else"
