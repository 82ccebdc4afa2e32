"""What commits and checkpoints do, and that it is there when the folder is opened again."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sluicegate.messaging.partitions.state.segments import marks_of
from sluicegate.storage.environment.identity import STORE_KIND
from sluicegate.storage.errors import FolderInUse, PageNotFound, UnsupportedFormat
from sluicegate.storage.interface import (
    CheckpointJob,
    PageDamage,
    PageEntry,
    PageKey,
    PageWrite,
    Reservation,
    Store,
    Table,
    TableWrite,
)
from sluicegate.storage.records.cursor import CursorRecord
from sluicegate.storage.records.page import PageSummary
from sluicegate.storage.records.seal import seal
from sluicegate.storage.store.store import SpoolStore
from support.storage.sample_records import batch, page_bytes, publish_job, rows_of
from support.storage.spool_file import put_raw
from support.storage.store_work import checkpoint, commit, next_number, trim

OpenStore = Callable[[], SpoolStore]

CURSOR = CursorRecord(1, 1000, [(1002, 1003)], 5000, [])


def journal_numbers(store: Store) -> list[int]:
    return [number for number, _ in store.recover().journal]


def page_names(store: SpoolStore, partition_id: int) -> list[int]:
    return [page.summary.first_sequence for page in store.recover().pages if page.partition_id == partition_id]


def test_journal_records_are_read_back_in_order(store: SpoolStore, open_store: OpenStore) -> None:
    """Journal."""
    for number in (1, 2, 300):
        store.commit(publish_job(number))

    recovery = open_store().recover()

    records = list(recovery.journal)
    assert [number for number, _ in records] == [1, 2, 300]
    assert rows_of(records[0][1].entries[0].batch) == rows_of(batch(3))
    assert recovery.next_record_number == 301
    assert recovery.quarantined == []


def test_a_record_number_is_never_used_twice(store: SpoolStore, open_store: OpenStore) -> None:
    """The journal is in the order of its commits."""
    store.commit(publish_job(7))

    for _ in range(2):
        with pytest.raises(ValueError, match="log record 7 after 7"):
            store.commit(publish_job(7))
        store = open_store()


def test_records_before_the_first_needed_one_are_passed_over(store: SpoolStore, open_store: OpenStore) -> None:
    """A record is no longer needed when all it held is settled or paged."""
    for number in range(1, 1001):
        store.commit(publish_job(number))

    checkpoint(store, needed_from=998)

    assert journal_numbers(store) == [998, 999, 1000]
    assert journal_numbers(open_store()) == [998, 999, 1000]


def test_segments_that_are_not_needed_are_used_again(store: SpoolStore) -> None:
    """The files of the log do not grow with what was ever written."""
    for number in range(1, 301):
        store.commit(publish_job(number, payload=bytes(1000), count=20))
        if number % 5 == 0:
            checkpoint(store, needed_from=number)

    usage = store.usage()
    assert usage.log_records < 40
    assert len(list((store.folder / "log").iterdir())) <= 6
    assert journal_numbers(store) == [300]


def test_a_checkpoint_that_is_repeated_changes_nothing(store: SpoolStore) -> None:
    """A job can be repeated: what is not there is passed over."""
    store.commit(publish_job(3))
    for _ in range(2):
        store.checkpoint(CheckpointJob(applied=3, needed_from=3, page_deletes=[PageKey(1, 5)]))

    assert journal_numbers(store) == [3]


def test_numbers_need_not_be_consecutive(store: SpoolStore, open_store: OpenStore) -> None:
    """A commit that failed leaves its number unused."""
    for number in (1, 5, 1 << 40):
        store.commit(publish_job(number))
        store = open_store()

    recovery = store.recover()
    assert [number for number, _ in recovery.journal] == [1, 5, 1 << 40]
    assert (recovery.next_record_number, recovery.quarantined) == ((1 << 40) + 1, [])


def test_a_page_is_read_by_its_first_sequence(store: SpoolStore, open_store: OpenStore) -> None:
    """Pages: keyed by partition and first sequence."""
    checkpoint(store, pages=[PageWrite(1, page_bytes(700)), PageWrite(2, page_bytes(700, count=5))])

    (run,) = open_store().read_page(2, 700).runs

    assert (run.first_sequence, run.batch.count) == (700, 5)


def test_a_page_that_is_not_there_is_named(store: SpoolStore) -> None:
    """A reader may come after the page was deleted."""
    with pytest.raises(PageNotFound, match="partition 4 has no page that begins at sequence 8"):
        store.read_page(4, 8)


def test_the_directory_lists_pages_by_partition_and_sequence(store: SpoolStore, open_store: OpenStore) -> None:
    """Recovery time grows with pages; each is known by its summary."""
    writes = [PageWrite(partition, page_bytes(first)) for first in (1 << 40, 9) for partition in (256, 1)]
    checkpoint(store, pages=writes)

    reopened = open_store()
    pages = reopened.recover().pages

    assert [(page.partition_id, page.summary.first_sequence) for page in pages] == [
        (1, 9), (1, 1 << 40), (256, 9), (256, 1 << 40)
    ]  # fmt: skip
    usage_bytes = batch().usage_bytes(durable=True)
    summary = PageSummary(9, 12, usage_bytes=usage_bytes, message_count=3, run_count=1, marks=marks_of(batch()))
    assert pages[0] == PageEntry(1, summary)
    assert page_names(reopened, 256) == [9, 1 << 40]
    assert page_names(reopened, 2) == []


def test_a_purge_takes_every_page_and_the_cursor_of_its_partition_only(store: SpoolStore) -> None:
    """More pages than fit one database page or one read, so ranges are walked to their end."""
    writes = [PageWrite(partition, page_bytes(10 * number)) for number in range(3000) for partition in (1, 2, 3)]
    keeps = [CURSOR._replace(partition_id=partition) for partition in (1, 2, 3)]
    checkpoint(store, pages=writes, cursors=keeps)

    commit(store, purges=[2], uses_reserve=True)

    for _ in range(2):
        recovery = store.recover()
        assert sorted(recovery.cursors) == [1, 3]
        assert {page.partition_id for page in recovery.pages} == {1, 3}
        assert len(recovery.pages) == 6000
        checkpoint(store)
    assert store.usage().page_entries == 6000


def test_a_record_that_purges_a_partition_takes_all_that_it_has_itself_of_it(store: SpoolStore) -> None:
    """Purges come last, so a deleted partition is gone whatever the rest of the record says."""
    checkpoint(store, pages=[PageWrite(1, page_bytes(10))])

    commit(store, staged=[PageWrite(1, page_bytes(20))], reservations=[Reservation(1, 0, 99)], purges=[1])

    for _ in range(2):
        assert page_names(store, 1) == []
        assert store.recover().cursors == {}
        checkpoint(store)


def test_a_staged_page_is_there_before_and_after_the_checkpoint(store: SpoolStore, open_store: OpenStore) -> None:
    """Only the log has its messages until then."""
    commit(store, staged=[PageWrite(4, page_bytes(30)), PageWrite(4, page_bytes(20))])

    for _ in range(2):
        store = open_store()
        assert page_names(store, 4) == [20, 30]
        assert store.read_page(4, 20).runs[0].batch.count == 3
        checkpoint(store)
    assert store.usage().page_entries == 2


def test_a_staged_page_that_is_deleted_does_not_come_back(store: SpoolStore, open_store: OpenStore) -> None:
    """Its record may stay in the log for long."""
    commit(store, staged=[PageWrite(4, page_bytes(20))])
    checkpoint(store, deletes=[PageKey(4, 20)])

    for _ in range(2):
        assert page_names(store, 4) == []
        with pytest.raises(PageNotFound):
            store.read_page(4, 20)
        store = open_store()


def test_reserved_sequences_are_known_before_and_after_the_checkpoint(store: SpoolStore, open_store: OpenStore) -> None:
    """No sequence is given out twice. A new cursor begins at the floor; one that is there keeps what it has."""
    checkpoint(store, cursors=[CURSOR])
    commit(store, reservations=[Reservation(1, 7, 9000), Reservation(2, 7, 300)])
    commit(store, reservations=[Reservation(1, 7, 8000)])

    for _ in range(2):
        store = open_store()
        assert store.recover().cursors == {
            1: CURSOR._replace(next_sequence=9000),
            2: CursorRecord(2, 7, [], 300, []),
        }
        checkpoint(store)


def test_a_deleted_page_is_gone_from_the_directory(store: SpoolStore) -> None:
    """Pages and directory change in one transaction."""
    checkpoint(store, pages=[PageWrite(1, page_bytes(10)), PageWrite(1, page_bytes(20))])

    checkpoint(store, deletes=[PageKey(1, 10)])

    assert page_names(store, 1) == [20]
    with pytest.raises(PageNotFound):
        store.read_page(1, 10)


def of_checkpoint(**parts: Any) -> Callable[[SpoolStore], None]:
    return lambda store: checkpoint(store, **parts)


def of_commit(**parts: Any) -> Callable[[SpoolStore], None]:
    def work(store: SpoolStore) -> None:
        commit(store, **parts)

    return work


def trimmed(store: SpoolStore) -> None:
    checkpoint(store, needed_from=next_number(store))
    commit(store, rows=[TableWrite(Table.RETAINED, b"k", b"v")])


@pytest.mark.parametrize(
    "work",
    [
        of_checkpoint(pages=[PageWrite(2, page_bytes(number)) for number in range(200)]),
        of_checkpoint(deletes=[PageKey(1, number) for number in range(200)]),
        of_commit(purges=[1]),
        of_checkpoint(quarantines=[PageDamage(1, number, "torn") for number in range(200)]),
        trimmed,
        of_checkpoint(cursors=[CURSOR._replace(partition_id=number) for number in range(2000, 2200)]),
        of_commit(rows=[TableWrite(Table.RETAINED, b"%d" % number, b"v") for number in range(200)]),
        of_commit(staged=[PageWrite(3, page_bytes(number)) for number in range(200)]),
    ],
    ids=["pages", "deletions", "purge", "quarantine", "trimmed log", "cursors", "rows", "staged pages"],
)
def test_how_full_the_store_is_is_known_after_every_kind_of_write(
    store: SpoolStore, open_store: OpenStore, work: Callable[[SpoolStore], None]
) -> None:
    """The quota of the disk goes by it: what is said after a commit is what whoever opens the store measures."""
    for number in range(1, 201):
        store.commit(publish_job(number))
    checkpoint(
        store,
        pages=[PageWrite(1, page_bytes(number)) for number in range(200)],
        cursors=[CURSOR._replace(partition_id=number) for number in range(1000, 1200)],
    )

    work(store)

    for _ in range(2):
        said = store.usage()
        store = open_store()
        measured = store.usage()
        for usage in (said, measured):
            assert usage.log_bytes > 0
        assert (said.used_bytes, said.page_entries, said.log_bytes, said.log_records, said.quarantine_entries) == (
            measured.used_bytes,
            measured.page_entries,
            measured.log_bytes,
            measured.log_records,
            measured.quarantine_entries,
        )
        checkpoint(store)


def test_cursors_are_read_back_and_replaced(store: SpoolStore, open_store: OpenStore) -> None:
    """Cursors."""
    checkpoint(store, cursors=[CURSOR._replace(floor=5, settled=[]), CURSOR._replace(partition_id=2)])
    checkpoint(store, cursors=[CURSOR])

    assert open_store().recover().cursors == {1: CURSOR, 2: CURSOR._replace(partition_id=2)}


def test_table_rows_of_any_key_length_are_read_back(store: SpoolStore, open_store: OpenStore) -> None:
    """Retained messages lie under topics, which may be longer than LMDB's keys."""
    rows = {b"k": b"1", b"k" * 511: b"", b"k" * 65535: b"3", b"k" * 65534: b"4"}
    commit(store, rows=[TableWrite(Table.RETAINED, key, value) for key, value in rows.items()])
    commit(store, rows=[TableWrite(Table.RETAINED, b"k" * 65535, None)])

    for _ in range(2):
        store = open_store()
        tables = store.recover().tables
        assert dict(tables[Table.RETAINED]) == {b"k": b"1", b"k" * 511: b"", b"k" * 65534: b"4"}
        assert list(tables[Table.CATALOG]) == []
        checkpoint(store)


