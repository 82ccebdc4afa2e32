"""Which queue a partition belongs to, by rows beside the definitions: what they say, and what is found by them."""

from pathlib import Path

import orjson
import pytest

from sluicegate.messaging.queues.assignment.slots import Rescale, modulo_slots, resized_slots
from sluicegate.messaging.queues.definition import definition_from_dict
from sluicegate.storage.backup.reader import SpoolReader
from sluicegate.storage.catalog.partition_owners import find_lost, owner_rows, owner_rows_deleted, staging_owner_row
from sluicegate.storage.catalog.queues import PartitionIds, StoredQueue, queue_row, staging_partition_id
from sluicegate.storage.catalog.recovered import StoredVpn, read_partitions, read_vpns
from sluicegate.storage.integrity.salvage_copy import salvage_spool
from sluicegate.storage.interface import PageWrite, Table, TableWrite
from sluicegate.storage.records.cursor import CursorRecord
from sluicegate.storage.store.store import SpoolStore
from support.storage.sample_records import page_bytes, publish_job
from support.storage.spool_file import flip_raw
from support.storage.store_work import checkpoint, commit

MAP_BYTES = 1 << 26


def queue(name: str, *partition_ids: int, kind: str = "named", **attributes: object) -> StoredQueue:
    definition = definition_from_dict({"name": name, **attributes}, reserved_name=True)
    return StoredQueue(definition, kind, list(partition_ids), None, None)


def partitioned(*partition_ids: int) -> StoredQueue:
    return queue("orders", *partition_ids, access_type="non-exclusive", partition_count=len(partition_ids))


def spool(folder: Path, *rows: TableWrite, pages: tuple[int, ...] = (), settled: tuple[int, ...] = ()) -> Path:
    """Write a spool with pages of sequences 5 to 7 in some partitions; of some of them everything is settled."""
    store = SpoolStore.open(folder, map_bytes_max=MAP_BYTES)
    cursors = [CursorRecord(each, 8 if each in settled else 5, [], 1 << 20, []) for each in pages]
    writes = [PageWrite(each, page_bytes(5)) for each in pages]
    commit(store, rows=rows)
    checkpoint(store, pages=writes, cursors=cursors)
    store.close()
    return folder


def vpns_in(folder: Path) -> tuple[dict[str, StoredVpn], PartitionIds]:
    store = SpoolStore.open(folder, map_bytes_max=MAP_BYTES)
    recovery = store.recover()
    partitions, _ = read_partitions(recovery)
    vpns = read_vpns(recovery.tables)
    store.close()
    return vpns, find_lost(vpns, partitions)


def lost_in(folder: Path) -> dict[str, list[int]]:
    return {each.name: each.partition_ids for each in vpns_in(folder)[0]["default"].lost}


def test_a_row_says_whose_a_partition_is() -> None:
    """At rest: a release that reads them otherwise has to read these as well."""
    rows = owner_rows(queue("#amqp/c/s", 7, 8, kind="amqp-subscription", owner="ada", retention_time_s=60))
    assert [(row.table, row.key) for row in rows] == [(Table.OWNERS, b"partition/7"), (Table.OWNERS, b"partition/8")]
    said = {"queue": "#amqp/c/s", "kind": "amqp-subscription", "of": 2, "partition_count": 0, "owner": "ada"}
    assert [orjson.loads(row.value or b"") for row in rows] == [
        {**said, "number": 0, "retention_time_s": 60},
        {**said, "number": 1},
    ]
    assert staging_owner_row(3) == TableWrite(Table.OWNERS, b"partition/3", b'{"kind":"staging"}')
    assert owner_rows_deleted([7]) == [TableWrite(Table.OWNERS, b"partition/7", None)]


def test_a_queue_is_put_together_by_the_rows_of_its_partitions(tmp_path: Path) -> None:
    folder = spool(tmp_path / "s", *owner_rows(partitioned(4, 5, 6)), pages=(4, 6))
    (lost,) = vpns_in(folder)[0]["default"].lost
    config = lost.definition.config
    assert (lost.name, lost.kind, lost.partition_ids, lost.definition_lost) == ("orders", "named", [4, 5, 6], True)
    assert (config.partition_count, config.ingress_enabled, config.egress_enabled) == (3, False, False)


