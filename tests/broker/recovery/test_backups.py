"""Backups of a node that runs: consistent, readable without a broker, and a spool that serves once restored."""

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sluicegate.actors.spool.backups import BackupThread
from sluicegate.gateway.operations.backups import cancel_backup, show_backup, start_backup
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.errors import Refused
from sluicegate.gateway.views.node.backups import BackupState, BackupView
from sluicegate.messaging.bulk.durable_cursors import CONSUME
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.messaging.partitions.state.segments import GAP_SETTLED, Gap
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.storage.backup.reader import SpoolReader, VpnReader
from sluicegate.storage.backup.restore import restore_backup
from support.broker.inside_client import InsideClient, until
from support.broker.running_broker import RunningBroker

RESTORED_INCARNATION = 4711


async def ended_backup(broker: RunningBroker) -> BackupView:
    async def has_ended() -> bool:
        return (await show_backup(broker.node)).state != BackupState.RUNNING

    await until(has_ended, "the end of the backup")
    return await show_backup(broker.node)


async def backed_up(broker: RunningBroker, name: str = "b") -> Path:
    """Make a backup, and return its folder."""
    await start_backup(broker.node, name)
    view = await ended_backup(broker)
    assert view.state == BackupState.DONE, view
    return Path(view.folder)


async def serve_restored(broker: RunningBroker, backup: Path) -> None:
    """Stop the node, lose its data folder, and start on what the backup has."""
    await broker.stop()
    data: Path = broker.config.data.path
    data.rename(data.with_name("lost"))
    restore_backup(backup, data, incarnation=RESTORED_INCARNATION, copied=lambda _: None)
    await broker.start()


def everything(
    vpn: VpnReader, queue: str, partition: int = 0, *, bytes_max: int = 1 << 20
) -> tuple[dict[int, bytes], list[Gap]]:
    """Read a partition of a backup chunk by chunk: payloads by sequence, and gaps."""
    found: dict[int, bytes] = {}
    gaps: list[Gap] = []
    first = 1
    while True:
        chunk = vpn.read(queue, partition, first, bytes_max=bytes_max)
        for run in chunk.runs:
            found.update(enumerate(run.batch.payloads()[run.start_row : run.stop_row], run.first_sequence))
        gaps += chunk.gaps
        if chunk.next_sequence == first:
            return found, gaps
        first = chunk.next_sequence


class HeldCopy:
    """Keeps a node's copy of its store from going on until the test says so."""

    def __init__(self, broker: RunningBroker, patch: pytest.MonkeyPatch) -> None:
        self.may_go_on = threading.Event()
        self._copy = broker.node.services.store.stream_copy
        patch.setattr(broker.node.services.store, "stream_copy", self._held)

    def _held(self, sink: Callable[[bytes], None]) -> None:
        def held(piece: bytes) -> None:
            self.may_go_on.wait(30)
            sink(piece)

        self._copy(held)


async def test_a_backup_shows_queues_positions_and_messages_without_a_broker(broker: RunningBroker) -> None:
    """Spark reference 3.1 and 5: a copy that other processes open; it has what was confirmed before, and no more."""
    orders = InsideClient(broker, "orders")
    await orders.create()
    await orders.publish(*[b"%d" % number for number in range(1, 6)])
    await orders.consume_all()
    await orders.publish(*[b"%d" % number for number in range(6, 11)])

    folder = await backed_up(broker)
    await orders.publish(b"11")
    await orders.consume_all()

    with SpoolReader.open_backup(folder) as reader:
        assert reader.incarnation == broker.node.services.recovered.incarnation
        assert reader.damage == []
        vpn = reader.vpns[DEFAULT_VPN]
        assert [name for name, queue in vpn.queues.items() if queue.kind == "named"] == ["orders"]
        (position,) = vpn.partitions("orders")
        assert (position.low, position.first_unsettled, position.end, position.waiting_count) == (6, 6, 11, 5)
        found, gaps = everything(vpn, "orders")
        assert found == {number: b"%d" % number for number in range(6, 11)}
        assert gaps == [Gap(1, 6, GAP_SETTLED)]
        assert everything(vpn, "orders", bytes_max=1) == (found, gaps)


