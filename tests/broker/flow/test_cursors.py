"""Durable cursors over the flow protocol: bindings, positions, and waiting for new rows."""

import asyncio

import pytest

from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec import frame as frames
from sluicegate.protocols.flow.codec.frames.cursor import CursorRequest, Positions
from support.broker.named_queues import create, shows
from support.broker.running_broker import RunningBroker
from support.flow.bulk_client import ACK, DELETE, PIN, STATUS, UNBIND_IT, BulkClient
from support.flow.client import FlowClient, Refused


async def filled(broker: RunningBroker, first: int, last: int) -> None:
    async with FlowClient(broker.flow_port, name="filler") as client:
        opened = await client.opens_publisher()
        client.publishes(opened.flow_id, list(range(1, last - first + 2)), queue="q")
        await client.answered(opened.flow_id, last - first + 1)


def where(answer: Positions) -> list[tuple[int, int, int]]:
    return [(each.partition, each.acked, each.next_sequence) for each in answer.positions]


async def test_a_position_is_kept_over_a_restart_and_a_newer_binding_fences(broker: RunningBroker) -> None:
    """Flow: cursors. What was acknowledged under the first epoch stands; the first epoch does not."""
    await create(broker)
    await filled(broker, 1, 10)
    async with BulkClient(broker.flow_port) as client:
        bound = await client.binds_cursor()
        assert (bound.epoch, where(bound)) == (1, [(0, 1, 11)])
        assert bound.incarnation == (await client.queue_status()).incarnation
        acked = await client.asks_cursor(ACK, bound.epoch, {0: 6}, batch_ref="q-1/7")
        assert where(acked) == [(0, 6, 11)]
    await broker.restart()
    async with BulkClient(broker.flow_port) as client:
        again = await client.binds_cursor()
        assert (again.epoch, where(again)) == (2, [(0, 6, 11)])
        for kind in (ACK, PIN, STATUS):
            with pytest.raises(Refused) as refusal:
                await client.asks_cursor(kind, 1, {0: 7})
            assert refusal.value.error.code == codes.FENCED
        with pytest.raises(Refused) as refusal:
            await client.begins_to_read(first=6, cursor="c", epoch=1)
        assert refusal.value.error.code == codes.FENCED
        await client.begins_to_read(first=6, cursor="c", epoch=2)


async def test_a_binding_is_spoken_of_on_any_connection(broker: RunningBroker) -> None:
    """Flow: cursors. Who reads, who acknowledges and who looks are often three processes."""
    await create(broker)
    await filled(broker, 1, 10)
    async with BulkClient(broker.flow_port) as reader, BulkClient(broker.flow_port) as other:
        await reader.binds_cursor()
        seen = await other.asks_cursor(STATUS, 0)
        assert (seen.epoch, seen.batch_ref) == (1, "")
        await other.asks_cursor(ACK, seen.epoch, {0: 4}, batch_ref="q-1/3")
        assert where(await reader.asks_cursor(STATUS, 1)) == [(0, 4, 11)]
        assert (await reader.asks_cursor(STATUS, 0)).batch_ref == "q-1/3"


async def test_a_long_poll_is_answered_when_something_new_can_be_read(broker: RunningBroker) -> None:
    """Flow: cursors, CURSOR_STATUS. Requests behind it are answered meanwhile."""
    await create(broker)
    await filled(broker, 1, 3)
    async with BulkClient(broker.flow_port) as client:
        bound = await client.binds_cursor()
        waiting = asyncio.create_task(client.asks_cursor(STATUS, bound.epoch, {0: 4}, wait_ms=60_000))
        assert await client.reads() == [b"1", b"2", b"3"]
        assert not waiting.done()
        await filled(broker, 4, 5)
        assert where(await waiting) == [(0, 1, 6)]


async def test_a_reader_in_mode_consume_settles_by_acknowledging(broker: RunningBroker) -> None:
    """Flow: cursors. It is the queue's only consumer until it is unbound."""
    await create(broker)
    await filled(broker, 1, 10)
    async with BulkClient(broker.flow_port) as client:
        bound = await client.binds_cursor(mode="consume")
        with pytest.raises(Refused) as refusal:
            await client.binds("q")
        assert refusal.value.error.code == codes.IN_USE
        await client.asks_cursor(PIN, bound.epoch, {0: 8})
        await client.asks_cursor(ACK, bound.epoch, {0: 8})
        await shows(broker, lambda queue: queue.ready_count == 3)
        await client.asks_cursor(UNBIND_IT, bound.epoch)
        flow_id = await client.binds("q")
        await client.receives_in_all(3, flow_id)
        await client.asks_cursor(DELETE, 0)
        with pytest.raises(Refused) as refusal:
            await client.asks_cursor(STATUS, 0)
        assert refusal.value.error.code == codes.NOT_FOUND


async def test_an_invalid_request_to_a_cursor_is_refused_with_a_code(broker: RunningBroker) -> None:
    """Flow: errors."""
    await create(broker)
    async with BulkClient(broker.flow_port) as client:
        bound = await client.binds_cursor(start="latest")
        for request, code in (
            (client.binds_cursor("d", queue="nobody"), codes.NOT_FOUND),
            (client.binds_cursor("d", mode="other"), codes.REQUEST_INVALID),
            (client.binds_cursor("d", start="middle"), codes.REQUEST_INVALID),
            (client.binds_cursor(mode="consume"), codes.REQUEST_INVALID),
            (client.asks_cursor(ACK, bound.epoch, {0: 2}), codes.REQUEST_INVALID),
            (client.asks_cursor(ACK, bound.epoch, {1: 1}), codes.NOT_FOUND),
            (client.asks_cursor(ACK, bound.epoch, {0: 1}, batch_ref="x" * 501), codes.REQUEST_INVALID),
            (client.asks_cursor(DELETE, 0, cursor="d"), codes.NOT_FOUND),
        ):
            with pytest.raises(Refused) as refusal:
                await request
            assert refusal.value.error.code == code


async def test_requests_without_answer_are_so_many(broker: RunningBroker) -> None:
    """Flow: bulk. A client cannot make the gateway wait for it without bound."""
    await create(broker)
    async with BulkClient(broker.flow_port) as client:
        cursors = [await client.binds_cursor(f"c{number}") for number in range(65)]
        for number, bound in enumerate(cursors):
            request_id = client.new_request_id()
            asked = CursorRequest(frames.CURSOR_STATUS, request_id, "q", f"c{number}", bound.epoch, ((0, 1),), 60_000)
            client.send(asked.encode())
        with pytest.raises(Refused) as refusal:
            await client.heard(Positions)
        assert refusal.value.error.code == codes.TOO_MANY
        assert refusal.value.error.request_id == request_id
        await filled(broker, 1, 1)
        for _ in range(64):
            assert where(await client.heard(Positions)) == [(0, 1, 2)]
        await client.queue_status()
