"""Range reads of one broker's clients at queues of another: the same answers as there, limits, rights, and lost links.

The queue is at broker b.
"""

import asyncio

import pytest

from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.messaging.message.headers import Headers
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec import columns as c
from sluicegate.protocols.flow.codec.frames.rows import RowsReceived
from sluicegate.protocols.flow.codec.frames.session import Error
from support.broker.linked_brokers import Brokers, until
from support.broker.named_queues import change, create, shows
from support.broker.remote_queues import cut, heal, payloads, publish, queue_at_b
from support.flow.bulk_client import BulkClient
from support.flow.client import FlowClient, Refused

BOTH = pytest.mark.parametrize("at", ["a", "b"])
EVERY_COLUMN = [1 << bit for bit in range(c.ALL.bit_length())]


@pytest.fixture
def network(brokers: Brokers, runner: asyncio.Runner) -> Brokers:
    """Brokers a and b, linked: neither gives the other up while a test holds the link."""
    dead = "links.{}.dead_time_ms=60000"

    async def start() -> None:
        await brokers.pair(a=(dead.format("b"),), b=(dead.format("a"),))
        await brokers.are_linked()

    runner.run(start())
    return brokers


async def filled(network: Brokers, count: int, *, size: int = 0, headers: Headers | None = None) -> None:
    """Publish messages whose payloads are their numbers, from 1 on, or so many zeros."""
    async with FlowClient(network["b"].flow_port, name="filler") as client:
        opened = await client.opens_publisher()
        for sequence in range(1, count + 1):
            payload = bytes(size) if size else b"%d" % sequence
            client.publishes(opened.flow_id, [sequence], queue="q", payload=payload, headers=headers)
        assert await client.answered(opened.flow_id, count) == []


def told(chunk: RowsReceived) -> tuple[object, ...]:
    """Return all that a chunk says, but the flow that it came on."""
    rows = chunk.columns
    said = {column: [bytes(each) for each in rows.buffers(column)] for column in EVERY_COLUMN}
    return (
        *(chunk.number, chunk.first, chunk.next_sequence, chunk.end_readable, chunk.partition, chunk.is_last),
        *(chunk.gaps, rows.count, said),
    )


async def everything(network: Brokers, at: str, *, chunk_bytes: int) -> list[tuple[object, ...]]:
    """Return what a reader of a broker gets of all of q."""
    async with BulkClient(network[at].flow_port) as client:
        reading = await client.begins_to_read(columns=c.ALL, chunk_bytes=chunk_bytes)
        return [told(chunk) for chunk in await client.rest(reading.flow_id)]


async def test_a_range_is_the_same_at_every_broker_with_its_gaps_and_times(network: Brokers) -> None:
    """Chunk by chunk: rows, columns, gaps, where it goes on, and how far one may read."""
    await queue_at_b(network)
    said = Headers(partition_key="k", priority=7, message_id="m", correlation=b"c", reply_to="r", content_type="t")
    said.expires_at_ms = network["b"].clock.wall_ms() + 3_600_000
    said.user_properties = [("n", 1), ("s", "x")]
    await filled(network, 300, headers=said)
    async with FlowClient(network["b"].flow_port) as client:
        flow_id = await client.binds("q")
        await client.receives_in_all(300, flow_id)
        client.settles(flow_id, 5, 9)
        client.settles(flow_id, 100, 140)
        await shows(network["b"], lambda view: view.unacked_count == 254)
    there = await everything(network, "b", chunk_bytes=4_000)
    assert len(there) > 2
    assert await everything(network, "a", chunk_bytes=4_000) == there


