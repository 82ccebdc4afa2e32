"""Bulk reads and writes with the client library."""

import asyncio
from pathlib import Path

import pytest

import sluicegate
from sluicegate import BlockingClient, Client, Column, Message, RowsReceived
from sluicegate.protocols.flow.codec import codes
from sluicegate.testing.ports import free_port
from support.broker.named_queues import create, shown
from support.broker.running_broker import RunningBroker
from support.flow.bulk_client import rows_of


def url(broker: RunningBroker) -> str:
    return f"flow://127.0.0.1:{broker.flow_port}"


async def fill(client: Client, count: int, *, size: int = 1) -> None:
    """Put messages into the queue, the numbers from 1 in front."""
    async with client.publisher() as publisher:
        await publisher.send_all(Message(str(n).encode().ljust(size), queue="q", key="k") for n in range(1, count + 1))


def numbers(chunks: list[RowsReceived]) -> list[int]:
    return [int(payload) for chunk in chunks for payload in chunk.columns.values(Column.PAYLOAD)]


async def test_a_range_comes_in_chunks_with_the_columns_that_are_wanted(broker: RunningBroker) -> None:
    """Flow: bulk, reading. Few are fetched ahead; the end is not part of the range."""
    await create(broker)
    async with Client(url(broker)) as client:
        await fill(client, 300, size=1000)
        wanted = Column.SEQUENCE | Column.PAYLOAD | Column.PARTITION_KEY
        async with client.bulk.read_range("q", first=11, end=291, columns=wanted, chunk_bytes=20_000) as reader:
            chunks = [chunk async for chunk in reader]
            assert reader.next_sequence == 291
        status = await client.bulk.queue_status("q")
    assert len(chunks) > 5
    assert numbers(chunks) == list(range(11, 291))
    assert chunks[0].columns.numbers(Column.SEQUENCE) == list(range(11, chunks[0].next_sequence))
    assert chunks[0].columns.optional_values(Column.PARTITION_KEY)[0] == b"k"
    assert chunks[0].columns.buffers(Column.TOPIC) == [], "it was not wanted"
    assert chunks[-1].is_last
    assert [(each.partition, each.low, each.next_sequence) for each in status.positions] == [(0, 1, 301)]
    assert reader.incarnation == status.incarnation


async def test_a_reader_that_has_enough_ends_its_range(broker: RunningBroker) -> None:
    """Flow: bulk, reading: UNBIND. The client goes on."""
    await create(broker, retention_size_mb=10)  # which keeps an index of bytes
    async with Client(url(broker)) as client:
        await fill(client, 300, size=1000)
        async with client.bulk.read_range("q", first=1, chunk_bytes=5_000) as reader:
            assert numbers([await anext(reader)])[0] == 1
        ends = await client.bulk.cut_ranges("q", {0: 1}, usage_bytes={0: 50_000})
        assert 1 < ends[0] <= 301
        async with client.bulk.read_range("q", first=300) as reader:
            assert numbers([chunk async for chunk in reader]) == [300]


async def test_a_range_goes_on_where_the_connection_broke(tmp_path: Path) -> None:
    """Flow: bulk, reading. No row is missing, and none comes twice."""
    settings = (f"listeners.flow.port={free_port()}",)
    async with RunningBroker(tmp_path / "data", settings) as broker:
        await create(broker)
        async with Client(url(broker)) as client:
            await fill(client, 400, size=1000)
            async with client.bulk.read_range("q", first=1, end=401, chunk_bytes=10_000, ahead=1) as reader:
                chunks = [await anext(reader) for _ in range(3)]
                await broker.restart()
                chunks += [chunk async for chunk in reader]
    assert numbers(chunks) == list(range(1, 401))


async def test_a_reader_says_why_it_ended(broker: RunningBroker) -> None:
    """Flow: errors."""
    await create(broker)
    async with Client(url(broker)) as client:
        with pytest.raises(sluicegate.RequestRefused) as refused:
            async with client.bulk.read_range("nobody", first=1):
                raise AssertionError("it was opened")
        assert refused.value.code == codes.NOT_FOUND
        with pytest.raises(sluicegate.RequestRefused) as refused:
            await client.bulk.queue_status("nobody")
        assert refused.value.code == codes.NOT_FOUND
        with pytest.raises(ValueError, match="ascend"):
            client.bulk.read_range("q", first=5, end=4)


