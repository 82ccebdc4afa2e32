"""A queue that moves from one linked broker to another."""

import asyncio

from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.queues.queues import QueueMoveView
from sluicegate.protocols.network.moves.moves import VpnMoves
from support.broker.linked_brokers import Brokers, until
from support.broker.remote_queues import publish, queue_at_b
from support.mqtt.raw_client import DEADLINE_S


def moves(network: Brokers, broker: str) -> VpnMoves:
    [found] = [each.vpn for each in next(iter(network[broker].node.links.links.neighbors.values())).vpns]
    return found.moves


async def moved(network: Brokers, queue: str = "q", *, at: str = "b", to: str = "a") -> None:
    """Move a queue, and wait until all brokers know."""
    await moves(network, at).begin(queue, to)
    await is_moved(network, queue, at=at, to=to)


async def is_moved(network: Brokers, queue: str = "q", *, at: str = "b", to: str = "a") -> None:
    def is_over() -> bool:
        old = moves(network, at)
        return queue not in old.movers and queue not in old.moved

    await until(is_over, f"the move of {queue} to {to}")
    assert network[to].node.default.space.has_queue(queue)
    for broker in network.by_name.values():
        assert broker.node.default.space.held is None


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
