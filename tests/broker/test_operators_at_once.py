"""Two operators who do something at the same time: neither undoes what the other one was told is done."""

import asyncio

import pytest

from gateway.answers import TemplateAlreadyExists, TemplateNotFound
from gateway.node_port import NodeView
from messaging.queue_template import QueueTemplate, template_from_dict
from running_broker import RunningBroker

TEMPLATE = template_from_dict({"name": "t", "queue_name_filter": "eu/>"})


async def templates(node: NodeView) -> list[dict[str, object]]:
    """Return those that there are, without what is the same in all tests."""
    return [dict(each.attributes) for each in await node.list_templates()]


async def test_two_changes_of_a_template_are_both_in_it(broker: RunningBroker) -> None:
    node = NodeView(broker.node)
    await node.put_template(TEMPLATE, must_be_new=True)
    await asyncio.gather(
        node.update_template("t", {"max_ttl": 5}),
        node.update_template("t", {"max_bind_count": 3}),
    )
    assert await templates(node) == [{"max_ttl": 5, "max_bind_count": 3}]


async def test_of_two_who_create_a_template_one_is_told_that_it_is_there(broker: RunningBroker) -> None:
    node = NodeView(broker.node)
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
    node = NodeView(broker.node)
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
    assert await templates(NodeView(broker.node)) == []