async def test_a_cursor_remembers_how_far_it_is(broker: RunningBroker) -> None:
    """Flow: bulk, cursors. A later bind fences the one before; status waits for what is new."""
    await create(broker)
    async with Client(url(broker)) as client:
        await fill(client, 10)
        cursor = await client.bulk.bind_cursor("q", "spark", start="earliest")
        await cursor.pin({0: 11})
        async with client.bulk.read_range("q", first=1, end=11, cursor=cursor) as reader:
            assert numbers([chunk async for chunk in reader]) == list(range(1, 11))
        acked = await cursor.acknowledge({0: 6}, batch_ref="batch/1")
        assert [each.acked for each in acked.positions] == [6]
        assert (await client.bulk.look_at_cursor("q", "spark")).batch_ref == "batch/1"

        waiting = asyncio.create_task(cursor.status({0: 11}, wait_s=60))
        await fill(client, 2)
        assert [each.next_sequence for each in (await waiting).positions] >= [12]

        again = await client.bulk.bind_cursor("q", "spark")
        assert again.epoch > cursor.epoch
        assert [each.acked for each in again.positions] == [6]
        with pytest.raises(sluicegate.RequestRefused) as fenced:
            await cursor.acknowledge({0: 7})
        assert fenced.value.code == codes.FENCED
        await again.unbind()
        await client.bulk.delete_cursor("q", "spark")


async def test_a_question_is_asked_again_when_its_connection_breaks(tmp_path: Path) -> None:
    """Flow: bulk, cursors. What asks for the same, however often it is said, needs no care of the program."""
    settings = (f"listeners.flow.port={free_port()}",)
    async with RunningBroker(tmp_path / "data", settings) as broker:
        await create(broker)
        async with Client(url(broker)) as client:
            await fill(client, 3)
            cursor = await client.bulk.bind_cursor("q", "spark", start="earliest")
            waiting = asyncio.create_task(cursor.status({0: 4}, wait_s=60))
            await client.bulk.queue_status("q")  # the question before it is under way, too
            await broker.stop()
            asked = asyncio.create_task(client.bulk.queue_status("q"))
            await broker.start()
            assert [each.next_sequence for each in (await asked).positions] == [4]
            waiting.cancel()


async def test_staged_rows_are_published_by_one_commit(broker: RunningBroker) -> None:
    """Flow: bulk, staged publishing."""
    await create(broker)
    async with Client(url(broker)) as client:
        rows = [rows_of(["q", "q"], [b"1", b"2"]), rows_of(["q"], [b"3"])]
        kept = await asyncio.gather(
            client.bulk.stage("t", rows[0], 2, part=0, attempt=1, to_queues=True),
            client.bulk.stage("t", rows[1], 1, part=1, to_queues=True),
        )
        assert [each.messages_count for each in kept] == [2, 1]
        assert (await shown(broker)).ready_count == 0
        done = await client.bulk.commit_staged("t", {0: 1, 1: 0})
        assert (done.messages_count, done.already) == (3, False)
        assert (await client.bulk.commit_staged("t", {0: 1, 1: 0})).already
        assert (await client.bulk.abort_staged("t")).already
        async with client.bulk.read_range("q", first=1) as reader:
            assert numbers([chunk async for chunk in reader]) == [1, 2, 3]


async def test_many_stages_wait_for_their_turn(broker: RunningBroker) -> None:
    """Flow: bulk, limits: four STAGE at a time. The client keeps to it, and nothing is refused."""
    await create(broker)
    async with Client(url(broker)) as client:
        stages = [client.bulk.stage("t", rows_of(["q"], [b"1"]), 1, part=part, to_queues=True) for part in range(30)]
        await asyncio.gather(*stages, *(client.bulk.queue_status("q") for _ in range(100)))
        assert (await client.bulk.commit_staged("t", dict.fromkeys(range(30), 0))).messages_count == 30


async def test_bulk_without_asyncio(broker: RunningBroker) -> None:
    """Flow: bulk."""
    await create(broker)

    def program(address: str) -> None:
        with BlockingClient(address) as client:
            client.bulk.stage("t", rows_of(["q"] * 3, [b"1", b"2", b"3"]), 3, to_queues=True)
            client.bulk.commit_staged("t", {0: 0})
            cursor = client.bulk.bind_cursor("q", "c", start="earliest")
            with client.bulk.read_range("q", first=1, cursor=cursor) as reader:
                assert numbers(list(reader)) == [1, 2, 3]
                assert (reader.next_sequence, reader.incarnation) == (4, cursor.incarnation)
            cursor.pin({0: 4})
            cursor.acknowledge({0: 4})
            assert [each.acked for each in cursor.status().positions] == [4]
            assert [each.acked for each in client.bulk.look_at_cursor("q", "c").positions] == [4]
            assert client.bulk.cut_ranges("q", {0: 1}, usage_bytes={0: 1_000}) == {0: 4}
            cursor.unbind()
            client.bulk.delete_cursor("q", "c")
            assert client.bulk.abort_staged("t").already
            assert [each.next_sequence for each in client.bulk.queue_status("q").positions] == [4]

    await asyncio.to_thread(program, url(broker))
