"""`sluicegate restore` under programs with named publishers: those that may miss messages are told, others continue."""

import asyncio
import shutil
from pathlib import Path

import pytest

from sluicegate import Client, ClientOptions, Column, IncarnationChanged, Message, Publisher
from support.processes.gateway import GatewayProcess

BEFORE = 60  # messages of each publisher that the backup has
AFTER = 40  # messages that were confirmed after it
WITHIN_S = 240

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(400)]


def message(publisher: Publisher, number: int) -> Message:
    return Message(f"{publisher.name}/{number}".encode(), queue="q")


def restore(gateway: GatewayProcess) -> None:
    """Have the gateway crash, lose its data, and start on what the backup has."""
    gateway.kill9()
    shutil.rmtree(gateway.data)
    restored = gateway.command("restore", str(gateway.backups / "b"), "--data", str(gateway.data))
    assert restored.returncode == 0, restored.stderr
    gateway.start()


async def publish_over_a_restore(gateway: GatewayProcess) -> list[bytes]:
    """Publish with one publisher before the backup only, with the other behind it, too; return what is stored then."""
    options = ClientOptions(reconnect_delay_max_s=0.5)
    async with asyncio.timeout(WITHIN_S), Client(f"flow://127.0.0.1:{gateway.ports['flow']}", options) as client:
        async with client.publisher("idle") as idle:
            busy = await client.publisher("busy").__aenter__()
            spool = busy.incarnation
            for publisher in (idle, busy):
                for number in range(1, BEFORE + 1):
                    await publisher.send(message(publisher, number), sequence=number)
                await publisher.flush()
            backed_up = await asyncio.to_thread(gateway.command, "backup", "b")
            assert backed_up.returncode == 0, backed_up.stderr
            for number in range(BEFORE + 1, BEFORE + AFTER + 1):
                await busy.send(message(busy, number), sequence=number)
            await busy.flush()

            await asyncio.to_thread(restore, gateway)

            await idle.publish(message(idle, BEFORE + 1), sequence=BEFORE + 1)
            assert idle.incarnation != spool
            with pytest.raises(IncarnationChanged, match=rf"through {BEFORE};.* through {BEFORE + AFTER}$"):
                await busy.publish(message(busy, BEFORE + AFTER + 1))
        async with client.publisher("busy") as again:
            assert again.stored_through == BEFORE
            for number in range(again.stored_through + 1, BEFORE + AFTER + 1):
                await again.send(message(again, number), sequence=number)
        async with client.bulk.read_range("q", first=1) as reader:
            return [payload async for chunk in reader for payload in chunk.columns.values(Column.PAYLOAD)]


def test_after_a_restore_a_publisher_that_may_miss_messages_gets_an_error_and_others_continue(
    tmp_path: Path,
) -> None:
    """Flow: publishing, incarnations. In the end each message is there once."""
    with GatewayProcess(tmp_path) as gateway:
        gateway.create_queue("q")
        stored = asyncio.run(publish_over_a_restore(gateway))
    expected = [b"idle/%d" % number for number in range(1, BEFORE + 2)]
    expected += [b"busy/%d" % number for number in range(1, BEFORE + AFTER + 1)]
    assert sorted(stored) == sorted(expected)