@pytest.mark.settings("spool.memory_bytes_max=1MiB")
async def test_a_backup_is_read_as_a_node_that_starts_on_it_is_read(broker: RunningBroker) -> None:
    """Partitions, pages, what is kept beyond its settlement, durable cursors: the same rows and gaps."""
    orders = InsideClient(broker, "orders")
    await orders.create(partition_count=3, access_type="non-exclusive", retention_size_mb=50)
    keys = [f"k{number}" for number in range(40)]
    for number in range(20):
        await orders.publish(*[b"%d/%d" % (number, row) + b"." * 1500 for row in range(40)], keys=keys)
        if number == 10:
            await orders.consume_all()
    other = InsideClient(broker, "other")
    await other.create()
    await other.publish(b"1", b"2", b"3", b"4")
    epoch = (await other.bind(mode=CONSUME)).epoch
    await other.ack(epoch, {0: 3}, batch_ref="q/1")

    async def is_paged() -> bool:
        return sum(each.memory_bytes for each in (await orders.overview()).partitions) < 1 << 20

    await until(is_paged, "pages")
    folder = await backed_up(broker)
    await serve_restored(broker, folder)

    with SpoolReader.open_backup(folder) as reader:
        vpn = reader.vpns[DEFAULT_VPN]
        for partition in range(3):
            found, gaps = everything(vpn, "orders", partition, bytes_max=100_000)
            end = vpn.partitions("orders")[partition].end
            assert list(found) == sorted(found)
            assert (found, gaps) == await orders.read(1, end, partition=partition)
        assert sum(each.end - 1 for each in vpn.partitions("orders")) == 800
        assert vpn.partitions("other")[0].first_unsettled == 3
        assert {3: b"3", 4: b"4"}.items() <= everything(vpn, "other")[0].items()
        (cursor,) = vpn.cursors.of("other")
        assert (cursor.name, cursor.batch_ref) == ("c", "q/1")
    drained = await orders.consume_all()
    assert len(drained.got) == 360
    assert all(redelivered for *_, redelivered in drained.got), "nobody knows what has been delivered since the backup"


async def test_readers_of_a_restored_spool_see_that_it_is_another_one(broker: RunningBroker) -> None:
    orders = InsideClient(broker, "orders")
    await orders.create()
    await orders.publish(b"1", b"2")
    before = await orders.bind()
    await orders.ack(before.epoch, {0: 2})

    await serve_restored(broker, await backed_up(broker))

    bound = await orders.bind()
    assert bound.incarnation == RESTORED_INCARNATION != before.incarnation
    assert [each.acked for each in bound.positions] == [2], "its place is as in the backup"


async def test_backups_are_made_one_at_a_time_and_a_cancelled_one_leaves_nothing(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(Refused, match="no backup was made"):
        await show_backup(broker.node)
    held = HeldCopy(broker, monkeypatch)
    started = await start_backup(broker.node, "one")
    assert started.state == BackupState.RUNNING
    with pytest.raises(Refused, match="backup 'one' is running"):
        await start_backup(broker.node, "two")
    held.may_go_on.set()

    cancelled = await cancel_backup(broker.node)

    assert cancelled.name == "one"
    if cancelled.state == BackupState.CANCELLED:  # else it was whole before the word came
        assert os.listdir(tmp_path / "backups") == []
    assert (await backed_up(broker, "three")).name == "three"


async def test_a_backup_that_could_not_begin_leaves_room_for_the_next(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store may not answer, and the machine may have no thread left: nothing runs then."""

    def fail(*_: object) -> None:
        raise OSError("no more of that")

    for owner, name in ((broker.node.services.store, "usage"), (BackupThread, "start")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, fail)
            with pytest.raises(OSError, match="no more of that"):
                await start_backup(broker.node, "failing")
        with pytest.raises(Refused, match="no backup was made"):
            await cancel_backup(broker.node)
    assert (await backed_up(broker, "next")).name == "next"


async def test_a_backup_goes_on_when_the_actor_that_watches_over_it_fails(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Who has cancelled it hears of its end, and all that ended are counted still."""
    await backed_up(broker, "before")
    held = HeldCopy(broker, monkeypatch)
    await start_backup(broker.node, "one")
    cancelling = asyncio.create_task(cancel_backup(broker.node))
    await asyncio.sleep(0)  # it asks
    await show_backup(broker.node)  # behind that
    caplog.handler.addFilter(lambda record: "a mistake" not in record.getMessage())
    broker.node.backups.failed(ValueError("a mistake"))
    assert (await show_backup(broker.node)).state == BackupState.RUNNING
    held.may_go_on.set()
    ended = await cancelling
    assert ended.name == "one"
    samples = await NodeOperations(broker.node).metrics_snapshot()
    assert sum([each.value for each in samples if each.name == "sluicegate_backups_total"]) == 2


async def test_a_node_that_stops_ends_its_backup(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await InsideClient(broker, "orders").create()
    held = HeldCopy(broker, monkeypatch)
    await start_backup(broker.node, "one")
    await until(lambda: (tmp_path / "backups" / "one").exists(), "the beginning of the backup")
    threading.Timer(0.2, held.may_go_on.set).start()  # the node waits meanwhile, on the only thread of the loop

    await broker.restart()

    assert os.listdir(tmp_path / "backups") in ([], ["one"])
    if os.listdir(tmp_path / "backups"):  # it was whole before the node stopped
        SpoolReader.open_backup(tmp_path / "backups" / "one").close()
    assert await InsideClient(broker, "orders").exists()


async def test_a_backup_has_a_name_that_stays_in_its_folder(broker: RunningBroker) -> None:
    for name in ("../escaped", "a/b", ".hidden", "x" * 101):
        with pytest.raises(QueueInvalid):
            await start_backup(broker.node, name)
    by_time = Path((await start_backup(broker.node, "")).folder)
    await ended_backup(broker)
    assert by_time.name.endswith("Z")
    await backed_up(broker, "again")
    with pytest.raises(Refused, match="again is not empty"):
        await start_backup(broker.node, "again")