def test_the_slot_map_and_a_change_under_way_are_in_the_row_of_the_first_partition(tmp_path: Path) -> None:
    before, slots = modulo_slots(4), resized_slots(modulo_slots(4), 4, 5)
    rescale = Rescale(count_before=4, count=5, slots_before=before, slots=slots)
    rescale.take_cut(1, 99)
    changing = StoredQueue(partitioned(1, 2, 3, 4, 5).definition, "named", [1, 2, 3, 4, 5], slots, rescale)
    (lost,) = vpns_in(spool(tmp_path / "s", *owner_rows(changing)))[0]["default"].lost
    assert lost.slots == slots
    assert lost.rescale is not None
    assert (lost.rescale.slots_before, lost.rescale.cuts) == (before, rescale.cuts)


@pytest.mark.parametrize("gone", [4, 5, 6])
def test_a_partition_without_a_row_is_that_between_its_neighbours(tmp_path: Path, gone: int) -> None:
    rows = [row for row in owner_rows(partitioned(4, 5, 6)) if row.key != b"partition/%d" % gone]
    assert lost_in(spool(tmp_path / "s", *rows, pages=(4, 5, 6))) == {"orders": [4, 5, 6]}


def test_a_partition_of_which_nothing_is_left_begins_anew_under_an_id_of_its_own(tmp_path: Path) -> None:
    rows = [owner_rows(partitioned(4, 5, 6))[number] for number in (0, 2)]
    vpns, ids = vpns_in(spool(tmp_path / "s", *rows, PartitionIds({}, used=[6]).row(), pages=(4, 6)))
    assert [each.partition_ids for each in vpns["default"].lost] == [[4, 7, 6]]
    assert ids.next_id == 8


def test_partitions_without_a_definition_become_a_queue_each(tmp_path: Path) -> None:
    folder = spool(tmp_path / "s", pages=(3, 9, 12), settled=(9,))
    assert lost_in(folder) == {"#recovered/3": [3], "#recovered/12": [12]}
    with SpoolReader.open_folder(folder) as reader:
        assert [each.waiting_count for each in reader.vpns["default"].partitions("#recovered/12")] == [3]


def test_nothing_is_lost_where_there_is_a_definition(tmp_path: Path) -> None:
    """Also of a spool of an earlier release, which has no rows of partitions."""
    assert lost_in(spool(tmp_path / "s", queue_row(partitioned(3, 4)), pages=(3, 4))) == {}


def test_journal_records_of_a_deleted_queue_are_no_lost_queue(tmp_path: Path) -> None:
    """A partition that was purged has neither a cursor nor pages."""
    store = SpoolStore.open(tmp_path / "s", map_bytes_max=MAP_BYTES)
    store.commit(publish_job(1))
    store.close()
    assert lost_in(tmp_path / "s") == {}


def test_the_partition_for_staged_transactions_is_known_by_its_row(tmp_path: Path) -> None:
    row = staging_owner_row(5).under(b"\0sales\0")
    vpns, _ = vpns_in(spool(tmp_path / "s", row, pages=(5,)))
    assert staging_partition_id("sales", vpns["sales"].catalog) == 5
    assert [vpn.lost for vpn in vpns.values()] == [[], []]


def test_a_damaged_row_costs_no_more_than_itself(tmp_path: Path) -> None:
    folder = spool(tmp_path / "s", *owner_rows(partitioned(4, 5)), *owner_rows(queue("plain", 6)), pages=(4, 5, 6))
    flip_raw(folder, "owners", b"partition/5", -1)
    flip_raw(folder, "owners", b"partition/6", -1)
    assert lost_in(folder) == {"orders": [4, 5], "#recovered/6": [6]}


def test_a_salvage_knows_the_queues_of_its_partitions(tmp_path: Path) -> None:
    folder = spool(tmp_path / "s", *owner_rows(partitioned(4, 5)), pages=(4, 5))
    salvage_spool(folder / "data.mdb", tmp_path / "new", incarnation=1, looked=lambda: None)
    assert lost_in(tmp_path / "new") == {"orders": [4, 5]}