def test_the_last_of_several_writes_of_a_row_counts(store: SpoolStore, open_store: OpenStore) -> None:
    """Within a commit, between commits, and over a checkpoint."""
    for value in (b"1", None, b"2"):
        commit(store, rows=[TableWrite(Table.CATALOG, b"k", value), TableWrite(Table.CATALOG, b"m", value)])
    checkpoint(store)
    commit(store, rows=[TableWrite(Table.CATALOG, b"k", None), TableWrite(Table.CATALOG, b"k", b"3")])
    commit(store, rows=[TableWrite(Table.CATALOG, b"m", b"4"), TableWrite(Table.CATALOG, b"m", None)])

    for _ in range(2):
        store = open_store()
        assert dict(store.recover().tables[Table.CATALOG]) == {b"k": b"3"}
        checkpoint(store)


def test_tables_of_many_rows_are_read_in_parts_without_loss(store: SpoolStore) -> None:
    """Recovery holds no transaction while its caller works."""
    keys = [b"%05d" % number for number in range(2500)]
    commit(store, rows=[TableWrite(Table.SESSIONS, key, key) for key in keys])

    for _ in range(2):
        assert [key for key, _ in store.recover().tables[Table.SESSIONS]] == keys
        checkpoint(store)


def test_a_job_that_cannot_be_done_leaves_nothing_behind(store: SpoolStore) -> None:
    """All or nothing: the cursor that cannot be written takes the page before it along."""
    broken = CURSOR._replace(settled=[(4, 4)])
    with pytest.raises(ValueError, match="must follow"):
        checkpoint(store, pages=[PageWrite(1, page_bytes(10))], cursors=[broken])

    assert page_names(store, 1) == []
    assert store.usage().page_entries == 0


