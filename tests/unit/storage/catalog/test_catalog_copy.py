"""Definitions are kept twice: one that is damaged, or lost, is taken from its copy, and put back."""

from pathlib import Path

import lmdb
import pytest

from sluicegate.storage.backup.reader import SpoolReader
from sluicegate.storage.environment.databases import CATALOG_COPY, DATABASE_COUNT
from sluicegate.storage.integrity.salvage_copy import salvage_spool
from sluicegate.storage.interface import Recovery, Table, TableWrite
from sluicegate.storage.store.store import SpoolStore
from support.storage.store_work import checkpoint, commit

MAP_BYTES = 1 << 26
ROWS = {b"row/%d" % number: b'{"queue": %d}' % number for number in range(4)}


def opened(folder: Path) -> SpoolStore:
    return SpoolStore.open(folder, map_bytes_max=MAP_BYTES)


def catalog(recovery: Recovery) -> dict[bytes, bytes]:
    return dict(recovery.tables[Table.CATALOG])


def change(folder: Path, *names: str, key: bytes, value: bytes | None) -> None:
    """Put other bytes under a key of these sub-databases, or take it away."""
    with lmdb.open(str(folder), max_dbs=DATABASE_COUNT, map_size=MAP_BYTES) as env, env.begin(write=True) as txn:
        for name in names:
            database = env.open_db(name.encode(), txn=txn)
            if value is None:
                assert txn.delete(key, db=database)
            else:
                txn.put(key, value, db=database)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    store = opened(tmp_path / "data")
    commit(store, rows=[TableWrite(Table.CATALOG, *row) for row in ROWS.items()])
    commit(store, rows=[TableWrite(Table.CATALOG, b"gone", b"{}")])
    checkpoint(store)
    commit(store, rows=[TableWrite(Table.CATALOG, b"gone", None)])
    checkpoint(store)
    store.close()
    return tmp_path / "data"


@pytest.mark.parametrize("value", [b"torn", None])
def test_a_definition_is_taken_from_its_copy_and_put_back(folder: Path, value: bytes | None) -> None:
    change(folder, "catalog", key=b"row/1", value=value)
    with SpoolReader.open_folder(folder) as reader:
        assert reader.tables[Table.CATALOG] == ROWS
        assert ["its copy is used" in entry.detail for entry in reader.damage] == [True]

    store = opened(folder)
    recovery = store.recover()
    assert catalog(recovery) == ROWS
    assert len(recovery.quarantined) == 1
    recovery = store.recover()
    assert (catalog(recovery), recovery.quarantined) == (ROWS, [])
    store.close()


@pytest.mark.parametrize("value", [b"torn", None])
def test_a_copy_that_is_damaged_or_lost_is_written_anew(folder: Path, value: bytes | None) -> None:
    change(folder, CATALOG_COPY, key=b"row/1", value=value)
    with SpoolReader.open_folder(folder) as reader:
        assert ["is written anew" in entry.detail for entry in reader.damage] == [True]
    store = opened(folder)
    recovery = store.recover()
    assert (catalog(recovery), len(recovery.quarantined)) == (ROWS, 1)
    recovery = store.recover()
    assert (catalog(recovery), recovery.quarantined) == (ROWS, [])
    store.close()
    change(folder, "catalog", key=b"row/1", value=None)
    store = opened(folder)
    assert catalog(store.recover()) == ROWS
    store.close()


def test_where_both_are_damaged_the_row_is_set_aside(folder: Path) -> None:
    change(folder, "catalog", CATALOG_COPY, key=b"row/1", value=b"torn")
    store = opened(folder)
    recovery = store.recover()
    assert catalog(recovery) == {key: value for key, value in ROWS.items() if key != b"row/1"}
    assert [entry.reason for entry in recovery.quarantined] == ["damaged"]
    store.close()


def test_a_spool_without_a_copy_gets_one_when_it_is_opened(folder: Path) -> None:
    with lmdb.open(str(folder), max_dbs=DATABASE_COUNT, map_size=MAP_BYTES) as env, env.begin(write=True) as txn:
        txn.drop(env.open_db(CATALOG_COPY.encode(), txn=txn))
    with SpoolReader.open_folder(folder) as reader:
        assert (reader.tables[Table.CATALOG], reader.damage) == (ROWS, [])
    opened(folder).close()
    change(folder, "catalog", key=b"row/2", value=b"torn")
    store = opened(folder)
    assert catalog(store.recover()) == ROWS
    store.close()


def test_a_salvage_has_the_definitions_of_both_copies(folder: Path, tmp_path: Path) -> None:
    change(folder, "catalog", key=b"row/3", value=b"torn")
    salvage_spool(folder / "data.mdb", tmp_path / "new", incarnation=1, looked=lambda: None)
    store = opened(tmp_path / "new")
    assert catalog(store.recover()) == ROWS
    store.close()
