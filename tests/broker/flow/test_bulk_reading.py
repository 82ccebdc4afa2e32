"""Bulk reads over the flow protocol: which rows and columns arrive, and what a read costs other clients."""

from collections.abc import Awaitable

import pytest

from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.messaging.message.headers import Headers
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec import columns as c
from sluicegate.protocols.flow.codec.frames.session import Error
from support.broker.named_queues import change, create, shows
from support.broker.running_broker import RunningBroker
from support.flow.bulk_client import BulkClient
from support.flow.client import FlowClient, Refused

ACCOUNTS = pytest.mark.accounts(ada="engine", bob="builder")


async def filled(broker: RunningBroker, count: int, *, queue: str = "q", payload: bytes | None = None) -> None:
    """Publish messages whose payloads are their numbers, or all alike."""
    async with FlowClient(broker.flow_port, name="filler") as client:
        opened = await client.opens_publisher()
        for first in range(1, count + 1, 1000):
            last = min(first + 999, count)
            client.publishes(opened.flow_id, list(range(first, last + 1)), queue=queue, payload=payload)
            await client.answered(opened.flow_id, last)


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


async def test_a_range_is_read_as_often_as_wanted_and_nothing_changes(broker: RunningBroker) -> None:
    """Flow: reading in bulk. Sequences are those of deliveries, their message ids."""
    await create(broker)
    await filled(broker, 10)
    async with BulkClient(broker.flow_port) as client:
        assert await client.reads(first=3, end=8) == numbers(3, 8)
        assert await client.reads(first=3, end=8) == numbers(3, 8)
        flow_id = await client.binds("q")
        received = await client.receives_in_all(10, flow_id)
        assert [each.message_id for each in received] == list(range(1, 11))
        assert not any(each.redelivered for each in received)


async def test_a_chunk_says_where_it_goes_on_and_how_far_one_may_read(broker: RunningBroker) -> None:
    """Flow: reading in bulk. Ends are exclusive; the flow ends with what can be read now."""
    await create(broker)
    await filled(broker, 100, payload=bytes(1000))
    async with BulkClient(broker.flow_port) as client:
        reading = await client.begins_to_read(first=11, chunk_bytes=20_000)
        assert reading.chunk_bytes == 20_000
        chunks = await client.rest(reading.flow_id)

        assert [chunk.number for chunk in chunks] == list(range(1, len(chunks) + 1))
        assert [chunk.first for chunk in chunks[1:]] == [chunk.next_sequence for chunk in chunks[:-1]]
        assert (chunks[0].first, chunks[-1].next_sequence) == (11, 101)
        assert {chunk.end_readable for chunk in chunks} == {101}
        assert [number for chunk in chunks for number in chunk.columns.numbers(c.SEQUENCE)] == list(range(11, 101))
        assert len(chunks) >= 5
        (behind,) = await client.rest((await client.begins_to_read(first=101)).flow_id)
        assert (behind.columns.count, behind.next_sequence) == (0, 101)


async def test_a_deletion_is_reported_with_its_reason(broker: RunningBroker) -> None:
    """Flow: reading in bulk, gaps."""
    await create(broker)
    await filled(broker, 5)
    async with BulkClient(broker.flow_port) as client:
        flow_id = await client.binds("q")
        await client.receives_in_all(5, flow_id)
        client.settles(flow_id, 2, 3)
        await shows(broker, lambda queue: queue.unacked_count == 3)

        (chunk,) = await client.rest((await client.begins_to_read()).flow_id)

        assert chunk.columns.numbers(c.SEQUENCE) == [1, 4, 5]
        assert chunk.gaps == [(2, 4, "settled")]


