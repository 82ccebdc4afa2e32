"""Durable cursors of one broker's clients at queues of another. The queue is at broker b.

Where a cursor is spoken of at either broker, it is the same cursor.
"""

import asyncio

import pytest

from sluicegate import Client
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.frames.cursor import Positions
from support.broker.linked_brokers import Brokers, until
from support.broker.named_queues import change, shows
from support.broker.remote_queues import cut, heal, payloads, publish, queue_at_b
from support.flow.bulk_client import ACK, DELETE, PIN, STATUS, UNBIND_IT, BulkClient
from support.flow.client import Refused

BOTH = pytest.mark.parametrize("at", ["a", "b"])


def where(answer: Positions) -> list[tuple[int, int, int]]:
    return [(each.partition, each.acked, each.next_sequence) for each in answer.positions]


async def code_of(refused: object) -> int:
    """Return the code by which a request is refused."""
    with pytest.raises(Refused) as refusal:
        await refused  # type: ignore[misc]  # a request of any kind
    return refusal.value.error.code


async def test_a_cursor_is_one_wherever_it_is_spoken_of(network: Brokers) -> None:
    """Bound at a, acknowledged and looked at in both, fenced from b; the answers are those of the queue's broker."""
    await queue_at_b(network)
    await publish(network, range(10))
    async with BulkClient(network["a"].flow_port) as here, BulkClient(network["b"].flow_port) as there:
        bound = await here.binds_cursor()
        assert (bound.epoch, where(bound)) == (1, [(0, 1, 11)])
        assert where(await here.asks_cursor(ACK, 1, {0: 6}, batch_ref="q-1/7")) == [(0, 6, 11)]
        seen = [await client.asks_cursor(STATUS, 0) for client in (here, there)]
        assert {(each.epoch, each.batch_ref, each.incarnation, each.vpn, each.positions) for each in seen} == {
            (1, "q-1/7", bound.incarnation, bound.vpn, seen[0].positions)
        }
        assert bound.incarnation == network["b"].node.services.recovered.incarnation
        reading = await here.begins_to_read(first=6, cursor="c", epoch=1)
        assert [chunk.columns.count for chunk in await here.rest(reading.flow_id)] == [5]
        assert (await there.binds_cursor()).epoch == 2
        for kind in (ACK, PIN, STATUS):
            assert await code_of(here.asks_cursor(kind, 1, {0: 7})) == codes.FENCED
        assert await code_of(here.begins_to_read(first=6, cursor="c", epoch=1)) == codes.FENCED
        await here.asks_cursor(PIN, 2, {0: 8})
        await here.asks_cursor(DELETE, 0)
        assert await code_of(there.asks_cursor(STATUS, 0)) == codes.NOT_FOUND
        assert await code_of(here.asks_cursor(STATUS, 0)) == codes.NOT_FOUND


async def test_who_has_bound_it_is_shown_with_the_broker(network: Brokers) -> None:
    await queue_at_b(network)
    async with BulkClient(network["a"].flow_port, name="reader") as client:
        await client.binds_cursor()
        (shown,) = await NodeOperations(network["b"].node).list_cursors("q")
        assert (shown.name, shown.instance) == ("c", "reader@a")


async def test_a_long_poll_is_answered_when_something_new_can_be_read(network: Brokers) -> None:
    """Requests behind it are answered meanwhile."""
    await queue_at_b(network)
    await publish(network, range(3))
    async with BulkClient(network["a"].flow_port) as client:
        bound = await client.binds_cursor()
        waiting = asyncio.create_task(client.asks_cursor(STATUS, bound.epoch, {0: 4}, wait_ms=60_000))
        assert await client.reads() == payloads(range(3))
        assert not waiting.done()
        await publish(network, range(3, 4))
        assert where(await waiting) == [(0, 1, 5)]


async def test_a_reader_in_mode_consume_is_the_only_consumer_of_the_network(network: Brokers) -> None:
    await queue_at_b(network)
    await publish(network, range(10))
    async with BulkClient(network["a"].flow_port) as client:
        bound = await client.binds_cursor(mode="consume")
        assert await code_of(client.binds("q")) == codes.IN_USE
        await client.asks_cursor(ACK, bound.epoch, {0: 8})
        await shows(network["b"], lambda view: view.ready_count == 3)
        await client.asks_cursor(UNBIND_IT, bound.epoch)
        flow_id = await client.binds("q")
        await client.receives_in_all(3, flow_id)
        assert await code_of(client.binds_cursor(mode="consume")) == codes.IN_USE


