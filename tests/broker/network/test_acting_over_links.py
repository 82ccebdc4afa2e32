"""Operators act at one broker on a queue of its neighbor b: what they ask for is done there, and reported there."""

import asyncio

import pytest

from sluicegate.gateway.observability.statistics import ReaderBatch
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.errors import QueueNotFound, Refused
from sluicegate.gateway.views.queues.selections import SEQUENCE_MAX, ReplayStart
from sluicegate.protocols.network.queues import questions
from support.broker.linked_brokers import Brokers, until
from support.broker.named_queues import shows
from support.broker.operator_views import event_texts
from support.broker.remote_queues import cut, heal, payloads, publish, queue_at_b
from support.flow.bulk_client import BulkClient
from support.flow.client import FlowClient

EVERYTHING = ReplayStart()


async def settled(network: Brokers, count: int, **attributes: object) -> NodeOperations:
    """Make a queue at b that keeps so many settled messages; return the operations at a."""
    await queue_at_b(network, **attributes)
    await publish(network, range(count))
    async with FlowClient(network["b"].flow_port) as client:
        flow_id = await client.binds("q")
        client.accepts_through(flow_id, len(await client.receives_in_all(count, flow_id)))
        await shows(network["b"], lambda view: view.ready_count + view.unacked_count == 0)
    return NodeOperations(network["a"].node)


async def replayed(operations: NodeOperations, start: ReplayStart = EVERYTHING, end: int = SEQUENCE_MAX) -> int:
    return await operations.replay_queue("q", start, end=end, partition=None)


async def test_a_queue_of_a_neighbor_is_replayed_and_its_broker_says_who_asked(network: Brokers) -> None:
    operations = await settled(network, 6, retention_size_mb=10)
    assert await replayed(operations, ReplayStart(first=2), end=5) == 3
    async with FlowClient(network["a"].flow_port) as client:
        found = await client.receives_in_all(3, await client.binds("q"))
        assert [(each.payload, each.redelivered) for each in found] == [(each, True) for each in payloads(range(1, 4))]
    (text,) = await event_texts(network["b"], "SYSTEM_ADMIN_COMMAND")
    assert text.endswith("an operator at broker 'a' asked for replay_queue of queue 'q': done (3)")


async def test_a_replay_may_name_a_time_and_a_partition(network: Brokers) -> None:
    operations = await settled(network, 8, retention_size_mb=10, access_type="non-exclusive", partition_count=2)
    since = ReplayStart(since_ms=1)
    counts = [await operations.replay_queue("q", since, end=SEQUENCE_MAX, partition=partition) for partition in (0, 1)]
    assert sum(counts) == 8
    with pytest.raises(Refused, match="partition: 2 does not exist"):
        await operations.replay_queue("q", EVERYTHING, end=SEQUENCE_MAX, partition=2)


async def test_what_the_queue_refuses_is_refused_with_its_reason_and_reported(network: Brokers) -> None:
    operations = await settled(network, 1)
    with pytest.raises(Refused, match="queue 'q' is at broker b: 'q' keeps nothing"):
        await replayed(operations)
    (text,) = await event_texts(network["b"], "SYSTEM_ADMIN_COMMAND")
    assert "an operator at broker 'a' asked for replay_queue of queue 'q': 'q' keeps nothing" in text
    with pytest.raises(QueueNotFound):
        await operations.replay_queue("other", EVERYTHING, end=SEQUENCE_MAX, partition=None)


async def test_cursors_of_a_neighbors_queue_are_shown_and_deleted(network: Brokers) -> None:
    operations = await settled(network, 3)
    async with BulkClient(network["a"].flow_port) as client:
        await client.binds_cursor()
    shown = await operations.list_cursors("q")
    assert shown == tuple(await NodeOperations(network["b"].node).list_cursors("q"))
    assert [each.name for each in shown] == ["c"]
    with pytest.raises(Refused, match="queue 'q' is at broker b: queue 'q' has no cursor 'd'"):
        await operations.delete_cursor("q", "d")
    await operations.delete_cursor("q", "c")
    assert await operations.list_cursors("q") == ()
    assert (
        "delete_cursor of queue 'q': done (cursor c)" in (await event_texts(network["b"], "SYSTEM_ADMIN_COMMAND"))[-1]
    )