async def test_each_partition_is_read_as_often_as_wanted(network: Brokers) -> None:
    await queue_at_b(network, access_type="non-exclusive", partition_count=2)
    await publish(network, range(40))
    async with BulkClient(network["a"].flow_port) as client:
        status = await client.queue_status()
        assert [each.partition for each in status.positions] == [0, 1]
        found = [await client.reads(partition=number) for number in (0, 1)]
        assert sorted(found[0] + found[1]) == sorted(payloads(range(40)))
        assert await client.reads(partition=1) == found[1]
        with pytest.raises(Refused) as refused:
            await client.begins_to_read(partition=2)
        assert refused.value.error.code == codes.NOT_FOUND
        with pytest.raises(Refused) as refused:
            await client.cuts(1, 10, partition=2)
        assert (refused.value.error.code, "no partition 2" in refused.value.error.text) == (codes.NOT_FOUND, True)


async def test_positions_and_bounds_are_those_of_the_queues_broker(network: Brokers) -> None:
    """With its incarnation, by which readers know that sequences mean what they meant."""
    await queue_at_b(network)
    await publish(network, range(30))
    found = []
    for at in ("a", "b"):
        async with BulkClient(network[at].flow_port) as client:
            status = await client.queue_status()
            reading = await client.begins_to_read()
            ends = [await client.cuts(1, 0, rows=7), await client.cuts(11, 1), await client.cuts(1 << 62, 0, rows=1)]
            found.append((status.incarnation, status.vpn, status.positions, reading.incarnation, ends))
    assert found[0] == found[1]
    assert found[0][0] == network["b"].node.services.recovered.incarnation


async def test_a_range_ends_with_what_can_be_read_and_a_later_one_goes_on(network: Brokers) -> None:
    await queue_at_b(network)
    async with BulkClient(network["a"].flow_port) as client:
        (empty,) = await client.rest((await client.begins_to_read()).flow_id)
        assert (empty.columns.count, empty.next_sequence, empty.end_readable) == (0, 1, 1)
        await publish(network, range(3))
        assert await client.reads() == payloads(range(3))
        (behind,) = await client.rest((await client.begins_to_read(first=4)).flow_id)
        assert (behind.columns.count, behind.next_sequence) == (0, 4)


async def test_one_request_crosses_for_each_chunk_and_none_without_credit(network: Brokers) -> None:
    await queue_at_b(network)
    await filled(network, 40, size=1_000)
    readers = network["a"].neighbor("b").vpns[0].remote_queues.readers
    async with BulkClient(network["a"].flow_port) as client:
        reading = await client.begins_to_read(chunk_bytes=10_000, credit=1)
        first = await client.next_chunk(reading.flow_id)
        assert (readers.count, first.is_last) == (0, False)
        client.grants_chunks(reading.flow_id, 1 << 30)
        await client.rest(reading.flow_id)
    assert network["b"].neighbor("a").vpns[0].home_readers.read_count == 40


async def test_a_slow_link_stops_reading_and_goes_on_later(network: Brokers) -> None:
    """What waits at the queue's broker is some chunks, whatever many readers have asked for."""
    await queue_at_b(network)
    await filled(network, 300, size=100_000)
    proxy = await network.proxy("a", "b")
    home = network["b"].neighbor("a").vpns[0].home_readers
    clients = [BulkClient(network["a"].flow_port, name=f"reader-{number}") for number in range(6)]
    for client in clients:
        await client.open()
    readings = [await client.begins_to_read(credit=0) for client in clients]
    proxy.freeze_answers()
    for client, reading in zip(clients, readings, strict=True):
        client.grants_chunks(reading.flow_id, 1 << 30)
    await until(lambda: home.is_held_back, "reading has stopped")
    proxy.heal()
    for client, reading in zip(clients, readings, strict=True):
        chunks = await client.rest(reading.flow_id)
        assert sum(chunk.columns.count for chunk in chunks) == 300
        await client.close()


