"""The row of a message VPN, and the jobs that delete everything of it."""

from collections.abc import Callable

import pytest

from sluicegate.gateway.node.recovery import read_store
from sluicegate.messaging.message.vpn import row_prefix
from sluicegate.messaging.queues.definition import QueueConfig, QueueDefinition
from sluicegate.storage.catalog.partition_owners import owner_rows, staging_owner_row
from sluicegate.storage.catalog.queues import StoredQueue, queue_row, staging_row
from sluicegate.storage.catalog.recovered import StoredVpn, read_vpns
from sluicegate.storage.catalog.vpn_rows import (
    VPN_ROW,
    deletion_jobs,
    is_being_deleted,
    partitions_of,
    stored_settings,
    vpn_row,
)
from sluicegate.storage.errors import StoreFull
from sluicegate.storage.interface import CommitJob, Reservation, Table, TableWrite
from sluicegate.storage.store.store import SpoolStore
from support.storage.store_work import commit

OpenStore = Callable[[], SpoolStore]

PREFIX = row_prefix("sales")
QUEUE = StoredQueue(QueueDefinition(QueueConfig(name="q")), "named", [7, 8], None, None)
ROWS = [
    queue_row(QUEUE),
    *owner_rows(QUEUE),
    staging_row(9),
    staging_owner_row(9),
    TableWrite(Table.RETAINED, b"t/1", b"v"),
    TableWrite(Table.SESSIONS, b"state/c", b"v"),
    TableWrite(Table.READERS, b"q/c", b"{}"),
    TableWrite(Table.TRANSACTIONS, b"page/1", b"v"),
]


def fill(store: SpoolStore, *, deleting: bool = True) -> None:
    """Store a message VPN with rows in every table and three partitions, and something of `default`."""
    reservations = [Reservation(partition_id, 1, 1000) for partition_id in (5, 7, 8, 9)]
    other = StoredQueue(QueueDefinition(QueueConfig(name="other")), "named", [5], None, None)
    rows = [row.under(PREFIX) for row in ROWS] + [queue_row(other), *owner_rows(other)]
    commit(store, rows=[*rows, vpn_row("sales", {"name": "sales"}, deleting=deleting)], reservations=reservations)


def stored(store: SpoolStore) -> dict[str, StoredVpn]:
    return read_vpns(store.recover().tables)


def test_the_row_has_the_settings_and_whether_it_is_being_deleted() -> None:
    for deleting in (False, True):
        row = vpn_row("sales", {"name": "sales", "enabled": False}, deleting=deleting)
        assert row.key == PREFIX + VPN_ROW
        assert row.value is not None
        catalog = {VPN_ROW: row.value}
        assert stored_settings(catalog) == {"name": "sales", "enabled": False}
        assert is_being_deleted(catalog) == deleting
    assert (stored_settings({}), is_being_deleted({})) == (None, False)


def test_a_row_that_cannot_be_read_deletes_nothing() -> None:
    """What a disk sent may be anything."""
    for value in (b"", b"[]", b'{"deleting": 1}'):
        assert not is_being_deleted({VPN_ROW: value})
    with pytest.raises(ValueError, match="no object"):
        stored_settings({VPN_ROW: b"[]"})


def test_every_partition_that_a_row_names_is_deleted(store: SpoolStore) -> None:
    """By the queue's row, by the owners' rows, or by that of staged transactions."""
    fill(store)
    assert partitions_of("sales", stored(store)["sales"]) == {7, 8, 9}


@pytest.mark.parametrize("done", range(4))
def test_a_start_finishes_a_deletion_whatever_was_done_of_it(
    store: SpoolStore, open_store: OpenStore, done: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row of the message VPN is the last that goes, so nothing is forgotten and nothing comes back."""
    monkeypatch.setattr("sluicegate.storage.catalog.vpn_rows.ROWS_PER_COMMIT", 4)
    fill(store)
    jobs = list(deletion_jobs("sales", stored(store)["sales"], store.recover().next_record_number))
    assert len(jobs) > 3
    for job in jobs[:done]:
        store.commit(job)
    again = open_store()
    recovered = read_store(again)
    assert list(recovered.vpns) == ["default"]
    assert recovered.vpns["default"].lost == []
    assert set(recovered.partitions) == {5}
    assert not any(again.row_keys(PREFIX).values())
    assert recovered.planner.next_record_number == again.recover().next_record_number


def test_a_message_vpn_that_is_not_being_deleted_stays(store: SpoolStore, open_store: OpenStore) -> None:
    fill(store, deleting=False)
    recovered = read_store(open_store())
    assert list(recovered.vpns) == ["default", "sales"]
    assert {7, 8, 9} <= set(recovered.partitions)


def test_a_store_without_room_is_served_as_it_is(
    store: SpoolStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A node with a full store must start, to be emptied; the next start tries again."""
    fill(store)

    def full(job: CommitJob) -> int:
        raise StoreFull("disk", "no room")

    with monkeypatch.context() as patched:
        patched.setattr(store, "commit", full)
        assert "sales" in read_store(store).vpns
    assert "message VPN 'sales' is not deleted completely yet" in caplog.text
    assert list(read_store(store).vpns) == ["default"]
