"""Two operators who act at the same time: neither undoes a change that the other got a response for."""

import asyncio

import pytest

from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.errors import (
    QueueNotFound,
    Refused,
    SubscriptionAlreadyExists,
    TemplateAlreadyExists,
    TemplateNotFound,
)
from sluicegate.messaging.queues.template import QueueTemplate, template_from_dict
from support.broker.named_queues import create
from support.broker.running_broker import RunningBroker

TEMPLATE = template_from_dict({"name": "t", "queue_name_filter": "eu/>"})


async def templates(node: NodeOperations) -> list[dict[str, object]]:
    """Return those that there are, without what is the same in all tests."""
    return [dict(each.attributes) for each in await node.list_templates()]


async def test_two_changes_of_a_template_are_both_in_it(broker: RunningBroker) -> None:
    node = NodeOperations(broker.node)
    await node.put_template(TEMPLATE, must_be_new=True)
    await asyncio.gather(
        node.update_template("t", {"max_ttl": 5}),
        node.update_template("t", {"max_bind_count": 3}),
    )
    assert await templates(node) == [{"max_ttl": 5, "max_bind_count": 3}]


async def test_two_changes_of_a_queue_are_both_in_it(broker: RunningBroker) -> None:
    """Whoever asks for them: operators have a view each, and clients of the flow protocol change queues as well."""
    await create(broker)
    views = [NodeOperations(broker.node) for _ in range(4)]
    await asyncio.gather(
        views[0].update_queue("q", {"max_ttl": 5}),
        views[1].update_queue("q", {"max_bind_count": 3}),
        views[2].add_subscription("q", "a"),
        views[3].add_subscription("q", "b"),
    )
    shown = await views[0].show_queue("q")
    assert (shown.config.max_ttl, shown.config.max_bind_count, shown.subscriptions) == (5, 3, ("a", "b"))
    await broker.restart()
    assert (await NodeOperations(broker.node).show_queue("q")).config == shown.config


async def test_a_change_that_is_refused_does_not_hold_up_the_next_one(broker: RunningBroker) -> None:
    await create(broker)
    node = NodeOperations(broker.node)
    answers = await asyncio.gather(
        node.add_subscription("q", "a"),
        node.add_subscription("q", "a"),
        node.update_queue("q", {"access_type": "non-exclusive"}),
        node.remove_subscription("q", "a"),
        return_exceptions=True,
    )
    assert [type(each) for each in answers] == [type(None), SubscriptionAlreadyExists, Refused, type(None)]
    assert (await node.show_queue("q")).subscriptions == ()


async def test_a_change_of_partitions_refuses_no_other_change_that_comes_with_it(broker: RunningBroker) -> None:
    await create(broker, access_type="non-exclusive", partition_count=2)
    node = NodeOperations(broker.node)
    await asyncio.gather(
        node.update_queue("q", {"partition_count": 5}),
        node.update_queue("q", {"max_ttl": 5}),
        node.add_subscription("q", "a"),
    )
    view = await node.show_queue("q")
    assert (view.config.partition_count, view.config.max_ttl, view.subscriptions) == (5, 5, ("a",))


async def test_changes_that_wait_for_a_queue_that_is_deleted_are_refused(broker: RunningBroker) -> None:
    await create(broker)
    node = NodeOperations(broker.node)
    changes = [node.update_queue("q", {"max_ttl": ttl}) for ttl in (1, 2, 3)]
    *answers, deleted = await asyncio.gather(*changes, node.delete_queue("q"), return_exceptions=True)
    assert deleted is None
    assert all(isinstance(each, Refused | QueueNotFound) for each in answers)


async def test_of_two_operators_who_create_a_template_one_gets_a_conflict(broker: RunningBroker) -> None:
    node = NodeOperations(broker.node)
    others = QueueTemplate("t", "eu/>", "none", {"max_ttl": 9})
    first, second = await asyncio.gather(
        node.put_template(TEMPLATE, must_be_new=True),
        node.put_template(others, must_be_new=True),
        return_exceptions=True,
    )
    assert (first, type(second)) == (None, TemplateAlreadyExists)
    assert await templates(node) == [{}]


async def test_a_template_that_is_deleted_while_it_is_changed_is_gone(broker: RunningBroker) -> None:
    """Also after a restart: the store and the node are of one mind."""
    node = NodeOperations(broker.node)
    await node.put_template(TEMPLATE, must_be_new=True)
    deleted = asyncio.gather(
        node.update_template("t", {"max_ttl": 5}), node.delete_template("t"), return_exceptions=True
    )
    changed, gone = await deleted
    assert isinstance(changed, QueueTemplate)
    assert gone is None
    with pytest.raises(TemplateNotFound):
        await node.update_template("t", {"max_ttl": 6})
    assert await templates(node) == []
    await broker.restart()
    assert await templates(NodeOperations(broker.node)) == []
