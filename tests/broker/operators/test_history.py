"""A running node keeps what its counters did in the last hour, and asks no queue for it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.errors import QueueNotFound
from sluicegate.gateway.views.node.history import HistoryQuery, HistoryView
from sluicegate.messaging.queues.definition import QueueInvalid
from support.broker.named_queues import create
from support.broker.running_broker import RunningBroker
from support.mqtt.raw_client import DEADLINE_S

STEP_S = 2
QUESTION = HistoryQuery()


async def shows(ask: Callable[[], Awaitable[HistoryView]], condition: Callable[[HistoryView], bool]) -> HistoryView:
    """Wait until a history looks as it should."""
    async with asyncio.timeout(2 * DEADLINE_S):
        while not condition(view := await ask()):
            await asyncio.sleep(0.05)
    return view


def total(values: Sequence[float | None]) -> int:
    return round(sum(each or 0 for each in values) * STEP_S)


async def test_a_history_has_the_rates_and_the_backlog_of_each_object(broker: RunningBroker) -> None:
    await create(broker, subscriptions=["t"], access_type="non-exclusive", partition_count=2)
    view = NodeOperations(broker.node)
    begun = await view.queue_history("q", QUESTION, partition=0)
    other = await view.queue_history("q", QUESTION, partition=1)
    assert (list(begun.times_ms), list(other.times_ms)) == ([], [])
    await view.queue_history("q", QUESTION)
    await shows(lambda: view.queue_history("q", QUESTION, partition=1), lambda seen: bool(seen.times_ms))
    publisher = await broker.connect("publisher")
    for _ in range(6):
        await publisher.publish("t", b"12345", qos=1)

    queue = await shows(lambda: view.queue_history("q", QUESTION), lambda seen: total(seen.values["messages_in"]) >= 5)
    node = await shows(lambda: view.node_history(QUESTION), lambda seen: total(seen.values["messages_in"]) >= 5)
    vpn = await view.vpn_history(QUESTION)

    async def waiting() -> list[float]:
        both = [await view.queue_history("q", QUESTION, partition=number) for number in (0, 1)]
        return [each.values["messages"][-1] or 0 for each in both]

    async with asyncio.timeout(2 * DEADLINE_S):
        while sum(await waiting()) != 6:
            await asyncio.sleep(0.05)
    assert {time_ms % (STEP_S * 1000) for time_ms in queue.times_ms} == {0}
    assert queue.values["messages_bytes"][-1]
    assert node.values["connections"][-1] == 1
    assert node.values["memory_bytes"][-1]
    assert max(each for each in node.values["commit_ms"] if each is not None) > 0
    assert vpn.values["messages"][-1]


async def test_a_queue_or_partition_that_does_not_exist_has_no_history(broker: RunningBroker) -> None:
    await create(broker)
    view = NodeOperations(broker.node)
    with pytest.raises(QueueNotFound):
        await view.queue_history("missing", QUESTION)
    with pytest.raises(QueueInvalid, match="does not exist"):
        await view.queue_history("q", QUESTION, partition=1)


async def test_the_history_of_a_deleted_queue_is_forgotten(broker: RunningBroker) -> None:
    await create(broker)
    view = NodeOperations(broker.node)
    await view.queue_history("q", QUESTION)
    assert len(broker.node.history.queues) == 1
    await view.delete_queue("q")
    await broker.node.history.take()
    assert len(broker.node.history.queues) == 0