async def test_a_broker_may_let_operators_of_a_neighbor_change_nothing(brokers: Brokers) -> None:
    """They are still shown its queues, and readers still report their batches."""
    await brokers.pair(b=("links.a.allow_operator_actions=false",))
    await brokers.are_linked()
    operations = await settled(brokers, 3, retention_size_mb=10)
    async with BulkClient(brokers["a"].flow_port) as client:
        await client.binds_cursor()
    no = "queue 'q' is at broker b: operators of broker a may not change it: links.a.allow_operator_actions is off"
    with pytest.raises(Refused, match=no):
        await replayed(operations)
    with pytest.raises(Refused, match=no):
        await operations.delete_cursor("q", "c")
    assert [each.name for each in await operations.list_cursors("q")] == ["c"]
    assert (await operations.show_queue("q")).ready_count == 0
    batch = ReaderBatch(job="j", reference="1", rows_count=3, undecodable_count=0, duration_ms=5)
    await operations.add_batch("q", "c", batch)
    replay, deletion = await event_texts(brokers["b"], "SYSTEM_ADMIN_COMMAND")
    assert "replay_queue of queue 'q': operators of broker a may not change it" in replay
    assert "delete_cursor of queue 'q': operators of broker a may not change it" in deletion
    assert await replayed(NodeOperations(brokers["b"].node)) == 3  # its own operators may


async def test_an_action_over_a_lost_link_is_refused_at_once(network: Brokers) -> None:
    """What was asked before may have been done: the text says so."""
    operations = await settled(network, 3, retention_size_mb=10)
    never = asyncio.Event()

    async def waits(neighbor: str, vpn: str, what: str, names: list[str]) -> tuple[str, str]:
        await never.wait()
        return "", ""

    actions, network["b"].node.links.answerer.actions = network["b"].node.links.answerer.actions, waits
    asked = asyncio.create_task(replayed(operations))
    link = network["b"].neighbor("a").vpns[0]
    await until(lambda: link.questions.answering_count == 1, "b has the action")
    await cut(network)
    with pytest.raises(Refused, match="link to broker b went down; it may have been done all the same: look there"):
        await asked
    with pytest.raises(Refused, match="the link to broker b is down"):
        await replayed(operations)
    never.set()
    network["b"].node.links.answerer.actions = actions
    await heal(network)
    assert await replayed(operations) == 3


async def test_what_a_neighbor_cannot_do_is_refused_and_nothing_is_reported(network: Brokers) -> None:
    await queue_at_b(network)
    link = network["a"].neighbor("b").vpns[0]
    with pytest.raises(questions.QuestionFailed, match="cannot do this to a queue: 'paint'"):
        await link.questions.act("paint", ["q"])
    assert await event_texts(network["b"], "SYSTEM_ADMIN_COMMAND") == []
    for names in (["q"], ["q", "1", "0", "x", ""], ["q", "", "0", "5", ""], ["q", "1", "0", "5", "", ""]):
        with pytest.raises(questions.QuestionFailed, match="cannot be read here"):
            await link.questions.act("replay", names)
    network["b"].node.links.answerer.actions = None
    with pytest.raises(questions.QuestionFailed, match="no ports for operators"):
        await link.questions.act("replay", ["q"])


async def test_an_action_that_fails_unexpectedly_is_reported_as_failed(
    network: Brokers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A part of it may have been done."""
    await settled(network, 3, retention_size_mb=10)

    async def fails(*_arguments: object, **_options: object) -> int:
        raise RuntimeError("a fault of the program")

    link = network["a"].neighbor("b").vpns[0]
    with monkeypatch.context() as patched:
        patched.setattr(NodeOperations, "replay_queue_here", fails)
        with pytest.raises(questions.QuestionFailed):
            await link.questions.act("replay", ["q", "1", "0", "5", ""])
    (text,) = await event_texts(network["b"], "SYSTEM_ADMIN_COMMAND")
    assert "an operator at broker 'a' asked for replay_queue of queue 'q': failed" in text
    assert "a fault of the program" in caplog.text
    caplog.clear()  # of the fault
