"""Operators move queues to other brokers, over the admin port."""

import pytest

from sluicegate.gateway.admin.semp.objects.queues import QUEUE as SEMP_QUEUE
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.errors import QueueNotFound, Refused
from sluicegate.gateway.views.node.figures import QueuesQuery
from support.broker.linked_brokers import Brokers, until
from support.broker.moving_queues import moves, waiting_move, waits_for
from support.broker.named_queues import create as queue_of
from support.broker.operator_views import event_texts
from support.broker.remote_queues import consumer, payloads, publish, queue_at_b


async def test_an_operator_moves_a_queue_and_sees_it_at_its_new_broker(network: Brokers) -> None:
    await queue_at_b(network)
    await publish(network, range(20))
    at_a, at_b = NodeOperations(network["a"].node), NodeOperations(network["b"].node)

    await at_b.move_queue("q", "a")

    await until(lambda: network["a"].node.default.space.has_queue("q"), "the move")
    assert [each.payload for each in await at_a.browse_queue("q")] == [f"{number}" for number in range(20)]
    await until(lambda: network["b"].node.default.space.queue_home("q") is not None, "b knows where it is")
    assert "q" not in [each.name for each in await at_b.list_queues()]
    await until(lambda: not moves(network, "b").overviews(), "the end of the move")
    assert await at_b.list_moves() == []


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
    await operations.cancel_move("q")
    assert await operations.list_moves() == []
    client = await consumer(brokers, at="a")
    assert await client.payloads(3) == payloads(range(3))
    assert [each.name for each in await NodeOperations(brokers["a"].node).list_queues() if each.name == "q"] == []


async def test_an_operator_of_another_broker_moves_the_queue_and_cancels_that(brokers: Brokers) -> None:
    operations, at_a = await waiting_move(brokers, 3), NodeOperations(brokers["a"].node)
    with pytest.raises(Refused, match=r"queue 'q' is at broker b: .* is being moved already"):
        await at_a.move_queue("q", "a")
    await at_a.cancel_move("q")
    assert await operations.list_moves() == []
    await at_a.move_queue("q", "a")
    [move] = await operations.list_moves()
    assert (move.name, move.broker) == ("q", "a")
    texts = await event_texts(brokers["b"], "SYSTEM_ADMIN_COMMAND")
    assert [text.partition("asked for ")[2] for text in texts] == [
        "move_queue of queue 'q': queue 'q' is being moved already",
        "cancel_move of queue 'q': done (it stays)",
        "move_queue of queue 'q': done (to a)",
    ]


async def test_a_queue_shows_how_far_its_move_is_at_every_broker(brokers: Brokers) -> None:
    operations, at_a = await waiting_move(brokers, 3), NodeOperations(brokers["a"].node)
    view = await operations.show_queue("q")
    move = view.move
    assert move is not None
    assert (move.broker, move.moved_count, move.total_count) == ("a", 0, 3)
    assert abs(move.begun_ms - brokers["b"].node.services.clock.wall_ms()) < 60_000
    asked = (await at_a.show_queue("q")).move
    assert asked is not None
    assert (asked.broker, asked.begun_ms, asked.total_count) == ("a", move.begun_ms, 3)
    [listed] = [each for each in await operations.list_queues() if each.name == "q"]
    assert listed.move is not None
    [figures] = [each for each in (await operations.queues_figures(QueuesQuery())).queues if each.name == "q"]
    assert figures.moving_to == "a"
    semp = {each.name: each.read(view) for each in SEMP_QUEUE.attributes if each.read is not None}
    shown = (semp["moveToBrokerName"], semp["moveBeginTime"], semp["movedMsgCount"])
    assert shown == ("a", move.begun_ms // 1000, 0)


async def test_a_move_that_is_begun_or_cancelled_is_an_event_and_counted(brokers: Brokers) -> None:
    operations = await waiting_move(brokers, 3)
    await operations.cancel_move("q")
    [begun] = await event_texts(brokers["b"], "VPN_AD_QENDPT_MOVE")
    assert begun.endswith("Queue q is being moved to broker a")
    [cancelled] = await event_texts(brokers["b"], "VPN_AD_QENDPT_MOVE_CANCELLED")
    assert cancelled.endswith("Queue q stays: its move to broker a was cancelled")
    assert (moves(brokers, "b").cancelled_count, moves(brokers, "b").sent_count) == (1, 0)


async def test_a_queue_that_is_being_moved_is_listed_where_its_messages_are_delivered(brokers: Brokers) -> None:
    operations, at_a = await waiting_move(brokers, 3), NodeOperations(brokers["a"].node)
    assert "q" in await operations.queue_names()
    assert "q" not in await at_a.queue_names()
    assert "q" not in [each.name for each in await at_a.list_queues()]
    assert "q" not in [each.name for each in (await at_a.queues_figures(QueuesQuery())).queues]
    assert (await at_a.show_queue("q")).broker == "b"
    with pytest.raises(QueueNotFound, match="is at broker b"):
        await at_a.purge_queue("q")


@pytest.mark.parametrize("forbids", ["a", "b"])
async def test_a_broker_may_let_operators_of_a_neighbor_move_nothing(brokers: Brokers, forbids: str) -> None:
    """Neither a queue of its own, nor one to it. What is being moved already goes on."""
    other = "b" if forbids == "a" else "a"
    forbidding, allowing = (f"links.{other}.allow_operator_actions=false",), ()
    await brokers.pair(a=forbidding if forbids == "a" else allowing, b=forbidding if forbids == "b" else allowing)
    await brokers.are_linked()
    await queue_of(brokers["a"], "of-a")
    await queue_of(brokers["b"], "of-b")
    own, theirs = f"of-{forbids}", f"of-{other}"
    await until(lambda: brokers[other].node.default.space.queue_home(own) is not None, "the queues are known")
    await until(lambda: brokers[forbids].node.default.space.queue_home(theirs) is not None, "the queues are known")
    operations = NodeOperations(brokers[other].node)
    with pytest.raises(Refused, match=f"operators of broker {other} may not change it"):
        await operations.move_queue(own, other)
    with pytest.raises(Refused, match=f"operators of broker '{other}' may not move queues to it: links.{other}.allow"):
        await operations.move_queue(theirs, forbids)
    assert await operations.list_moves() == []
    await NodeOperations(brokers[forbids].node).move_queue(own, other)
    await until(lambda: brokers[other].node.default.space.has_queue(own), "its own operators may move it")


async def test_what_cannot_be_moved_is_refused_with_the_reason(network: Brokers) -> None:
    await queue_at_b(network)
    at_a, at_b = NodeOperations(network["a"].node), NodeOperations(network["b"].node)
    with pytest.raises(QueueNotFound):
        await at_b.move_queue("other", "a")
    with pytest.raises(Refused, match="queue 'q' is at broker b: queue 'q' is at broker 'b' already"):
        await at_a.move_queue("q", "b")
    with pytest.raises(Refused, match="no link to broker 'c'"):
        await at_b.move_queue("q", "c")
    with pytest.raises(Refused, match="not being moved"):
        await at_b.cancel_move("q")
