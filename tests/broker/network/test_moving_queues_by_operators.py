"""Operators move queues to other brokers, over the admin port."""

import asyncio

import pytest

from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.errors import QueueNotFound, Refused
from sluicegate.gateway.views.queues.queues import QueueMoveView
from support.broker.linked_brokers import Brokers, until
from support.broker.remote_queues import consumer, payloads, publish, queue_at_b
from support.mqtt.raw_client import DEADLINE_S


async def test_an_operator_moves_a_queue_and_sees_it_at_its_new_broker(network: Brokers) -> None:
    await queue_at_b(network)
    await publish(network, range(20))
    at_a, at_b = NodeOperations(network["a"].node), NodeOperations(network["b"].node)

    await at_b.move_queue("q", "a")

    await until(lambda: network["a"].node.default.space.has_queue("q"), "the move")
    assert [each.payload for each in await at_a.browse_queue("q")] == [f"{number}" for number in range(20)]
    await until(lambda: network["b"].node.default.space.queue_home("q") is not None, "b knows where it is")
    assert "q" not in [each.name for each in await at_b.list_queues()]
    assert await at_b.list_moves() == []


async def waiting_move(brokers: Brokers, count: int) -> NodeOperations:
    """Begin to move q from b to a while broker c of the network is away; return the operations at b."""
    await brokers.pair()
    await brokers.are_linked()
    operations = NodeOperations(brokers["b"].node)
    await operations.create_link({"name": "c", "url": ""})
    await queue_at_b(brokers)
    await publish(brokers, range(count))
    await operations.move_queue("q", "a")
    return operations


async def waits_for(operations: NodeOperations, text: str) -> QueueMoveView:
    """Wait until the only move waits for this."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            [move] = await operations.list_moves()
            if text in move.waits_for:
                return move
            await asyncio.sleep(0.01)


async def test_a_move_waits_for_every_broker_of_the_network_and_says_so(brokers: Brokers) -> None:
    """One that is away may have messages for the queue, and would publish by what it knows when it is back."""
    operations = await waiting_move(brokers, 5)
    move = await waits_for(operations, "the link to broker 'c' is down")
    assert (move.name, move.broker, move.left_count, move.switching) == ("q", "a", 5, False)
    for refused in (
        operations.delete_queue("q"),
        operations.update_queue("q", {"max_ttl": 5}),
        operations.move_queue("q", "a"),
    ):
        with pytest.raises(Refused, match="being moved"):
            await refused
    await publish(brokers, range(5, 10), at="a")
    await operations.delete_link("c")
    await until(lambda: brokers["a"].node.default.space.has_queue("q"), "the move without c")
    shown = await NodeOperations(brokers["a"].node).browse_queue("q")
    assert [each.payload for each in shown] == [f"{number}" for number in range(10)]


async def test_a_move_that_has_handed_nothing_over_is_cancelled_and_the_queue_serves_as_before(
    brokers: Brokers,
) -> None:
    operations = await waiting_move(brokers, 3)
    await operations.keep_queue("q")
    assert await operations.list_moves() == []
    client = await consumer(brokers, at="a")
    assert await client.payloads(3) == payloads(range(3))
    assert [each.name for each in await NodeOperations(brokers["a"].node).list_queues() if each.name == "q"] == []


async def test_what_cannot_be_moved_is_refused_with_the_reason(network: Brokers) -> None:
    await queue_at_b(network)
    at_a, at_b = NodeOperations(network["a"].node), NodeOperations(network["b"].node)
    with pytest.raises(QueueNotFound):
        await at_b.move_queue("other", "a")
    with pytest.raises(Refused, match="is at broker b"):
        await at_a.move_queue("q", "b")
    with pytest.raises(Refused, match="no link to broker 'c'"):
        await at_b.move_queue("q", "c")
    with pytest.raises(Refused, match="not being moved"):
        await at_b.keep_queue("q")
