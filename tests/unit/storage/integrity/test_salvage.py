"""Salvage: what a broken page of LMDB costs, and that nothing is found that was not there."""

import random
import shutil
from pathlib import Path

import pytest

from sluicegate.storage.errors import BackupRefused, StoreFailed
from sluicegate.storage.integrity.pages import BRANCH, LEAF, DataFile
from sluicegate.storage.integrity.salvage_copy import Salvaged, salvage_spool
from sluicegate.storage.integrity.walk import NAMES, walk_trees
from sluicegate.storage.interface import CheckpointJob, CommitJob, PageKey, PageWrite, Recovery, Table, TableWrite
from sluicegate.storage.records.cursor import CursorRecord
from sluicegate.storage.records.journal import JournalEntry, Match, encode_journal_record
from sluicegate.storage.records.page import Run, encode_page
from sluicegate.storage.store.store import SpoolStore
from support.cores.messages import numbered
from support.storage.tree_files import tree_pages, walked

MAP_BYTES = 1 << 28
PAGE_BYTES = 4096
PAGES = 300
RECORDS = 60
SESSIONS = 200
PARTITION = 7


def page(first: int) -> bytes:
    return encode_page([Run(first, numbered(40))])


@pytest.fixture(scope="module")
def sound_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A spool in whose tables there are branches and many leaves, large values, and freed pages."""
    folder = tmp_path_factory.mktemp("sound")
    store = SpoolStore.open(folder, map_bytes_max=MAP_BYTES, sync=False)
    rng = random.Random(3)
    for number in range(1, RECORDS + 1):
        writes = [TableWrite(Table.SESSIONS, b"s%d" % each, rng.randbytes(150)) for each in range(SESSIONS)]
        store.commit(
            CommitJob(
                number=number,
                record=encode_journal_record([JournalEntry(numbered(3), [Match(PARTITION, 3 * number, None)])], []),
                table_writes=writes[number:] if number % 2 else writes,
            )
        )
        store.checkpoint(
            CheckpointJob(
                applied=number,
                needed_from=1,
                page_writes=[
                    PageWrite(PARTITION, page(1000 * number + 100 * each)) for each in range(PAGES // RECORDS)
                ],
                cursor_puts=[CursorRecord(PARTITION, 1, [], 1 << 20, [])],
            )
        )
    store.close()
    return folder


@pytest.fixture(scope="module")
def sound(sound_folder: Path) -> bytes:
    """The data file of that spool."""
    return (sound_folder / "data.mdb").read_bytes()


@pytest.fixture
def log(tmp_path: Path, sound_folder: Path) -> Path:
    """A copy of its log."""
    return shutil.copytree(sound_folder / "log", tmp_path / "log", ignore=shutil.ignore_patterns("spare*"))


@pytest.fixture
def file(tmp_path: Path, sound: bytes, log: Path) -> Path:
    """A copy of its data file, beside the log."""
    path = log.parent / "data.mdb"
    path.write_bytes(sound)
    return path


def write_at(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as raw:
        raw.seek(offset)
        raw.write(data)


def salvaged(file: Path, folder: Path) -> Salvaged:
    return salvage_spool(file, folder, incarnation=42, looked=lambda: None)


def recovered(folder: Path) -> tuple[Recovery, set[int], set[PageKey], dict[bytes, bytes]]:
    """Open the new spool as a node does; return what it holds."""
    store = SpoolStore.open(folder, map_bytes_max=MAP_BYTES, sync=False)
    recovery = store.recover()
    records = {number for number, _ in recovery.journal}
    rows = dict(recovery.tables[Table.SESSIONS])
    pages = {PageKey(each.partition_id, each.summary.first_sequence) for each in recovery.pages}
    for key in pages:
        assert store.read_page(*key).runs
    store.close()
    return recovery, records, pages, rows


def test_a_sound_spool_is_copied_whole(file: Path, tmp_path: Path) -> None:
    done = salvaged(file, tmp_path / "new")
    assert done.is_whole()
    recovery, records, pages, rows = recovered(tmp_path / "new")
    assert recovery.incarnation == 42
    assert not recovery.was_clean
    assert recovery.quarantined == []
    assert records == set(range(1, RECORDS + 1))
    assert len(pages) == PAGES
    assert len(rows) == SESSIONS
    assert walk_trees(tmp_path / "new" / "data.mdb") == []


def test_a_flipped_flag_in_any_page_of_a_tree_costs_nothing(file: Path, sound: bytes, tmp_path: Path) -> None:
    """Below a branch nothing is lost, and in a leaf the entries are there still."""
    kinds = dict(tree_pages(file))
    assert set(kinds.values()) == {BRANCH, LEAF}
    for count, (number, kind) in enumerate(kinds.items()):
        file.write_bytes(sound)
        write_at(file, number * PAGE_BYTES + 10, bytes([kind ^ LEAF]))
        assert walk_trees(file), f"page {number}"
        done = salvaged(file, tmp_path / str(count))
        assert done.is_whole(), f"page {number}: {done}"


def test_a_zeroed_branch_costs_nothing(file: Path, tmp_path: Path) -> None:
    """What hung below is found by accounting for each page of the file."""
    (root,) = {tree.root.root for name, tree in walked(file).trees.items() if name == "pages"}
    write_at(file, root * PAGE_BYTES, bytes(PAGE_BYTES))
    done = salvaged(file, tmp_path / "new")
    assert done.is_whole(), done
    assert len(recovered(tmp_path / "new")[2]) == PAGES


def test_a_zeroed_leaf_costs_its_rows_and_is_reported(file: Path, tmp_path: Path) -> None:
    walk = walked(file)
    leaf = walk.trees["directory"].leaves[1]
    pages_leaf = walk.trees["pages"].leaves[1]
    write_at(file, leaf * PAGE_BYTES, bytes(PAGE_BYTES))
    write_at(file, pages_leaf * PAGE_BYTES, bytes(PAGE_BYTES))
    done = salvaged(file, tmp_path / "new")
    assert not done.is_whole()
    lost = PAGES - done.tables["pages"].found
    assert 0 < lost < PAGES // 4
    assert done.tables["pages"].wanted == PAGES
    _, records, pages, _ = recovered(tmp_path / "new")
    assert len(pages) == PAGES - lost, "the directory has a row for each page that there is, and no other"
    assert records == set(range(1, RECORDS + 1))
    assert {key for key, _ in done.pages_lost}.isdisjoint(pages)


def test_the_page_of_roots_is_made_up_for_by_the_snapshot_before(file: Path, tmp_path: Path) -> None:
    leaf = walked(file).trees[NAMES].leaves[0]
    write_at(file, leaf * PAGE_BYTES, bytes(PAGE_BYTES))
    done = salvaged(file, tmp_path / "new")
    assert done.tables["pages"].found == PAGES - PAGES // RECORDS, "but for the last commit"
    assert done.tables["sessions"].found == SESSIONS


def test_a_destroyed_meta_page_costs_the_last_commit_at_most(file: Path, tmp_path: Path) -> None:
    for number in (0, 1):
        data = file.read_bytes()
        write_at(file, number * PAGE_BYTES, bytes(PAGE_BYTES))
        done = salvaged(file, tmp_path / str(number))
        assert done.tables["pages"].found in (PAGES, PAGES - PAGES // RECORDS)
        file.write_bytes(data)


def test_a_partition_whose_cursor_is_lost_gives_out_no_sequence_twice(file: Path, tmp_path: Path) -> None:
    leaf = walked(file).trees["cursors"].leaves[0]
    data = bytearray(file.read_bytes())
    for number in range(2, len(data) // PAGE_BYTES):  # former copies, too
        at = number * PAGE_BYTES
        if number == leaf or data.find(b"SGC", at, at + PAGE_BYTES) >= 0:
            data[at : at + PAGE_BYTES] = bytes(PAGE_BYTES)
    file.write_bytes(data)
    done = salvaged(file, tmp_path / "new")
    assert done.cursors_lost == [PARTITION]
    recovery, *_ = recovered(tmp_path / "new")
    assert recovery.lost_cursors == {PARTITION}


def test_rows_of_another_table_are_not_taken_for_what_is_lost(file: Path, tmp_path: Path) -> None:
    """A branch that leads into another tree: what it led to is found, what it leads to is left where it belongs."""
    walk = walked(file)
    root = walk.trees["sessions"].root.root
    data = bytearray(file.read_bytes())
    with DataFile(file) as data_file:
        branch = data_file.page(root)
    child = walk.trees["sessions"].leaves[2]
    at = branch.index(child.to_bytes(4, "little"))
    data[root * PAGE_BYTES + at : root * PAGE_BYTES + at + 4] = walk.trees["pages"].leaves[0].to_bytes(4, "little")
    file.write_bytes(data)
    done = salvaged(file, tmp_path / "new")
    assert done.tables["sessions"].found == SESSIONS
    assert done.tables["pages"].found == PAGES


def test_random_damage_never_ends_the_salvage(sound: bytes, log: Path) -> None:
    tmp_path = log.parent
    rng = random.Random(11)
    for number in range(60):
        data = bytearray(sound)
        for _ in range(rng.randint(1, 40)):
            at = rng.randrange(PAGE_BYTES * 2, len(data))
            data[at : at + 64] = rng.randbytes(min(64, len(data) - at))
        file = tmp_path / f"{number}.mdb"
        file.write_bytes(data)
        done = salvaged(file, tmp_path / f"new{number}")
        _, records, pages, rows = recovered(tmp_path / f"new{number}")
        assert records == set(range(1, RECORDS + 1))
        assert len(pages) <= PAGES
        assert len(rows) <= SESSIONS
        assert len(records) == done.tables["log"].found


def test_a_damaged_record_of_the_log_costs_what_is_unreadable_of_it(file: Path, log: Path, tmp_path: Path) -> None:
    segment = max(log.iterdir(), key=lambda path: path.read_bytes().count(b"SGJ"))
    data = segment.read_bytes()
    at = data.index(b"SGJ")
    write_at(segment, at + 40, bytes([data[at + 40] ^ 1]))
    done = salvaged(file, tmp_path / "new")
    assert done.tables["log"].found == RECORDS
    recovery, records, pages, _ = recovered(tmp_path / "new")
    assert len(records) >= RECORDS - 1
    assert len(pages) == PAGES
    assert [item.reason for item in recovery.quarantined] == ["damaged"]


def test_a_spool_without_its_log_is_salvaged_without_it(file: Path, log: Path, tmp_path: Path) -> None:
    shutil.rmtree(log)
    assert salvaged(file, tmp_path / "new").is_whole()
    _, records, pages, rows = recovered(tmp_path / "new")
    assert (len(records), len(pages), len(rows)) == (0, PAGES, SESSIONS)


def test_a_folder_with_something_in_it_is_refused_and_the_damaged_file_is_not_changed(file: Path) -> None:
    before = file.read_bytes()
    with pytest.raises(BackupRefused, match="is not empty"):
        salvaged(file, file.parent)
    assert file.read_bytes() == before


def test_a_file_without_either_meta_page_is_refused(file: Path, tmp_path: Path) -> None:
    write_at(file, 0, bytes(2 * PAGE_BYTES))
    with pytest.raises(StoreFailed, match="both of its first pages are destroyed"):
        salvaged(file, tmp_path / "new")
    assert not (tmp_path / "new").exists()
