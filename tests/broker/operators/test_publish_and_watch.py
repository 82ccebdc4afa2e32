"""Operators publish messages, and watch topics without holding anything up."""

import asyncio

import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.operations.clients.watching import SPAN_MESSAGES_MAX, WATCHES_MAX
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.clients.messaging import message_from_dict
from sluicegate.gateway.views.clients.retained import RetainedQuery
from sluicegate.gateway.views.clients.subscriptions import SmrpQuery
from sluicegate.gateway.views.errors import Refused
from sluicegate.messaging.queues.definition import QueueInvalid
from support.broker.inside_client import until
from support.broker.running_broker import RunningBroker
from support.operations.watches import watchers, watching


async def test_a_published_message_reaches_queue_and_watch_with_all_it_has(broker: RunningBroker) -> None:
    view = NodeOperations(broker.node)
    await view.create_queue({"name": "all", "subscriptions": ["orders/>"]})
    watch = await watching(view, "orders/#")
    asked = {
        "topic": "orders/eu",
        "payload": '{"n": 1}',
        "key": "k",
        "properties": {"amount": 12, "rush": True},
        "content_type": "application/json",
        "reply_to": "answers",
        "correlation_id": "c-1",
        "expiry_ms": 60_000,
    }

    done = await view.publish_message(message_from_dict(asked))

    assert (done.published_count, done.unmatched_count, done.refusal) == (1, 0, "")
    (stored,) = await view.browse_queue("all", selector="amount = 12 AND rush = TRUE")
    assert (stored.topic, stored.key, stored.payload) == ("orders/eu", "k", '{"n": 1}')
    await until(lambda: len(watch.seen) == 1, "the message to be shown")
    (seen,) = watch.seen
    assert (seen.topic, seen.publisher, seen.key, seen.qos) == ("orders/eu", "admin", "k", 1)
    assert (seen.reply_to, seen.correlation_id, seen.content_type) == ("answers", "c-1", "application/json")
    assert (seen.payload, seen.size_bytes, seen.dropped_count) == ('{"n": 1}', 8, 0)
    assert dict(seen.properties) == {"amount": "12", "rush": "true"}
    await watch.end()


async def test_copies_are_published_until_one_is_refused(broker: RunningBroker) -> None:
    view = NodeOperations(broker.node)
    await view.create_queue({"name": "small", "max_msg_spool_usage": 1})
    done = await view.publish_message(message_from_dict({"queue": "small", "payload": "x" * 300_000, "count": 5}))
    assert (done.published_count, done.refused_count) == (3, 2)
    assert "quota is used up" in done.refusal
    assert len(await view.browse_queue("small")) == 3


async def test_a_message_for_nobody_is_said_to_be_so(broker: RunningBroker) -> None:
    done = await NodeOperations(broker.node).publish_message(message_from_dict({"topic": "nobody/hears"}))
    assert (done.published_count, done.unmatched_count) == (1, 1)
    done = await NodeOperations(broker.node).publish_message(message_from_dict({"queue": "nowhere"}))
    assert (done.published_count, done.refused_count) == (0, 1)
    assert "Queue Not Found" in done.refusal


async def test_a_message_is_retained_and_deleted_again(broker: RunningBroker) -> None:
    view = NodeOperations(broker.node)
    await view.publish_message(message_from_dict({"topic": "lamp/state", "payload": "on", "retain": True}))
    assert (await view.show_retained("lamp/state")).payload == "on"
    await view.publish_message(message_from_dict({"topic": "lamp/state", "retain": True}))
    assert (await view.list_retained(RetainedQuery())).total_count == 0


async def test_who_watches_too_slowly_misses_messages_and_is_told_how_many(broker: RunningBroker) -> None:
    """A burst comes to the publisher's end at full speed; the watch shows a part, and the count of the others."""
    view = NodeOperations(broker.node)
    watch = await watching(view, "burst")
    total = 3 * SPAN_MESSAGES_MAX
    done = await view.publish_message(message_from_dict({"topic": "burst", "delivery_mode": "direct", "count": total}))
    assert done.published_count == total
    while sum(each.dropped_count + 1 for each in watch.seen) < total:  # the next one shown has the count
        await view.publish_message(message_from_dict({"topic": "burst", "delivery_mode": "direct"}))
        total += 1
        await asyncio.sleep(0.01)
    assert len(watch.seen) < total
    await watch.end()


async def test_messages_of_clients_are_watched(broker: RunningBroker) -> None:
    view = NodeOperations(broker.node)
    watch = await watching(view, "plant/+/temp")
    client = await broker.open(4)
    await client.connect("sensor")
    client.send(mqtt.publish("plant/7/temp", b"\xff\x00", qos=0))
    await until(lambda: len(watch.seen) == 1, "the message to be shown")
    assert (watch.seen[0].publisher, watch.seen[0].payload_encoding) == ("sensor", "base64")
    await watch.end()


async def test_a_watch_takes_no_message_from_the_one_subscriber_that_would_get_it(broker: RunningBroker) -> None:
    """Deliver-To-One: who has the priority DA gets each message beside the chosen one."""
    view = NodeOperations(broker.node)
    watch = await watching(view, "jobs/#")
    (shown,) = (await view.smrp_subscriptions(SmrpQuery(topic_str="jobs/#"))).subscriptions
    assert (shown.dto_priority, shown.persistence) == ("DA", "N")
    await watch.end()


async def test_a_watch_ends_with_its_reader_and_their_number_is_bounded(broker: RunningBroker) -> None:
    view = NodeOperations(broker.node)
    watches = [await watching(view, f"topic/{number}") for number in range(WATCHES_MAX)]
    with pytest.raises(Refused, match="which is the most"):
        await view.watch_topics("one/more")
    for each in watches:
        await each.end()
    root = broker.node.services.root
    await until(lambda: not [each for each in root.children or () if each.kind == "watcher"], "the watchers to end")
    assert await watchers(view) == 0


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({}, "topic"),
        ({"topic": "a", "queue": "b"}, "topic"),
        ({"topic": "a/+"}, "topic"),
        ({"topic": "$SYS/broker"}, "topic"),
        ({"queue": "q", "retain": True}, "retain"),
        ({"topic": "a", "payload": "?", "payload_encoding": "base64"}, "payload"),
        ({"topic": "a", "delivery_mode": "fast"}, "delivery_mode"),
        ({"topic": "a", "count": 1001}, "count"),
        ({"topic": "a", "count": 1000, "payload": "x" * 100_000}, "count"),
        ({"topic": "a", "key": "k" * 256}, "key"),
        ({"topic": "a", "properties": {"a": []}}, "properties"),
        ({"topic": "a", "expiry_ms": -1}, "expiry_ms"),
        ({"topic": "a", "retain": 1}, "retain"),
        ({"topic": "a", "colour": "red"}, "colour"),
    ],
)
def test_what_is_no_message_is_refused_with_its_field(asked: dict[str, object], field: str) -> None:
    with pytest.raises(QueueInvalid) as refused:
        message_from_dict(asked)
    assert refused.value.field == field


async def test_a_wrong_filter_is_refused(broker: RunningBroker) -> None:
    with pytest.raises(QueueInvalid):
        await NodeOperations(broker.node).watch_topics("a/+/#/b")
