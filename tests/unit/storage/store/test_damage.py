"""What is damaged is reported, kept in the quarantine and counted; everything else is served."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.recovery import restore
from sluicegate.messaging.partitions.state.flows import DeliveryRules
from sluicegate.storage.backup.reader import SpoolReader
from sluicegate.storage.catalog.recovered import SEQUENCES_SKIPPED, read_partitions
from sluicegate.storage.environment.databases import CATALOG_COPY, PAGE_KEY, PARTITION_KEY, RECORD_KEY
from sluicegate.storage.errors import DamagedRecord, PageNotFound, StoreDamaged, StoreFailed, UnsupportedFormat
from sluicegate.storage.interface import (
    PageDamage,
    PageWrite,
    QuarantinedBytes,
    Recovery,
    Reservation,
    Table,
    TableWrite,
)
from sluicegate.storage.records.cursor import CursorRecord
from sluicegate.storage.records.journal import JOURNAL_FORMAT, JOURNAL_KIND
from sluicegate.storage.records.page import directory_row
from sluicegate.storage.records.seal import seal
from sluicegate.storage.store.store import SpoolStore
from support.storage.log_files import flip_record
from support.storage.sample_records import page_bytes, publish_job
from support.storage.spool_file import flip_raw, get_raw, put_raw, same_imports
from support.storage.store_work import checkpoint, commit

OpenStore = Callable[[], SpoolStore]
TORN_FILE_PROGRAM = Path(__file__).with_name("read_everything.py")


@pytest.fixture
def filled(store: SpoolStore) -> SpoolStore:
    """Three of everything."""
    for number in (1, 2, 3):
        job = publish_job(number)
        store.commit(replace(job, table_writes=[TableWrite(Table.CATALOG, b"queue/%d" % number, b"{}")]))
        checkpoint(
            store,
            pages=[PageWrite(number, page_bytes(10)), PageWrite(number, page_bytes(20))],
            cursors=[CursorRecord(number, 10, [], 100, [])],
        )
    store.close()
    return store


def set_aside_in(store: SpoolStore) -> list[QuarantinedBytes]:
    """Close a store, and return what is in its quarantine."""
    store.close()
    with SpoolReader.open_folder(store.folder) as reader:
        return reader.quarantine(100)


def read_all(recovery: Recovery) -> tuple[list[int], list[int], list[bytes]]:
    return (
        [number for number, _ in recovery.journal],
        sorted(recovery.cursors),
        [key for key, _ in recovery.tables[Table.CATALOG]],
    )


def test_a_damaged_journal_record_costs_that_record(filled: SpoolStore, open_store: OpenStore) -> None:
    """Later records do not depend on earlier ones."""
    damaged = flip_record(filled.folder, 2, 3)

    store = open_store()
    recovery = store.recover()

    assert read_all(recovery)[0] == [1, 3]
    ((where, reason, detail),) = recovery.quarantined
    assert (where, reason) == ("log record 2", "damaged")
    assert "cannot be read" in detail
    (kept,) = set_aside_in(store)
    assert (kept.number, kept.source, kept.key, kept.entry.where) == (1, "log", RECORD_KEY.pack(2), where)
    assert kept.data == damaged, "somebody may want to look at them"


def test_a_damaged_record_is_kept_and_reported_once(filled: SpoolStore, open_store: OpenStore) -> None:
    """It stays in the log: each start serves what is readable of it."""
    flip_record(filled.folder, 2, 3)
    for start in range(2):
        store = open_store()
        recovery = store.recover()
        assert read_all(recovery)[0] == [1, 3]
        assert [item.where for item in recovery.quarantined] == ["log record 2"][start:]
    checkpoint(store, needed_from=3)
    store = open_store()
    recovery = store.recover()
    assert read_all(recovery)[0] == [3]
    assert recovery.quarantined == []
    assert len(set_aside_in(store)) == 1


def test_a_second_recovery_reports_nothing_again(filled: SpoolStore, open_store: OpenStore) -> None:
    """What was moved aside is not in the way any more; the quarantine still counts it."""
    for name in ("catalog", CATALOG_COPY):
        flip_raw(filled.folder, name, b"queue/1", 18)
    first = open_store().recover()
    assert read_all(first) == ([1, 2, 3], [1, 2, 3], [b"queue/2", b"queue/3"])
    assert [item.where for item in first.quarantined] == ["row b'queue/1' of catalog"]

    store = open_store()

    assert read_all(store.recover()) == ([1, 2, 3], [1, 2, 3], [b"queue/2", b"queue/3"])
    assert store.recover().quarantined == []
    assert store.usage().quarantine_entries == 1


def test_a_lost_cursor_is_known_to_be_lost_until_another_one_is_written(
    filled: SpoolStore, open_store: OpenStore
) -> None:
    """A start that ends before its first commit leaves the next one what it has found: no sequence is used twice."""
    flip_raw(filled.folder, "cursors", PARTITION_KEY.pack(2), 18)
    for _ in range(2):
        recovery = open_store().recover()
        assert recovery.lost_cursors == {2}
        assert read_partitions(recovery)[0][2].next_sequence > SEQUENCES_SKIPPED

    store = open_store()
    commit(store, reservations=[Reservation(2, 1, SEQUENCES_SKIPPED + 100)])
    assert store.recover().lost_cursors == {2}, "a reservation says nothing of what was settled"
    checkpoint(store, cursors=[CursorRecord(2, 1, [], SEQUENCES_SKIPPED + 100, [])])

    recovery = store.recover()
    assert (recovery.lost_cursors, sorted(recovery.cursors)) == (set(), [1, 2, 3])
    assert set_aside_in(store)[0].entry.where == "cursor of partition 2"


def test_a_damaged_directory_row_is_taken_from_its_page(filled: SpoolStore, open_store: OpenStore) -> None:
    """The row is a copy, so nothing is lost."""
    flip_raw(filled.folder, "directory", PAGE_KEY.pack(2, 10), 20)

    store = open_store()
    recovery = store.recover()

    assert len(recovery.pages) == 6
    assert [item.where for item in recovery.quarantined] == ["directory row of page of partition 2 from sequence 10"]
    assert len(store.recover().quarantined) == 0


def test_a_damaged_page_is_found_when_read_and_moved_aside_by_a_job(filled: SpoolStore, open_store: OpenStore) -> None:
    """The reader thread cannot write; recovery does not read payloads."""
    flip_raw(filled.folder, "pages", PAGE_KEY.pack(2, 10), len(directory_row(page_bytes(10))) + 40)
    store = open_store()
    assert len(store.recover().pages) == 6

    with pytest.raises(DamagedRecord) as damage:
        store.read_page(2, 10)
    checkpoint(store, quarantines=[PageDamage(2, 10, damage.value.reason)])

    with pytest.raises(PageNotFound):
        store.read_page(2, 10)
    assert [each.summary.first_sequence for each in store.recover().pages if each.partition_id == 2] == [20]
    assert store.usage().quarantine_entries == 1
    assert set_aside_in(store)[0].entry.where == "page of partition 2 from sequence 10"


def test_an_intact_record_of_another_release_stops_recovery_and_stays(
    filled: SpoolStore, open_store: OpenStore
) -> None:
    """Refused with a clear message. Quarantining it would lose messages that another release can read."""
    store = open_store()
    commit(store, record=seal(JOURNAL_KIND, JOURNAL_FORMAT + 1, b"new"))

    store = open_store()

    with pytest.raises(UnsupportedFormat, match="log record 4 has format 3; this release reads format 2"):
        list(store.recover().journal)
    assert store.usage().log_records == 4


def test_a_cursor_under_a_wrong_key_is_not_believed(filled: SpoolStore, open_store: OpenStore) -> None:
    """A checksum tells that bytes are whole, not that they are in their place."""
    put_raw(filled.folder, "cursors", PARTITION_KEY.pack(2), get_raw(filled.folder, "cursors", PARTITION_KEY.pack(3)))

    recovery = open_store().recover()

    assert sorted(recovery.cursors) == [1, 3]
    assert [(item.where, item.reason) for item in recovery.quarantined] == [("cursor of partition 2", "misplaced")]


def test_a_partition_without_its_cursor_goes_on_where_no_sequence_was_ever_given_out(
    filled: SpoolStore, open_store: OpenStore
) -> None:
    """Readers elsewhere hold sequences. Nor is it known what was delivered, though the store was closed in order."""
    flip_raw(filled.folder, "cursors", PARTITION_KEY.pack(2), 18)

    partitions, _ = read_partitions(open_store().recover())
    ledger = Ledger(durable=True, rules=DeliveryRules())
    restore(ledger, partitions[2], was_clean=True)

    ledger.check()
    known_end = partitions[2].known_end()
    assert known_end > 20
    assert ledger.next_sequence == known_end + SEQUENCES_SKIPPED
    assert ledger.was_delivered(ledger.floor)
    assert partitions[1].next_sequence == 100


def test_a_file_that_is_no_database_is_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_bytes(b"letters")
    with pytest.raises(StoreFailed, match=r"data\.mdb is no database of LMDB"):
        SpoolStore.open(tmp_path, map_bytes_max=1 << 26)


@pytest.mark.parametrize("name", ["data.mdb", "lock.mdb"])
def test_a_file_that_may_not_be_opened_is_named(tmp_path: Path, name: str) -> None:
    """The folder is in order. Of a folder in its place nobody may write, not even root."""
    (tmp_path / name).mkdir()
    with pytest.raises(StoreFailed, match=r"data\.mdb, or lock\.mdb beside it, cannot be used: Is a directory"):
        SpoolStore.open(tmp_path, map_bytes_max=1 << 26)


def test_a_map_that_exceeds_the_address_space_is_reported_as_such(tmp_path: Path) -> None:
    """`ulimit -v` limits them, and so does the processor: it is not memory that is lacking."""
    with pytest.raises(StoreFailed, match=r"data\.mdb cannot be mapped: .* as many addresses .*RLIMIT_AS"):
        SpoolStore.open(tmp_path, map_bytes_max=1 << 60)


def test_a_file_without_lmdbs_own_order_is_refused_by_its_name(filled: SpoolStore, tmp_path: Path) -> None:
    """All but its first two pages are gone, and read as zeros."""
    folder = tmp_path / "short"
    folder.mkdir()
    (folder / "data.mdb").write_bytes((filled.folder / "data.mdb").read_bytes()[: 2 * 4096])
    with pytest.raises(StoreDamaged, match=r"data\.mdb is damaged: pages of LMDB's own .* `sluicegate doctor"):
        SpoolStore.open(folder, map_bytes_max=1 << 26)


def test_a_table_whose_keys_read_as_zeros_is_refused(store: SpoolStore, tmp_path: Path) -> None:
    """LMDB finds as many rows as there were, and takes no empty key to ask for one by."""
    commit(store, rows=[TableWrite(Table.CATALOG, b"queue/1", b"{}")])
    checkpoint(store, needed_from=2)
    store.close()
    whole = (store.folder / "data.mdb").read_bytes()
    key_at = whole.rindex(b"queue/1")
    page_end = key_at - key_at % 4096 + 4096
    folder = tmp_path / "zeros"
    folder.mkdir()
    (folder / "data.mdb").write_bytes(whole[: page_end - 3800] + bytes(3800) + whole[page_end:])

    with pytest.raises(StoreDamaged, match=r"data\.mdb is damaged: pages of LMDB's own are broken \(catalog_copy\)"):
        SpoolStore.open(folder, map_bytes_max=1 << 26)


@pytest.mark.crash
@pytest.mark.parametrize("bytes_of_the_next", [0, 200])
def test_a_data_file_that_was_cut_short_is_reported_and_never_kills_the_process(
    filled: SpoolStore, tmp_path: Path, bytes_of_the_next: int
) -> None:
    """Reading a mapped page behind the end of its file is a SIGBUS; in a process of its own, to see it.

    A page keeps what stands in it at its end: cut within, it has as many entries as before, and their keys are lost.
    """
    pages = (filled.folder / "data.mdb").stat().st_size // 4096
    for kept_pages in range(2, pages):
        folder = shutil.copytree(filled.folder, tmp_path / f"cut to {kept_pages} pages")
        os.truncate(folder / "data.mdb", kept_pages * 4096 + bytes_of_the_next)

        command = [sys.executable, str(TORN_FILE_PROGRAM), str(folder)]
        outcome = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=same_imports())

        assert outcome.returncode == 0, (kept_pages, outcome.stderr)
        assert outcome.stdout.splitlines()[-1] in {"served the rest", "refused"}
