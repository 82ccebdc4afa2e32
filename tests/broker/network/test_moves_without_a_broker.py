"""A move from broker b to broker a of which one does not come back: an operator at the other one ends it."""

import pytest

from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.errors import QueueNotFound, Refused
from support.broker.linked_brokers import Brokers, until
from support.broker.moving_queues import waits_for
from support.broker.named_queues import shows
from support.broker.remote_queues import payloads, publish, queue_at_b
from support.flow.client import FlowClient

COUNT = 1_200  # more than a move leaves for the moment in which all brokers take part


async def half_moved(brokers: Brokers) -> tuple[NodeOperations, NodeOperations]:
    """Return the operations at a, which has all messages of the queue, and at b, which is still its home."""
    for name in "ba":
        await brokers.add(name)
    at_a, at_b = NodeOperations(brokers["a"].node), NodeOperations(brokers["b"].node)
    await at_b.create_link({"name": "a", "url": ""})
    await at_a.create_link({"name": "b", "url": f"flow://127.0.0.1:{brokers['b'].flow_port}"})
    await brokers.are_linked()
    await at_b.create_link({"name": "c", "url": ""})
    await queue_at_b(brokers)
    for first in range(0, COUNT, 400):
        await publish(brokers, range(first, first + 400))
    await at_b.move_queue("q", "a")
    await waits_for(at_b, "link to broker 'c' is down")
    target = brokers["a"].node.default.ways.targets["q"]
    await until(lambda: target.gate.usage_count == COUNT, "all messages are at a")
    return at_a, at_b


async def is_gone(brokers: Brokers, gone: str, operations: NodeOperations) -> None:
    """Have a broker stop, and the other one forget it."""
    await brokers[gone].stop()
    await operations.delete_link(gone)
    await operations.forget_neighbor(gone, force=True)


async def test_the_queue_is_at_its_new_broker_when_the_old_one_does_not_come_back(brokers: Brokers) -> None:
    at_a, _ = await half_moved(brokers)
    await is_gone(brokers, "b", at_a)
    with pytest.raises(QueueNotFound):
        await at_a.show_queue("q")

    await at_a.end_move("q", "b")

    assert (await at_a.show_queue("q")).spooled_count == COUNT
    await publish(brokers, range(COUNT, COUNT + 3), at="a")
    async with FlowClient(brokers["a"].flow_port) as client:
        found = await client.receives_in_all(COUNT + 3, await client.binds("q", credit=COUNT + 3))
        assert [each.payload for each in found] == payloads(range(COUNT + 3))


async def test_the_queue_stays_with_what_it_has_when_its_new_broker_does_not_come_back(brokers: Brokers) -> None:
    _, at_b = await half_moved(brokers)
    await publish(brokers, range(COUNT, COUNT + 5))
    await is_gone(brokers, "a", at_b)

    await at_b.end_move("q", "a")

    assert await at_b.list_moves() == []
    await publish(brokers, range(COUNT + 5, COUNT + 7))
    await shows(brokers["b"], lambda view: view.spooled_count >= 2)
    async with FlowClient(brokers["b"].flow_port) as client:
        left = (await at_b.show_queue("q")).spooled_count
        found = await client.receives_in_all(left, await client.binds("q"))
        assert [each.payload for each in found] == payloads(range(COUNT + 7 - left, COUNT + 7))


async def test_a_broker_that_is_still_known_is_not_left_out(brokers: Brokers) -> None:
    at_a, at_b = await half_moved(brokers)
    for operations, other in ((at_a, "b"), (at_b, "a")):
        with pytest.raises(Refused, match=f"'{other}' is known here: .* sluicegate link forget {other} --force"):
            await operations.end_move("q", other)
        with pytest.raises(Refused, match="is being moved neither to broker 'x' nor from there"):
            await operations.end_move("q", "x")
        with pytest.raises(QueueNotFound):
            await operations.end_move("other", "x")
