"""What a commit does, and that it is there when the folder is opened again."""

from collections.abc import Callable

import pytest

from sluicegate.messaging.partitions.state.segments import marks_of
from sluicegate.storage.environment.identity import STORE_KIND
from sluicegate.storage.errors import FolderInUse, PageNotFound, UnsupportedFormat
from sluicegate.storage.interface import CommitJob, PageDamage, PageEntry, PageKey, PageWrite, Store, Table, TableWrite
from sluicegate.storage.records.cursor import CursorRecord
from sluicegate.storage.records.page import PageSummary
from sluicegate.storage.records.seal import seal
from sluicegate.storage.store.store import SpoolStore
from support.storage.sample_records import batch, page_bytes, publish_job, rows_of
from support.storage.spool_file import put_raw

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

    for reopened in (store, open_store()):
        with pytest.raises(ValueError, match="journal record 7 after 7"):
            reopened.commit(publish_job(7))


def test_the_journal_is_trimmed_up_to_and_with_a_number(store: SpoolStore) -> None:
    """The journal record goes when all it held is settled or paged."""
    for number in range(1, 1001):
        store.commit(publish_job(number))

    store.commit(CommitJob(journal_delete_through=997, uses_reserve=True))

    assert journal_numbers(store) == [998, 999, 1000]
    assert store.usage().journal_entries == 3


def test_a_trim_that_is_repeated_changes_nothing(store: SpoolStore) -> None:
    """A job can be repeated: what is not there is passed over."""
    store.commit(publish_job(3))
    for _ in range(2):
        store.commit(CommitJob(journal_delete_through=2, page_deletes=[PageKey(1, 5)], cursor_deletes=[9]))

    assert journal_numbers(store) == [3]


def test_a_page_is_read_by_its_first_sequence(store: SpoolStore, open_store: OpenStore) -> None:
    """Pages: keyed by partition and first sequence."""
    store.commit(CommitJob(page_writes=[PageWrite(1, page_bytes(700)), PageWrite(2, page_bytes(700, count=5))]))

    (run,) = open_store().read_page(2, 700).runs

    assert (run.first_sequence, run.batch.count) == (700, 5)


def test_a_page_that_is_not_there_is_named(store: SpoolStore) -> None:
    """A reader may come after the page was deleted."""
    with pytest.raises(PageNotFound, match="partition 4 has no page that begins at sequence 8"):
        store.read_page(4, 8)


def test_the_directory_lists_pages_by_partition_and_sequence(store: SpoolStore, open_store: OpenStore) -> None:
    """Recovery time grows with pages; each is known by its summary."""
    writes = [PageWrite(partition, page_bytes(first)) for first in (1 << 40, 9) for partition in (256, 1)]
    store.commit(CommitJob(page_writes=writes))

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
    store.commit(CommitJob(page_writes=writes, cursor_puts=keeps))

    store.commit(CommitJob(partition_purges=[2], uses_reserve=True))

    recovery = store.recover()
    assert sorted(recovery.cursors) == [1, 3]
    assert {page.partition_id for page in recovery.pages} == {1, 3}
    assert len(recovery.pages) == store.usage().page_entries == 6000


def test_a_page_written_by_the_job_that_purges_its_partition_stays(store: SpoolStore) -> None:
    """Deletions come first."""
    store.commit(CommitJob(page_writes=[PageWrite(1, page_bytes(10))]))

    store.commit(CommitJob(page_writes=[PageWrite(1, page_bytes(20))], partition_purges=[1]))

    assert page_names(store, 1) == [20]


def test_a_deleted_page_is_gone_from_the_directory(store: SpoolStore) -> None:
    """Pages and directory change in one transaction."""
    store.commit(CommitJob(page_writes=[PageWrite(1, page_bytes(10)), PageWrite(1, page_bytes(20))]))

    store.commit(CommitJob(page_deletes=[PageKey(1, 10)]))

    assert page_names(store, 1) == [20]
    with pytest.raises(PageNotFound):
        store.read_page(1, 10)


