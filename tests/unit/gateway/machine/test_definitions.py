"""The definitions that brokers of a machine have alike: whose hold, and what a store that differs gets."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from sluicegate.gateway.machine.definitions import EQUALIZED_ROW, Definitions, chosen, definitions_of, equalize
from sluicegate.messaging.message.vpn import row_prefix
from sluicegate.storage.catalog.recovered import read_vpns
from sluicegate.storage.catalog.vpn_rows import VPN_ROW, is_being_deleted
from sluicegate.storage.interface import CommitJob, Table, TableWrite
from sluicegate.storage.store.store import SpoolStore

SALES = row_prefix("sales")
MAP_BYTES = 1 << 24
ALL = {
    b"user/alice": b"a",
    b"client-profile/some": b"c",
    b"acl-profile/few": b"f",
    b"template/short": b"t",
    b"link/edge": b"l",
    SALES + VPN_ROW: b"{}",
    SALES + b"user/bob": b"b",
}
NO_DEFINITIONS = {b"queue/q": b"q", b"bridge/b": b"b", b"counter/partition-id": b"7", SALES + b"queue/q": b"q"}


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[SpoolStore, SpoolStore]]:
    """Two new stores."""
    opened = [
        SpoolStore.open(tmp_path / name, map_bytes_max=MAP_BYTES, reserve_bytes=MAP_BYTES // 4, sync=False)
        for name in ("1", "2")
    ]
    yield opened[0], opened[1]
    for store in opened:
        store.close()


def put(store: SpoolStore, rows: Mapping[bytes, bytes | None]) -> None:
    number = store.recover().next_record_number
    writes = [TableWrite(Table.CATALOG, key, value) for key, value in rows.items()]
    store.commit(CommitJob(number=number, table_writes=writes))


def catalog_of(store: SpoolStore) -> dict[bytes, bytes]:
    return dict(store.recover().tables[Table.CATALOG])


def test_a_new_store_gets_all_definitions_and_nothing_else(stores: tuple[SpoolStore, SpoolStore]) -> None:
    first, new = stores
    put(first, ALL | NO_DEFINITIONS)
    assert equalize(new, definitions_of(first)) == len(ALL)
    assert catalog_of(new) == {**ALL, EQUALIZED_ROW: b"1"}


def test_what_differs_is_changed_and_what_was_deleted_goes(stores: tuple[SpoolStore, SpoolStore]) -> None:
    first, second = stores
    put(first, ALL)
    put(second, {**ALL, **NO_DEFINITIONS, b"user/alice": b"before", b"user/gone": b"g", SALES + b"user/gone": b"g"})
    assert equalize(second, definitions_of(first)) == 3
    assert catalog_of(second) == {**ALL, **NO_DEFINITIONS, EQUALIZED_ROW: b"1"}
    assert equalize(second, definitions_of(first)) == 0


def test_a_message_vpn_that_the_others_deleted_is_deleted_with_what_it_holds(
    stores: tuple[SpoolStore, SpoolStore],
) -> None:
    first, second = stores
    put(second, ALL | NO_DEFINITIONS)
    equalize(second, definitions_of(first))
    sales = read_vpns(second.recover().tables)["sales"]
    assert is_being_deleted(sales.catalog)


def test_a_message_vpn_that_lost_its_definition_alone_is_not_deleted(stores: tuple[SpoolStore, SpoolStore]) -> None:
    first, second = stores
    put(first, {SALES + b"queue/q": b"q"})
    put(second, ALL | NO_DEFINITIONS)
    equalize(second, definitions_of(first))
    assert read_vpns(second.recover().tables)["sales"].catalog == {b"queue/q": b"q"}


def test_when_no_broker_runs_the_first_ones_hold_unless_its_store_is_new() -> None:
    empty = Definitions({}, frozenset())
    some = Definitions({b"user/a": b"1"}, frozenset())
    equalized = Definitions({b"user/a": b"2", EQUALIZED_ROW: b"1"}, frozenset())
    deleted = Definitions({EQUALIZED_ROW: b"1"}, frozenset())
    assert chosen([some, empty]) is some  # one broker has become two
    assert chosen([deleted, equalized]) is deleted  # all were deleted: they do not come back
    assert chosen([empty, equalized]) is equalized  # the first broker's store is lost