def test_the_incarnation_is_drawn_once_and_kept(store: SpoolStore, open_store: OpenStore) -> None:
    """Sequences are never reused; the spool has an incarnation id."""
    incarnation = store.recover().incarnation

    assert open_store().recover().incarnation == incarnation


def test_a_clean_end_is_known_until_the_next_commit(store: SpoolStore, open_store: OpenStore) -> None:
    """Whoever opens the store wants to know whether the last process ended in order."""
    assert not store.recover().was_clean
    store.mark_clean()
    store = open_store()
    assert store.recover().was_clean
    store.commit(publish_job(1))
    store = open_store()
    assert not store.recover().was_clean
    checkpoint(store)
    store.mark_clean()
    store = open_store()
    assert store.recover().was_clean
    checkpoint(store)
    assert not open_store().recover().was_clean


def test_a_second_broker_on_the_same_folder_is_refused_with_the_holders_process_id(
    store: SpoolStore, open_store: OpenStore
) -> None:
    """Two writers of sequences would give out the same ones."""
    store.commit(publish_job(1))
    with pytest.raises(FolderInUse, match=r"is in use by process \d+"):
        store.open(store.folder, map_bytes_max=1 << 24, reserve_bytes=1 << 20)

    assert journal_numbers(open_store()) == [1]


