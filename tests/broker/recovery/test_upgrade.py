"""Stores of earlier releases, opened by this one."""

import lzma
from datetime import UTC, datetime
from pathlib import Path

from sluicegate.gateway.operations.node import NodeOperations
from support.broker.running_broker import RunningBroker

WRITTEN = datetime(2026, 11, 21, 18, 5, tzinfo=UTC)  # later the session in the store has expired
DATA = Path(__file__).resolve().parents[2] / "data" / "storage"


def brought_back(name: str, folder: Path) -> Path:
    """Return a data folder that has a store of `tests/data/storage`."""
    folder.mkdir()
    (folder / "data.mdb").write_bytes(lzma.decompress((DATA / name).read_bytes()))
    return folder


async def test_a_store_that_knew_no_message_vpns_is_that_of_default(tmp_path: Path) -> None:
    """Written by release 0.1, without message VPNs, and closed in order: two queues, a template, a session, a topic."""
    folder = brought_back("spool_before_message_vpns.mdb.xz", tmp_path / "data")
    broker = RunningBroker(folder)
    broker.clock.set_wall(WRITTEN)
    async with broker:
        view = NodeOperations(broker.node)
        ready = {queue.name: queue.ready_count for queue in await view.list_queues()}
        assert ready == {"#mqtt/device": 1, "orders": 3, "plain": 0}
        assert [template.name for template in await view.list_templates()] == ["t"]
        assert (await view.show_queue("orders")).config.partition_count == 2
        device = await broker.connect_durable("device")
        assert await device.payloads(1) == [b"kept"]
        newcomer = await broker.connect("newcomer", 5)
        await newcomer.subscribe("news/+")
        assert await newcomer.payloads(1) == [b"kept"]
