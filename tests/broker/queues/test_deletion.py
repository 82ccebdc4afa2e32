"""Queues are created and deleted, those of sessions with every client: operators' queries meanwhile get replies."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.errors import QueueNotFound, Refused
from sluicegate.gateway.views.node.figures import QueuesQuery
from sluicegate.gateway.views.queues.selections import MessageSelection
from support.broker.named_queues import create
from support.broker.running_broker import RunningBroker

QUEUES = 20
LAST = f"q{QUEUES - 1:02}"  # asked behind all others, when it is gone

Question = Callable[[NodeOperations], Awaitable[object]]


@pytest.mark.parametrize(
    "question",
    [
        NodeOperations.metrics_snapshot,
        NodeOperations.list_queues,
        lambda view: view.queues_figures(QueuesQuery()),
    ],
    ids=["metrics", "queues", "figures"],
)
async def test_a_list_is_without_the_queue_that_is_deleted_while_it_is_made(
    broker: RunningBroker, question: Question
) -> None:
    for number in range(QUEUES):
        await create(broker, f"q{number:02}")
    view = NodeOperations(broker.node)
    answer, _ = await asyncio.gather(question(view), view.delete_queue(LAST))
    assert "q00" in repr(answer)
    assert LAST not in repr(answer)


@pytest.mark.parametrize(
    "question",
    [
        lambda view: view.purge_queue(LAST),
        lambda view: view.show_queue(LAST),
        lambda view: view.browse_queue(LAST),
        lambda view: view.explain_key(LAST, "k"),
        lambda view: view.take_messages(LAST, "delete", MessageSelection(limit=1)),
    ],
    ids=["purge", "show", "browse", "explain", "take"],
)
async def test_a_queue_that_is_deleted_before_it_answers_is_not_there(
    broker: RunningBroker, question: Question
) -> None:
    """Both have found it when it is deleted."""
    await create(broker, LAST)
    view = NodeOperations(broker.node)
    with pytest.raises(QueueNotFound):
        await asyncio.gather(view.delete_queue(LAST), question(view))


async def test_a_change_of_a_queue_that_is_deleted_meanwhile_is_refused(broker: RunningBroker) -> None:
    await create(broker, LAST)
    view = NodeOperations(broker.node)
    with pytest.raises(Refused, match="deleted meanwhile"):
        await asyncio.gather(view.delete_queue(LAST), view.update_queue(LAST, {"max_ttl": 1}))


async def test_following_a_queue_that_is_deleted_before_it_is_bound_ends(broker: RunningBroker) -> None:
    await create(broker, LAST)
    view = NodeOperations(broker.node)
    followed = await view.follow_queue(LAST)
    await view.delete_queue(LAST)
    assert [each async for each in followed] == []
