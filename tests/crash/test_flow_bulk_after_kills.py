"""kill -9 during bulk reads and writes with the client library: each row is there once."""

import asyncio
from itertools import count
from pathlib import Path

import pytest

from sluicegate import Client, ClientOptions, Column, Cursor, Message, RequestInterrupted, RowsReceived
from support.flow.bulk_client import rows_of
from support.processes.gateway import GatewayProcess

OPTIONS = ClientOptions(reconnect_delay_max_s=0.5)
WITHIN_S = 300

READ_ROWS = 6_000
READ_KILLS = 3
CHUNK_BYTES = 20_000

ROUNDS = 1  # of each way to be killed while writing
PARTS = 3
PART_ROWS = 400
PARTITIONS = 2

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(500)]


async def crash(gateway: GatewayProcess) -> None:
    await asyncio.to_thread(gateway.kill9)
    await asyncio.to_thread(gateway.start)


def url(gateway: GatewayProcess) -> str:
    return f"flow://127.0.0.1:{gateway.ports['flow']}"


# --- reading ---


async def read_over_kills(gateway: GatewayProcess) -> tuple[list[RowsReceived], Cursor]:
    """Read a range under a durable cursor; kill the gateway while chunks are on their way, and take them meanwhile."""
    async with asyncio.timeout(WITHIN_S), Client(url(gateway), OPTIONS) as client:
        async with client.publisher() as publisher:
            await publisher.send_all(Message(b"%d" % n + b"." * 200, queue="q") for n in range(1, READ_ROWS + 1))
        cursor = await client.bulk.bind_cursor("q", "c", start="earliest")
        reader = client.bulk.read_range(
            "q", first=1, end=READ_ROWS + 1, chunk_bytes=CHUNK_BYTES, ahead=4, cursor=cursor
        )
        chunks: list[RowsReceived] = []
        crashing: asyncio.Task[None] | None = None
        kills = 0
        async with reader:
            async for chunk in reader:
                chunks.append(chunk)
                if kills < READ_KILLS and chunk.next_sequence > (kills + 1) * READ_ROWS // (READ_KILLS + 1):
                    if crashing is not None:
                        await crashing
                    await cursor.acknowledge({0: chunk.next_sequence})
                    crashing = asyncio.create_task(crash(gateway))
                    kills += 1
            assert kills == READ_KILLS
            assert crashing is not None
            await crashing
        await cursor.status()
        return chunks, cursor


def test_a_reader_gets_each_row_once_over_crashes_of_the_gateway(tmp_path: Path) -> None:
    """Flow: bulk, reading, cursors. What was read and acknowledged outlives the crash, and so does the binding."""
    with GatewayProcess(tmp_path) as gateway:
        gateway.create_queue("q")
        chunks, cursor = asyncio.run(read_over_kills(gateway))
    sequences = [sequence for chunk in chunks for sequence in chunk.columns.numbers(Column.SEQUENCE)]
    payloads = [payload for chunk in chunks for payload in chunk.columns.values(Column.PAYLOAD)]
    assert sequences == list(range(1, READ_ROWS + 1))
    assert [int(payload.rstrip(b".")) for payload in payloads] == sequences
    assert not any(chunk.gaps for chunk in chunks)
    (position,) = cursor.positions
    assert READ_KILLS * READ_ROWS // (READ_KILLS + 1) < position.acked <= READ_ROWS + 1


# --- writing ---


def payloads_of(transaction: str, part: int) -> list[bytes]:
    return [b"%s/%d/%d" % (transaction.encode(), part, row) for row in range(PART_ROWS)]


async def stage(client: Client, transaction: str, part: int) -> int:
    """Stage a part in as many attempts as it takes; return the number of the good one."""
    payloads = payloads_of(transaction, part)
    for attempt in count():
        try:
            columns = rows_of(["q"] * PART_ROWS, payloads)
            await client.bulk.stage(transaction, columns, PART_ROWS, part=part, attempt=attempt, to_queues=True)
        except RequestInterrupted:
            continue  # nobody knows what was kept: whatever it is, it is not named
        return attempt
    raise AssertionError("it counts for ever")


async def write_over_kills(gateway: GatewayProcess) -> tuple[list[str], list[bytes]]:
    """Write transactions, each killed at another place; return their names, and all that is in the queue then."""
    written: list[str] = []
    async with asyncio.timeout(WITHIN_S), Client(url(gateway), OPTIONS) as client:
        for number in range(ROUNDS):
            for killed in ("while it stages", "between stage and commit", "while it commits", "after it"):
                transaction = f"{killed} {number}"
                crashing: asyncio.Task[None] | None = None
                staging = [asyncio.create_task(stage(client, transaction, part)) for part in range(PARTS)]
                if killed == "while it stages":
                    await asyncio.wait(staging, return_when=asyncio.FIRST_COMPLETED)
                    crashing = asyncio.create_task(crash(gateway))
                attempts = dict(enumerate(await asyncio.gather(*staging)))
                if killed == "between stage and commit":
                    await crash(gateway)
                committing = asyncio.create_task(client.bulk.commit_staged(transaction, attempts))
                if killed == "while it commits":
                    await asyncio.sleep(0)  # it is on its way
                    await crash(gateway)
                done = await committing
                assert done.already or done.messages_count == PARTS * PART_ROWS
                if killed == "after it":
                    await crash(gateway)
                    assert (await client.bulk.commit_staged(transaction, attempts)).already
                if crashing is not None:
                    await crashing
                written.append(transaction)
        stored: list[bytes] = []
        for partition in range(PARTITIONS):
            async with client.bulk.read_range("q", partition=partition, first=1) as reader:
                stored += [payload async for chunk in reader for payload in chunk.columns.values(Column.PAYLOAD)]
        return written, stored


def test_a_writer_writes_each_row_once_over_crashes_of_the_gateway(tmp_path: Path) -> None:
    """Flow: bulk, staged publishing: atomic, and idempotent by name; an interrupted stage is another attempt."""
    with GatewayProcess(tmp_path) as gateway:
        gateway.create_queue("q", access_type="non-exclusive", partition_count=PARTITIONS)
        written, stored = asyncio.run(write_over_kills(gateway))
    expected = [payload for name in written for part in range(PARTS) for payload in payloads_of(name, part)]
    assert len(expected) == len(written) * PARTS * PART_ROWS
    assert sorted(stored) == sorted(expected)