async def test_every_column_says_what_the_publisher_said(broker: RunningBroker) -> None:
    """Flow: columns. A row without headers beside one with all of them."""
    await create(broker, subscriptions=["a/>"])
    told = Headers(
        partition_key="k",
        priority=7,
        dmq_eligible=True,
        message_id="m-1",
        correlation=b"\0\1",
        reply_to="#q/answers",
        content_type="text/plain",
        timestamp_ms=1_700_000_000_000,
        user_properties=[("i", -1), ("none", None), ("b", b"\0"), ("i", True)],
    )
    async with BulkClient(broker.flow_port, name="till-4") as client:
        opened = await client.opens_publisher()
        client.publishes(opened.flow_id, [1], topic="a/1", headers=told)
        client.publishes(opened.flow_id, [2], topic="a/2")
        await client.answered(opened.flow_id, 2)
        reading = await client.begins_to_read(columns=c.ALL)
        (chunk,) = await client.rest(reading.flow_id)

    rows = chunk.columns
    assert rows.numbers(c.SEQUENCE) == [1, 2]
    assert rows.values(c.TOPIC) == [b"a/1", b"a/2"]
    assert rows.values(c.PAYLOAD) == [b"1", b"2"]
    assert rows.values(c.PUBLISHER) == [b"till-4", b"till-4"]
    assert all(abs(each - broker.clock.wall_ms()) < 60_000 for each in rows.numbers(c.RECEIVED_MS))
    assert rows.optional_values(c.PARTITION_KEY) == [b"k", None]
    assert rows.numbers(c.PRIORITY) == [7, 4]
    assert rows.numbers(c.FLAGS) == [2, 0]
    assert rows.numbers(c.TIMESTAMP_MS) == [1_700_000_000_000, 0]
    assert rows.optional_values(c.MESSAGE_ID) == [b"m-1", None]
    assert rows.optional_values(c.CORRELATION) == [b"\0\1", None]
    assert rows.optional_values(c.REPLY_TO) == [b"#q/answers", None]
    assert rows.optional_values(c.CONTENT_TYPE) == [b"text/plain", None]
    assert rows.buffers(c.EXPIRY_MS) == []  # nobody says anything
    offsets, name_offsets, names, types, value_offsets, values = rows.buffers(c.PROPERTIES)
    assert c.counts_of(offsets) == [4, 0]
    assert c.cut_values(name_offsets, names) == [b"i", b"none", b"b", b"i"]
    assert c.cut_values(value_offsets, values) == [b"-1", b"", b"AA==", b"true"]
    assert list(types) == [3, 0, 7, 2]


async def test_no_more_chunks_come_than_there_is_credit_for(broker: RunningBroker) -> None:
    """Flow: reading in bulk, credit. It is absolute, and reading stops with UNBIND."""
    await create(broker)
    await filled(broker, 50, payload=bytes(1000))
    async with BulkClient(broker.flow_port) as client:
        reading = await client.begins_to_read(chunk_bytes=5_000, credit=1)
        first = await client.next_chunk(reading.flow_id)
        await client.queue_status()  # whatever would come without credit came before this answer
        assert not client.events

        client.grants_chunks(reading.flow_id, 2)
        client.grants_chunks(reading.flow_id, 1)  # less than before changes nothing
        second = await client.next_chunk(reading.flow_id)
        assert second.first == first.next_sequence
        await client.stops_reading(reading.flow_id)
        client.grants_chunks(reading.flow_id, 100)  # too late, and passed over
        await client.queue_status()
        assert not client.events


async def test_deliveries_pass_a_reader_that_does_not_read(broker: RunningBroker) -> None:
    """Flow: reading in bulk. What waits for a socket is one chunk, and goes out before the next is read."""
    await create(broker)
    await create(broker, "other")
    await filled(broker, 2000, payload=bytes(10_000))
    await filled(broker, 3, queue="other")
    async with BulkClient(broker.flow_port, receive_buffer_bytes=4096) as client:
        reading = await client.begins_to_read(chunk_bytes=100_000)
        client.transport.pause_reading()
        client.send(b"")
        async with FlowClient(broker.flow_port, name="another") as another:  # nobody else waits for the slow one
            flow_id = await another.binds("other", credit=1)
            await another.receives_in_all(1, flow_id)
        client.transport.resume_reading()
        flow_id = await client.binds("other")

        received = await client.receives_in_all(3, flow_id)
        assert [each.payload for each in received] == numbers(1, 4)
        assert sum(chunk.columns.count for chunk in await client.rest(reading.flow_id)) == 2000


async def test_ranges_of_one_connection_take_turns(broker: RunningBroker) -> None:
    """Flow: reading in bulk. Two readers of one client are served in turn, chunk by chunk."""
    await create(broker)
    await filled(broker, 400, payload=bytes(1000))
    async with BulkClient(broker.flow_port) as client:
        one = await client.begins_to_read(chunk_bytes=10_000, credit=0)
        two = await client.begins_to_read(chunk_bytes=10_000, credit=0)
        client.grants_chunks(one.flow_id, 1000)
        client.grants_chunks(two.flow_id, 1000)
        ones, twos = await client.rest(one.flow_id), await client.rest(two.flow_id)

        assert sum(chunk.columns.count for chunk in ones) == sum(chunk.columns.count for chunk in twos) == 400