def test_a_store_of_another_release_is_refused_with_both_versions(store: SpoolStore, open_store: OpenStore) -> None:
    """An old spool opens in a new release or is refused with a clear message."""
    store.close()
    put_raw(store.folder, "meta", b"store", seal(STORE_KIND, 3, bytes(8)))

    with pytest.raises(UnsupportedFormat, match="has format 3; this release reads format 2"):
        open_store()


def test_a_checkpoint_that_cannot_trim_the_log_is_made_and_the_next_one_trims(
    store: SpoolStore, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its pages are in the state: who took them for unwritten would write some of their messages twice."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "input/output error")

    for _ in range(3):
        commit(store, record=publish_job(next_number(store), payload=bytes(200_000)).record)
    with monkeypatch.context() as broken:
        broken.setattr(os, "rename", refuse)
        broken.setattr(Path, "unlink", refuse)
        checkpoint(store, pages=[PageWrite(1, page_bytes(10))], needed_from=next_number(store))
    assert "files of the log cannot be given up" in caplog.text
    assert [page.summary.first_sequence for page in store.recover().pages] == [10]
    left = store.usage().log_records

    trim(store)
    assert store.usage().log_records < left
    store = open_store()
    assert [page.summary.first_sequence for page in store.recover().pages] == [10]
    assert store.recover().quarantined == []


def test_a_commit_is_at_hand_when_the_log_has_begun_a_file_that_takes_it(store: SpoolStore) -> None:
    assert not store.is_at_hand(100)
    store.commit(publish_job(1))
    assert store.is_at_hand(100)
    assert not store.is_at_hand(1 << 30)
