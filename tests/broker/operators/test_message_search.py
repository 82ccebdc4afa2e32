"""Operators search the messages of a queue, publish them again, and bring dead ones back."""

import pytest

from sluicegate.actors.messages.operations import REDRIVE
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.operations.queues import republish
from sluicegate.gateway.views.clients.messaging import message_from_dict
from sluicegate.gateway.views.queues.selections import (
    CONDITIONS,
    FIELDS_OF_RETURN,
    START,
    MessageSelection,
    position_of,
    selection_from_dict,
)
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.messaging.queues.message_filter import MessageId
from support.broker.inside_client import until
from support.broker.running_broker import RunningBroker
from support.operations.watches import watching


async def filled(broker: RunningBroker, count: int, **attributes: object) -> NodeOperations:
    """Return the operations on a node with messages in `q`: three keys in turn, numbered by a property."""
    view = NodeOperations(broker.node)
    await view.create_queue({"name": "q", "subscriptions": ["orders/>"], **attributes})
    for number in range(count):
        asked = {"topic": f"orders/{number}", "key": f"k{number % 3}", "properties": {"n": number}}
        await view.publish_message(message_from_dict(asked))
    return view


def wanted(**conditions: object) -> MessageSelection:
    return selection_from_dict(conditions, CONDITIONS)


async def topics(view: NodeOperations, selection: MessageSelection, **bounds: int) -> list[str]:
    """Return the topics of all that a search finds, request after request."""
    found: list[str] = []
    position = START
    while True:
        part = await view.search_queue("q", selection, position=position, **bounds)
        assert part.scanned_count <= bounds.get("scan", 10_000)
        found += [each.topic for each in part.messages]
        if part.position is None:
            return found
        position = position_of(part.position)


async def test_messages_are_found_by_key_property_topic_and_time(broker: RunningBroker) -> None:
    view = await filled(broker, 9)
    assert await topics(view, wanted(key="k1")) == ["orders/1", "orders/4", "orders/7"]
    assert await topics(view, wanted(key="k1", selector="n > 3")) == ["orders/4", "orders/7"]
    assert await topics(view, wanted(topic="orders/8")) == ["orders/8"]
    assert await topics(view, wanted(received_until="2000-01-01T00:00:00Z")) == []
    assert await topics(view, wanted(received_from="2999-01-01")) == []
    assert len(await topics(view, wanted(received_from="2000-01-01"))) == 9


@pytest.mark.parametrize("partitions", [0, 3])
async def test_a_search_goes_on_where_it_has_stopped(broker: RunningBroker, partitions: int) -> None:
    """However little one request examines or returns."""
    view = await filled(broker, 20, partition_count=partitions, access_type="non-exclusive")
    every = sorted(f"orders/{number}" for number in range(20))
    for bounds in ({"scan": 1}, {"scan": 7}, {"limit": 3}, {"limit": 3, "scan": 2}, {}):
        assert sorted(await topics(view, wanted(), **bounds)) == every, bounds
    assert sorted(await topics(view, wanted(key="k2"), scan=4)) == sorted(f"orders/{n}" for n in range(2, 20, 3))


async def test_one_partition_is_searched(broker: RunningBroker) -> None:
    view = await filled(broker, 12, partition_count=3, access_type="non-exclusive")
    found = [
        each.partition
        for number in range(3)
        for each in (await view.search_queue("q", wanted(), partition=number)).messages
    ]
    assert len(found) == 12
    assert found == sorted(found)
    with pytest.raises(QueueInvalid):
        await view.search_queue("q", wanted(), partition=3)


@pytest.mark.parametrize("text", ["", "1", "a:b", "1:0", "-1:2"])
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(QueueInvalid) as refused:
        position_of(text)
    assert refused.value.field == "position"


