"""What an inspection finds in a spool: every kind of damage, and records that say different things of each other."""

from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest

from sluicegate.messaging.bulk.durable_cursors import TAP, DurableCursor
from sluicegate.messaging.bulk.staging import StagedPage
from sluicegate.messaging.queues.definition import definition_from_dict
from sluicegate.storage.backup.reader import SpoolReader
from sluicegate.storage.catalog.queues import PartitionIds, StoredQueue, queue_row
from sluicegate.storage.catalog.staging import page_row
from sluicegate.storage.environment.databases import PAGE_KEY
from sluicegate.storage.integrity.inspection import Severity, SpoolFinding, inspect_spool
from sluicegate.storage.interface import PageWrite, Table, TableWrite
from sluicegate.storage.records.cursor import CursorRecord
from sluicegate.storage.store.store import SpoolStore
from support.storage.sample_records import page_bytes, publish_job
from support.storage.spool_file import flip_raw, get_raw, put_raw
from support.storage.store_work import checkpoint, commit


def queue(name: str, *partition_ids: int, **attributes: object) -> TableWrite:
    definition = definition_from_dict({"name": name, **attributes})
    return queue_row(StoredQueue(definition, "named", list(partition_ids), None, None))


@pytest.fixture
def folder(store: SpoolStore) -> Path:
    """A spool in order: a queue with a page of sequences 5 to 7, and a record of 2000 to 2002."""
    commit(store, rows=[queue("orders", 1), PartitionIds({}, used=[1]).row()])
    checkpoint(store, pages=[PageWrite(1, page_bytes(5))], cursors=[CursorRecord(1, 5, [], 1 << 20, [])])
    store.commit(publish_job(2))
    store.close()
    return store.folder


def change(
    folder: Path,
    *rows: TableWrite,
    pages: Sequence[PageWrite] = (),
    cursors: Sequence[CursorRecord] = (),
) -> None:
    store = SpoolStore.open(folder, map_bytes_max=16 << 20, reserve_bytes=1 << 20)
    commit(store, rows=rows)
    checkpoint(store, pages=pages, cursors=cursors)
    store.close()


def files_in(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def found(folder: Path) -> list[SpoolFinding]:
    """Inspect, and see to it that nothing was changed."""
    before = files_in(folder)
    with SpoolReader.open_folder(folder) as reader:
        findings = list(inspect_spool(reader, looked=lambda: None))
    assert files_in(folder) == before
    return findings


def test_a_spool_in_order_has_no_findings(folder: Path) -> None:
    assert found(folder) == []


@pytest.mark.parametrize(
    ("database", "key", "subject"),
    [
        ("pages", PAGE_KEY.pack(1, 5), "page of partition 1 from sequence 5"),
        ("directory", PAGE_KEY.pack(1, 5), "directory row of page of partition 1 from sequence 5"),
        ("cursors", (1).to_bytes(4, "big"), "cursor of partition 1"),
        ("catalog", b"queue/orders", "row b'queue/orders' of catalog"),
    ],
)
def test_a_flipped_bit_is_found_wherever_it_is(folder: Path, database: str, key: bytes, subject: str) -> None:
    """A checksum guards every record."""
    flip_raw(folder, database, key, len(get_raw(folder, database, key)) - 3)

    errors = [each for each in found(folder) if each.severity == Severity.ERROR]

    assert errors[0].subject == subject
    assert "checksum" in errors[0].text


def test_partitions_that_two_queues_have_or_that_will_be_given_out_again_are_found(folder: Path) -> None:
    change(folder, queue("other", 1), queue("third", 2))

    assert [each for each in found(folder) if each.subject.startswith("queue")] == [
        SpoolFinding(Severity.ERROR, "queue other", "its partition id 1 is that of queue orders, too"),
        SpoolFinding(Severity.ERROR, "queue third", "its partition id 2 will be given out again: the counter is at 2"),
    ]


def test_data_without_a_queue_is_found(folder: Path) -> None:
    change(folder, pages=[PageWrite(9, page_bytes(1))], cursors=[CursorRecord(9, 4, [], 100, [])])

    assert found(folder) == [
        SpoolFinding(
            Severity.WARNING, "page of partition 9 from sequence 1", "no queue has that partition; it takes room"
        ),
        SpoolFinding(Severity.WARNING, "cursor of partition 9", "no queue has that partition"),
    ]


def test_pages_that_overlap_and_sequences_that_will_be_used_twice_are_found(folder: Path) -> None:
    change(folder, pages=[PageWrite(1, page_bytes(6))], cursors=[CursorRecord(1, 5, [(9, 20)], 8, [])])

    errors = {(each.subject, each.text) for each in found(folder)}

    assert ("page of partition 1 from sequence 6", "it begins within the page before, which goes up to 8") in errors
    assert ("cursor of partition 1", "19 is settled, and sequences from 8 on were never given out") in errors
    again = "it has sequence 8, which will be given out again"
    assert ("page of partition 1 from sequence 6", again) in errors


def test_a_page_that_the_directory_does_not_know_is_found(folder: Path) -> None:
    put_raw(folder, "pages", PAGE_KEY.pack(1, 50), page_bytes(50))

    (finding,) = found(folder)

    assert finding.subject == "page of partition 1 from sequence 50"
    assert "the directory does not know it" in finding.text


def test_readers_transactions_and_dead_message_queues_that_lead_nowhere_are_found(folder: Path) -> None:
    cursor = DurableCursor("spark", "gone", TAP)
    row = page_row(StagedPage("job/7", 0, 0, 300, 303, 10))
    change(
        folder,
        TableWrite(Table.READERS, b"gone/spark", orjson.dumps(cursor.to_row())),
        row,
        queue("lost", 1, dead_msg_queue="nowhere"),
        pages=[PageWrite(0, page_bytes(200))],
        cursors=[CursorRecord(0, 200, [], 1 << 20, [])],
    )

    findings = {(each.severity, each.subject, each.text) for each in found(folder)}

    assert (Severity.WARNING, "durable cursors spark", "there is no queue 'gone'") in findings
    assert (Severity.ERROR, "transaction job/7", "its page page/00000000000000000300 is not there") in findings
    assert (Severity.WARNING, "staged page 200", "no transaction has it; the next start removes it") in findings
    dead = "its dead_msg_queue 'nowhere' is not there: what dies is lost"
    assert (Severity.WARNING, "queue lost", dead) in findings


def test_a_queue_of_another_release_is_named(folder: Path) -> None:
    store = SpoolStore.open(folder, map_bytes_max=16 << 20, reserve_bytes=1 << 20)
    row = queue("newer", 1)
    assert row.value is not None
    strange = row.value.replace(b'"max_ttl"', b'"max_tti"')
    commit(store, rows=[row._replace(value=strange)])
    store.close()

    (finding,) = [each for each in found(folder) if "newer" in each.subject]

    assert finding.severity == Severity.ERROR
    assert "was written by another release: " in finding.text


def test_items_in_quarantine_are_shown(folder: Path) -> None:
    flip_raw(folder, "catalog", b"queue/orders", 30)
    flip_raw(folder, "catalog_copy", b"queue/orders", 30)
    store = SpoolStore.open(folder, map_bytes_max=16 << 20, reserve_bytes=1 << 20)
    assert b"queue/orders" not in dict(store.recover().tables[Table.CATALOG])
    store.close()

    (finding,) = [each for each in found(folder) if each.subject.startswith("quarantine")]

    assert (finding.severity, finding.subject) == (Severity.WARNING, "quarantine item 1")
    assert "row b'queue/orders' of catalog, damaged" in finding.text