@pytest.mark.parametrize(
    "job",
    [
        CommitJob(page_writes=[PageWrite(2, page_bytes(number)) for number in range(200)]),
        CommitJob(page_deletes=[PageKey(1, number) for number in range(200)]),
        CommitJob(partition_purges=[1]),
        CommitJob(page_quarantines=[PageDamage(1, number, "torn") for number in range(200)]),
        CommitJob(journal_delete_through=200),
        CommitJob(cursor_puts=[CURSOR._replace(partition_id=number) for number in range(2000, 2200)]),
        CommitJob(cursor_deletes=list(range(1000, 1200))),
        CommitJob(table_writes=[TableWrite(Table.RETAINED, b"%d" % number, b"v") for number in range(200)]),
    ],
    ids=["pages", "deletions", "purge", "quarantine", "trimmed journal", "cursors", "deleted cursors", "rows"],
)
def test_how_full_the_store_is_is_known_after_every_kind_of_write(
    store: SpoolStore, open_store: OpenStore, job: CommitJob
) -> None:
    """The quota of the disk goes by it: what is said after a commit is what whoever opens the store measures."""
    store.commit(
        CommitJob(
            page_writes=[PageWrite(1, page_bytes(number)) for number in range(200)],
            cursor_puts=[CURSOR._replace(partition_id=number) for number in range(1000, 1200)],
        )
    )
    for number in range(1, 201):
        store.commit(publish_job(number))

    store.commit(job)

    said, measured = store.usage(), open_store().usage()
    assert (said.used_bytes, said.page_entries, said.journal_entries, said.quarantine_entries) == (
        measured.used_bytes,
        measured.page_entries,
        measured.journal_entries,
        measured.quarantine_entries,
    )


def test_cursors_are_read_back_and_replaced(store: SpoolStore, open_store: OpenStore) -> None:
    """Cursors."""
    store.commit(CommitJob(cursor_puts=[CURSOR._replace(floor=5, settled=[]), CURSOR._replace(partition_id=2)]))
    store.commit(CommitJob(cursor_puts=[CURSOR], cursor_deletes=[2]))

    assert open_store().recover().cursors == {1: CURSOR}


def test_table_rows_of_any_key_length_are_read_back(store: SpoolStore, open_store: OpenStore) -> None:
    """Retained messages lie under topics, which may be longer than LMDB's keys."""
    rows = {b"k": b"1", b"k" * 511: b"", b"k" * 65535: b"3", b"k" * 65534: b"4"}
    store.commit(CommitJob(table_writes=[TableWrite(Table.RETAINED, key, value) for key, value in rows.items()]))
    store.commit(CommitJob(table_writes=[TableWrite(Table.RETAINED, b"k" * 65535, None)]))

    tables = open_store().recover().tables

    assert dict(tables[Table.RETAINED]) == {b"k": b"1", b"k" * 511: b"", b"k" * 65534: b"4"}
    assert list(tables[Table.CATALOG]) == []


def test_tables_of_many_rows_are_read_in_parts_without_loss(store: SpoolStore) -> None:
    """Recovery holds no transaction while its caller works."""
    keys = [b"%05d" % number for number in range(2500)]
    store.commit(CommitJob(table_writes=[TableWrite(Table.SESSIONS, key, key) for key in keys]))

    assert [key for key, _ in store.recover().tables[Table.SESSIONS]] == keys


def test_a_job_that_cannot_be_done_leaves_nothing_behind(store: SpoolStore) -> None:
    """All or nothing: the cursor that cannot be written takes the page before it along."""
    broken = CURSOR._replace(settled=[(4, 4)])
    with pytest.raises(ValueError, match="must follow"):
        store.commit(CommitJob(page_writes=[PageWrite(1, page_bytes(10))], cursor_puts=[broken]))

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
    put_raw(store.folder, "meta", b"store", seal(STORE_KIND, 2, bytes(8)))

    with pytest.raises(UnsupportedFormat, match="has format 2; this release reads format 1"):
        open_store()