@pytest.mark.settings("spool.memory_bytes_max=1MiB")
async def test_a_backlog_that_lies_in_pages_is_read_from_there(broker: RunningBroker) -> None:
    """Flow: reading in bulk. Where messages lie makes no difference."""
    await create(broker)
    await filled(broker, 3000, payload=bytes(1000))
    async with BulkClient(broker.flow_port) as client:
        chunks = await client.rest((await client.begins_to_read()).flow_id)
        assert [number for chunk in chunks for number in chunk.columns.numbers(c.SEQUENCE)] == list(range(1, 3001))


async def test_positions_and_cuts_say_where_a_batch_would_end(broker: RunningBroker) -> None:
    """Flow: reading in bulk, QUEUE_STATUS and CUT_RANGE."""
    await create(broker, access_type="non-exclusive", partition_count=3)
    async with BulkClient(broker.flow_port) as client:
        status = await client.queue_status()
        assert [each.partition for each in status.positions] == [0, 1, 2]
        assert {(each.low, each.next_sequence) for each in status.positions} == {(1, 1)}
        assert status.incarnation == broker.node.services.recovered.incarnation

        await create(broker, "plain", retention_size_mb=10)
        await filled(broker, 100, queue="plain", payload=bytes(1000))
        end = await client.cuts(1, 20_000, queue="plain")
        assert 1 < end <= 101
        assert await client.cuts(end, 1 << 40, queue="plain") == 101
        assert await client.cuts(11, rows=20, queue="plain") == 31


@pytest.mark.parametrize(
    ("queue", "partition", "first", "end", "columns", "code"),
    [
        ("nobody", 0, 1, 2, c.ALL, codes.NOT_FOUND),
        ("q", 1, 1, 2, c.ALL, codes.NOT_FOUND),
        ("q", 0, 0, 2, c.ALL, codes.REQUEST_INVALID),
        ("q", 0, 3, 2, c.ALL, codes.REQUEST_INVALID),
        ("q", 0, 1, 2, 0, codes.REQUEST_INVALID),
        ("q", 0, 1, 2, c.ALL + 1, codes.REQUEST_INVALID),
    ],
)
async def test_an_invalid_read_is_refused_with_a_code(
    broker: RunningBroker, queue: str, partition: int, first: int, end: int, columns: int, code: int
) -> None:
    """Flow: errors. The connection goes on."""
    await create(broker)
    async with BulkClient(broker.flow_port) as client:
        with pytest.raises(Refused) as refusal:
            await client.begins_to_read(queue, first, end, partition=partition, columns=columns)
        assert refusal.value.error.code == code
        assert await client.reads() == []


async def test_a_queue_that_ends_ends_its_readers(broker: RunningBroker) -> None:
    """Flow: reading in bulk. An ERROR names the flow; nothing else is touched."""
    await create(broker)
    await filled(broker, 50, payload=bytes(1000))
    async with BulkClient(broker.flow_port) as client:
        reading = await client.begins_to_read(chunk_bytes=5_000, credit=1)
        await client.next_chunk(reading.flow_id)
        await NodeOperations(broker.node).delete_queue("q")
        client.grants_chunks(reading.flow_id, 10)

        error = await client.heard(Error)
        assert (error.flow_id, error.code) == (reading.flow_id, codes.NOT_FOUND)


@ACCOUNTS
async def test_reading_needs_the_right_to_look(broker: RunningBroker) -> None:
    """Flow: bulk, rights. Reading needs `read-only`, a cursor `consume`; an owner may do both."""
    await create(broker, owner="ada", permission="no-access")
    ada, bob = BulkClient(broker.flow_port, name="ada"), BulkClient(broker.flow_port, name="bob")
    for client, password in ((ada, b"\0ada\0engine"), (bob, b"\0bob\0builder")):
        await client.connect()
        await client.authenticate("PLAIN", password)
    assert await ada.reads() == []
    assert (await ada.binds_cursor()).epoch == 1
    rights = (("no-access", False, False), ("read-only", True, False), ("consume", True, True))
    for permission, may_read, may_bind in rights:
        await change(broker, permission=permission)
        assert await is_let(bob.queue_status()) == await is_let(bob.reads()) == may_read
        assert await is_let(bob.binds_cursor("d")) == may_bind
    await ada.close()
    await bob.close()


async def is_let(request: Awaitable[object]) -> bool:
    """Return whether a request was not refused for want of a right."""
    try:
        await request
    except Refused as refusal:
        return refusal.error.code != codes.PERMISSION_DENIED
    return True