@BOTH
async def test_every_refusal_has_its_code(network: Brokers, at: str) -> None:
    await queue_at_b(network)
    await publish(network, range(3))
    async with BulkClient(network[at].flow_port) as client:
        await client.binds_cursor()
        assert await code_of(client.asks_cursor(ACK, 1, {0: 99})) == codes.REQUEST_INVALID  # ahead
        assert await code_of(client.asks_cursor(ACK, 1, {7: 1})) == codes.NOT_FOUND  # no such partition
        assert await code_of(client.asks_cursor(ACK, 1 << 63, {0: 1})) == codes.FENCED
        assert await code_of(client.asks_cursor(DELETE, 0, cursor="other")) == codes.NOT_FOUND
        assert await code_of(client.binds_cursor(mode="consume")) == codes.REQUEST_INVALID  # it is a tap
        assert await code_of(client.binds_cursor("x" * 250)) == codes.REQUEST_INVALID
        assert await code_of(client.binds_cursor(queue="other")) == codes.NOT_FOUND


@BOTH
async def test_a_cursor_needs_the_right_to_consume_and_a_reader_only_that_to_read(network: Brokers, at: str) -> None:
    await queue_at_b(network)
    await publish(network, range(3))
    async with BulkClient(network[at].flow_port) as client:
        await client.binds_cursor()
        await change(network["b"], permission="read-only")
        for kind in (ACK, PIN, STATUS, UNBIND_IT, DELETE):
            assert await code_of(client.asks_cursor(kind, 1)) == codes.PERMISSION_DENIED
        assert await code_of(client.binds_cursor("d")) == codes.PERMISSION_DENIED
        await client.begins_to_read(cursor="c", epoch=1)


async def test_a_lost_link_answers_all_that_wait_at_once_and_the_binding_stays(network: Brokers) -> None:
    """A reader tries again under its epoch: a binding belongs to no connection, and to no link."""
    await queue_at_b(network)
    await publish(network, range(3))
    async with BulkClient(network["a"].flow_port) as client:
        bound = await client.binds_cursor()
        waiting = asyncio.create_task(client.asks_cursor(STATUS, bound.epoch, {0: 4}, wait_ms=60_000))
        readers = network["a"].neighbor("b").vpns[0].remote_queues.readers
        await until(lambda: readers.count == 1, "the poll waits at b")
        await cut(network)
        with pytest.raises(Refused, match="the link to its broker b went down") as lost:
            await waiting
        with pytest.raises(Refused, match="the link to its broker b is down") as down:
            await client.asks_cursor(ACK, bound.epoch, {0: 3})
        for refused in (lost, down):
            assert (refused.value.error.code, refused.value.error.retry_after_ms) == (codes.DISABLED, 1_000)
        await heal(network)
        assert where(await client.asks_cursor(ACK, bound.epoch, {0: 3})) == [(0, 3, 4)]


async def test_a_cursor_of_another_broker_is_kept_over_a_restart_of_the_queues_broker(network: Brokers) -> None:
    await queue_at_b(network)
    await publish(network, range(5))
    async with BulkClient(network["a"].flow_port) as client:
        bound = await client.binds_cursor()
        await client.asks_cursor(ACK, bound.epoch, {0: 4})
        await network["b"].restart()
        await network.proxy("a", "b")  # b has another port now
        await network.are_linked()
        assert where(await client.asks_cursor(STATUS, bound.epoch)) == [(0, 4, 6)]
        assert (await client.queue_status()).incarnation == bound.incarnation


async def test_a_poll_of_the_client_library_goes_on_after_the_link_was_down(network: Brokers) -> None:
    """A stream of Spark polls so: a link that is down for a moment does not end its query."""
    await queue_at_b(network)
    await publish(network, range(3))
    async with Client(f"flow://127.0.0.1:{network['a'].flow_port}") as client:
        cursor = await client.bulk.bind_cursor("q", "c")
        waiting = asyncio.create_task(cursor.status({0: 4}, wait_s=60))
        readers = network["a"].neighbor("b").vpns[0].remote_queues.readers
        await until(lambda: readers.count == 1, "the poll waits at b")
        await cut(network)
        await until(lambda: readers.count == 0, "the poll is refused at a")
        acknowledged = asyncio.create_task(cursor.acknowledge({0: 3}))
        await heal(network)
        await acknowledged
        await publish(network, range(1))
        status = await waiting
        assert [each.next_sequence for each in status.positions] == [5]