async def test_a_link_that_stands_still_holds_up_no_read_of_a_local_queue(network: Brokers) -> None:
    await queue_at_b(network)
    await filled(network, 10)
    await create(network["a"], "here")
    async with BulkClient(network["a"].flow_port) as client:
        opened = await client.opens_publisher()
        client.publishes(opened.flow_id, [1], queue="here", payload=b"1")
        assert await client.answered(opened.flow_id, 1) == []
        remote = await client.begins_to_read(credit=0)
        local = await client.begins_to_read(queue="here", credit=0)
        proxy = await network.proxy("a", "b")
        proxy.freeze()
        client.grants_chunks(remote.flow_id, 100)
        readers = network["a"].neighbor("b").vpns[0].remote_queues.readers
        await until(lambda: readers.count == 1, "a chunk is asked for")
        client.grants_chunks(local.flow_id, 100)
        assert sum(chunk.columns.count for chunk in await client.rest(local.flow_id)) == 1
        proxy.heal()
        assert sum(chunk.columns.count for chunk in await client.rest(remote.flow_id)) == 10


async def test_a_lost_link_ends_a_range_at_once_and_it_may_begin_anew(network: Brokers) -> None:
    await queue_at_b(network)
    await filled(network, 40, size=1_000)
    proxy = await network.proxy("a", "b")
    async with BulkClient(network["a"].flow_port) as client:
        reading = await client.begins_to_read(chunk_bytes=10_000, credit=1)
        first = await client.next_chunk(reading.flow_id)
        proxy.freeze()
        client.grants_chunks(reading.flow_id, 2)
        readers = network["a"].neighbor("b").vpns[0].remote_queues.readers
        await until(lambda: readers.count == 1, "a chunk is asked for")
        await cut(network)
        error = await client.heard(Error)
        assert (error.flow_id, error.code, error.retry_after_ms) == (reading.flow_id, codes.DISABLED, 1_000)
        assert "the link to its broker b went down" in error.text
        with pytest.raises(Refused) as refused:
            await client.queue_status()
        assert (refused.value.error.code, refused.value.error.retry_after_ms) == (codes.DISABLED, 1_000)
        await heal(network)
        again = await client.begins_to_read(first=first.next_sequence)
        assert sum(chunk.columns.count for chunk in await client.rest(again.flow_id)) == 40 - first.columns.count


@BOTH
async def test_reading_needs_the_right_to_read_and_the_queues_broker_says_so(network: Brokers, at: str) -> None:
    await queue_at_b(network)
    await filled(network, 40, size=1_000)
    async with BulkClient(network[at].flow_port) as client:
        await change(network["b"], permission="read-only")
        reading = await client.begins_to_read(chunk_bytes=10_000, credit=1)
        await client.next_chunk(reading.flow_id)
        await change(network["b"], permission="no-access")
        for request in (client.queue_status(), client.cuts(1, 10), client.begins_to_read()):
            with pytest.raises(Refused, match="403 Permission Denied: a client without user name") as refused:
                await request
            assert refused.value.error.code == codes.PERMISSION_DENIED
            assert refused.value.error.retry_after_ms is None


async def test_a_right_that_is_taken_away_ends_a_range_at_its_next_chunk(network: Brokers) -> None:
    await queue_at_b(network)
    await filled(network, 40, size=1_000)
    async with BulkClient(network["a"].flow_port) as client:
        reading = await client.begins_to_read(chunk_bytes=10_000, credit=1)
        await client.next_chunk(reading.flow_id)
        await change(network["b"], permission="no-access")
        client.grants_chunks(reading.flow_id, 2)
        error = await client.heard(Error)
        assert (error.flow_id, error.code, error.retry_after_ms) == (reading.flow_id, codes.PERMISSION_DENIED, None)


async def test_a_deleted_queue_is_not_found(network: Brokers) -> None:
    await queue_at_b(network)
    await filled(network, 40, size=1_000)
    async with BulkClient(network["a"].flow_port) as client:
        reading = await client.begins_to_read(chunk_bytes=10_000, credit=1)
        await client.next_chunk(reading.flow_id)
        await NodeOperations(network["b"].node).delete_queue("q")
        client.grants_chunks(reading.flow_id, 2)
        assert (await client.heard(Error)).code == codes.NOT_FOUND
        with pytest.raises(Refused) as refused:
            await client.queue_status()
        assert refused.value.error.code == codes.NOT_FOUND