async def test_a_message_is_published_again_to_its_topic_and_stays_or_goes(broker: RunningBroker) -> None:
    view = await filled(broker, 2)
    await view.create_queue({"name": "late", "subscriptions": ["orders/1"]})
    ids = (MessageId(0, 1), MessageId(0, 2), MessageId(0, 99), MessageId(7, 1))

    copied = await view.republish_messages("q", ids, remove=False)

    assert (copied.done_count, copied.kept, copied.not_found) == (2, {}, ("0:99", "7:1"))
    assert [each.topic for each in await view.browse_queue("late", selector="n = 1")] == ["orders/1"]
    assert len(await view.browse_queue("q")) == 4

    moved = await view.republish_messages("q", (MessageId(0, 1),), remove=True)

    assert (moved.done_count, moved.kept) == (1, {})
    assert [each.id for each in await view.browse_queue("q")] == ["0:2", "0:3", "0:4", "0:5"]


@pytest.mark.parametrize(("bound", "value"), [("PORTION", 2), ("PORTION_BYTES", 2)])
async def test_publishing_again_goes_in_portions_and_says_what_it_has_not_reached(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, bound: str, value: int
) -> None:
    """What is published again by then is removed, too."""
    view = NodeOperations(broker.node)
    await view.create_queue({"name": "q", "subscriptions": ["orders/>"]})
    for number in range(5):
        await view.publish_message(message_from_dict({"topic": f"orders/{number}", "payload": "x"}))
    monkeypatch.setattr(republish, bound, value)
    ids = [MessageId(0, number) for number in (1, 2, 3, 4, 5)]

    whole = await view.republish_messages("q", ids[:3], remove=True)
    assert (whole.done_count, whole.kept) == (3, {})
    assert [each.topic for each in await view.browse_queue("q")] == [f"orders/{each}" for each in (3, 4, 0, 1, 2)]

    monkeypatch.setattr(republish, "WITHIN_MS", 0)
    ids = [MessageId(0, number) for number in (4, 5, 6, 7, 8)]
    part = await view.republish_messages("q", ids, remove=True)
    assert (part.done_count, part.kept) == (2, {"not_reached": 3})
    assert [each.topic for each in await view.browse_queue("q")] == [f"orders/{each}" for each in (0, 1, 2, 3, 4)]


async def test_a_message_that_nobody_would_get_stays(broker: RunningBroker) -> None:
    view = await filled(broker, 1)
    await view.remove_subscription("q", "orders/>")
    moved = await view.republish_messages("q", (MessageId(0, 1),), remove=True)
    assert (moved.done_count, moved.kept) == (0, {"no_subscription_match": 1})
    assert len(await view.browse_queue("q")) == 1


async def test_a_message_that_no_queue_would_get_stays_though_somebody_watches(broker: RunningBroker) -> None:
    view = await filled(broker, 1)
    await view.remove_subscription("q", "orders/>")
    watch = await watching(view, "orders/#")
    moved = await view.republish_messages("q", (MessageId(0, 1),), remove=True)
    assert (moved.done_count, moved.kept) == (1, {"no_queue_got_it": 1})
    assert len(await view.browse_queue("q")) == 1
    await until(lambda: len(watch.seen) == 1, "the message to be shown")
    await watch.end()


async def test_a_dead_message_goes_back_by_its_id(broker: RunningBroker) -> None:
    view = NodeOperations(broker.node)
    await view.create_queue({"name": "dead"})
    await view.create_queue({"name": "q", "dead_msg_queue": "dead", "respect_ttl_enabled": True})
    for payload in ("first", "second"):
        await view.publish_message(message_from_dict({"queue": "q", "payload": payload, "expiry_ms": 1}))
    while len(found := await view.browse_queue("dead")) < 2:
        pass  # the node works while it answers
    chosen = next(each for each in found if each.payload == "second")
    await view.update_queue("q", {"respect_ttl_enabled": False})

    back = await view.take_messages("dead", REDRIVE, selection_from_dict({"ids": [chosen.id]}, FIELDS_OF_RETURN))

    assert (back.done_count, back.kept) == (1, {})
    (returned,) = await view.browse_queue("q")
    assert (returned.payload, returned.dead) == ("second", None)
    assert [each.payload for each in await view.browse_queue("dead")] == ["first"]
