"""The keys of rows that begin with a prefix, wherever the rows are at this moment."""

from collections.abc import Callable

from sluicegate.messaging.message.vpn import row_prefix
from sluicegate.storage.interface import Table, TableWrite
from sluicegate.storage.store.store import SpoolStore
from support.storage.store_work import checkpoint, commit

OpenStore = Callable[[], SpoolStore]

SALES, SALE = row_prefix("sales"), row_prefix("sale")
LONG = SALES + b"x" * 600  # stored under a shortened key


def put(*keys: bytes, table: Table = Table.RETAINED) -> list[TableWrite]:
    return [TableWrite(table, key, b"v") for key in keys]


def found(store: SpoolStore, prefix: bytes = SALES) -> dict[Table, list[bytes]]:
    return {table: sorted(keys) for table, keys in store.row_keys(prefix).items() if keys}


def test_rows_of_the_log_and_of_the_state_are_found(store: SpoolStore, open_store: OpenStore) -> None:
    """A checkpoint moves rows from one to the other, and changes nothing of the answer."""
    commit(store, rows=put(SALES + b"a", LONG, SALE + b"a", b"a"))
    commit(store, rows=put(SALES + b"q", table=Table.CATALOG))
    expected = {Table.CATALOG: [SALES + b"q"], Table.RETAINED: [SALES + b"a", LONG]}
    assert found(store) == expected
    checkpoint(store)
    assert found(store) == expected
    assert found(open_store()) == expected


def test_what_the_log_deletes_or_writes_again_counts_as_the_log_says(store: SpoolStore) -> None:
    """The log is the newer of the two."""
    commit(store, rows=put(SALES + b"a", SALES + b"b", LONG))
    checkpoint(store)
    commit(store, rows=[TableWrite(Table.RETAINED, key, None) for key in (SALES + b"a", LONG)])
    commit(store, rows=put(SALES + b"b", SALES + b"c"))
    assert found(store) == {Table.RETAINED: [SALES + b"b", SALES + b"c"]}


def test_more_rows_than_are_read_at_once_are_all_found(store: SpoolStore) -> None:
    """KEYS_PER_READ bounds how long the map must stay in place."""
    keys = [SALES + b"%05d" % number for number in range(2500)]
    commit(store, rows=put(*keys))
    checkpoint(store)
    assert found(store) == {Table.RETAINED: keys}


def test_rows_are_found_with_their_values_wherever_they_are(store: SpoolStore, open_store: OpenStore) -> None:
    commit(store, rows=put(SALES + b"a", SALES + b"gone", LONG, SALE + b"a"))
    checkpoint(store)
    commit(store, rows=[TableWrite(Table.RETAINED, SALES + b"gone", None)])
    commit(store, rows=[TableWrite(Table.RETAINED, SALES + b"b", b"in the log")])
    assert store.rows(Table.CATALOG, SALES) == {}
    expected = {SALES + b"a": b"v", LONG: b"v", SALES + b"b": b"in the log"}
    assert store.rows(Table.RETAINED, SALES) == expected
    assert open_store().rows(Table.RETAINED, SALES) == expected
