"""Explain predicts delivery: the same question and the same publish, side by side; virtual destinations too."""

import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.operations.queues.explain import checks_of
from sluicegate.gateway.views.errors import QueueNotFound
from sluicegate.gateway.views.queues.explanations import ExampleMessage
from sluicegate.messaging.message.refusals import REFUSAL_COUNTERS
from sluicegate.messaging.partitions.explain import WaitReason
from sluicegate.messaging.queues.admission import QueueGate
from support.broker.named_queues import create
from support.broker.operator_views import explained
from support.broker.running_broker import RunningBroker
from support.broker.virtual_clients import consumer, publish, subscriber
from support.cores.messages import batch_of, with_priority


async def test_each_destination_is_named_with_the_filter_that_matched(broker: RunningBroker) -> None:
    await create(broker, "orders", subscriptions=["orders/>", "!orders/test/>"])
    direct = await broker.connect("direct")
    await direct.subscribe("orders/+", "orders/eu")
    guaranteed = await broker.connect("guaranteed")
    await guaranteed.subscribe("#", qos=1)
    worker = await broker.connect("worker", level=5)
    await worker.subscribe("$share/team/orders/#", qos=1)

    answer = await explained(broker, "orders/eu")

    assert answer.verdict == "accepted"
    found = sorted((each.kind, each.name, each.filter, each.verdict) for each in answer.destinations)
    assert found == [
        ("client", "direct", "orders/eu", "delivered"),
        ("client", "guaranteed", "#", "spooled"),
        ("queue", "orders", "orders/>", "spooled"),
        ("shared-group", "team", "orders/#", "spooled"),
    ]


async def test_an_exception_that_keeps_a_message_out_is_named(broker: RunningBroker) -> None:
    await create(broker, "orders", subscriptions=["orders/>", "!orders/test/>"])
    answer = await explained(broker, "orders/test/1")
    [destination] = answer.destinations
    assert (destination.verdict, destination.exception) == ("kept-out", "orders/test/>")
    assert (answer.verdict, answer.reason) == ("dropped", "503 No Subscription Match: nobody subscribes to the topic")


async def test_a_retained_message_and_a_client_that_is_away_are_seen(broker: RunningBroker) -> None:
    client = await broker.connect_durable("away")
    await client.subscribe("t")
    await client.publish("t", retain=True, qos=0)
    await client.message()
    await client.leave()
    answer = await explained(broker, "t", qos=0)
    assert answer.retained_now
    assert [(each.name, each.verdict) for each in answer.destinations] == [("away", "dropped")]
    assert answer.verdict == "dropped"


async def test_the_partition_of_a_key_is_the_one_it_then_gets(broker: RunningBroker) -> None:
    await create(broker, "orders", access_type="non-exclusive", partition_count=8, subscriptions=["t"])
    client = await broker.connect(level=5)
    view = NodeOperations(broker.node)
    for number in range(20):
        key = f"customer-{number}"
        [destination] = (await explained(broker, "t", key=key)).destinations
        await client.publish("t", key.encode(), properties=mqtt.user_property("JMSXGroupID", key))
        [message] = [each for each in await view.browse_queue("orders") if each.key == key]
        assert message.partition == destination.partition
        assert "among 8 partitions" in destination.partition_reason
    [destination] = (await explained(broker, "t")).destinations
    assert destination.partition is None


@pytest.mark.parametrize(
    ("attributes", "size", "priority", "refusing"),
    [
        ({}, 10, 4, None),
        ({"max_msg_size": 9}, 10, 4, "max_msg_size_exceeded"),
        ({"max_msg_spool_usage": 1}, (1 << 20) + 1, 4, "endpoint_usage_exceeded"),
        ({"ingress_enabled": False}, 1, 4, "endpoint_disabled"),
        ({"reject_low_priority_msg_enabled": True}, 1, 3, "low_priority_msg_congestion"),
        ({"reject_low_priority_msg_enabled": True}, 1, 4, None),
    ],
)
@pytest.mark.parametrize("behavior", ["never", "when-queue-enabled", "always"])
async def test_the_verdict_is_the_one_that_a_publish_then_gets(
    broker: RunningBroker, attributes: dict[str, object], size: int, priority: int, refusing: str | None, behavior: str
) -> None:
    """Solace 6.3 and 13.3, asked and then done."""
    if behavior == "never" and "reject_low_priority_msg_enabled" in attributes:
        return  # cannot be configured
    settings = {"reject_msg_to_sender_on_discard_behavior": behavior, **attributes}
    await create(broker, "q", subscriptions=["t"], **settings)
    client = await broker.connect(level=5)

    answer = await explained(broker, "t", size_bytes=size, priority=priority)
    code = await client.publish("t", bytes(size), properties=mqtt.user_property("priority", str(priority)))

    [destination] = answer.destinations
    assert next((each.check for each in destination.checks if each.refused), None) == refusing
    assert (answer.verdict == "refused") == (code >= 0x80)
    held = (await NodeOperations(broker.node).show_queue("q")).ready_count
    assert (answer.verdict == "accepted") == (held == 1)


async def test_the_checks_say_what_the_gate_says(broker: RunningBroker) -> None:
    """Goal: explain and admission cannot drift apart. Method: one limit after the other, both asked."""
    await create(broker, "q", subscriptions=["t"])
    gate: QueueGate = broker.node.default.space.route("t").queues[0].gate
    gate.low_priority_count_max = 0
    assert gate.spool is not None
    assert gate.spool.parent is not None
    message = with_priority(batch_of([b"123"]), 0)
    for holder, field, value in (
        (gate.spool.parent, "usage_count_max", 0),
        (gate, "usage_count_max", 0),
        (gate, "ingress_enabled", False),
        (gate, "message_bytes_max", 2),
        (gate, "usage_bytes_max", 2),
        (gate.spool, "usage_bytes_max", 2),
        (gate.spool.parent, "blocked", "the disk is full"),
    ):
        if holder is gate.spool:
            gate.spool.bound(2)
        else:
            setattr(holder, field, value)
        first = next(each.check for each in checks_of(gate, 3, 0) if each.refused)
        assert first == REFUSAL_COUNTERS[gate.verdict(message)]
    gate.spool.parent.blocked = ""  # the broker is to stop in good order


async def test_why_a_key_waits_follows_its_consumer(broker: RunningBroker) -> None:
    await create(broker, "orders", access_type="non-exclusive", partition_count=4, subscriptions=["t"])
    view = NodeOperations(broker.node)
    client = await broker.connect(level=5)
    key = mqtt.user_property("JMSXGroupID", "customer-7")
    for _ in range(3):
        await client.publish("t", properties=key)
    answer = await view.explain_key("orders", "customer-7")
    assert (answer.reason, answer.waiting_count, answer.client) == (WaitReason.NO_CONSUMER, 3, None)
    assert answer.first_waiting == f"{answer.partition}:1"

    worker = await broker.connect("worker", level=5, properties=mqtt.receive_maximum(1))
    await worker.subscribe("$queue/orders", qos=1)
    message = await worker.message()
    answer = await view.explain_key("orders", "customer-7")
    assert (answer.reason, answer.waiting_count, answer.in_flight_count) == (WaitReason.WINDOW_FULL, 2, 1)
    assert answer.client == "worker"

    worker.acknowledge(message)
    await worker.payloads(2)
    await worker.round_trip()
    answer = await view.explain_key("orders", "customer-7")
    assert (answer.reason, answer.waiting_count) == (WaitReason.NOTHING_WAITS, 0)


async def test_a_key_whose_consumer_has_gone_waits_for_the_holddown(broker: RunningBroker) -> None:
    """Solace 5.3: the owner may come back within the rebalance delay."""
    await create(
        broker,
        "orders",
        access_type="non-exclusive",
        partition_count=1,
        partition_rebalance_delay_s=3600,
        subscriptions=["t"],
    )
    worker = await broker.connect("worker", level=5)
    await worker.subscribe("$queue/orders", qos=1)
    second = await broker.connect("second", level=5)
    await second.publish("t", properties=mqtt.user_property("JMSXGroupID", "k"))
    await worker.message()
    await worker.unsubscribe("$queue/orders")
    await worker.round_trip()
    answer = await NodeOperations(broker.node).explain_key("orders", "k")
    assert answer.reason is WaitReason.HOLDDOWN
    assert answer.waiting_count == 1


async def test_a_message_for_a_queue_by_name_is_explained_without_topics(broker: RunningBroker) -> None:
    await create(broker, "q", max_msg_size=5, subscriptions=["a", "!b"])
    view = NodeOperations(broker.node)
    answer = await view.explain_publish(ExampleMessage(topic="", size_bytes=6), queue="q")
    assert (answer.verdict, answer.destinations[0].filter) == ("refused", "")
    with pytest.raises(QueueNotFound):
        await view.explain_publish(ExampleMessage(topic=""), queue="none")


@pytest.mark.settings(
    "virtual_destinations.composite_topics=[{name: in, forward_to: [{topic: VirtualTopic.O}, {queue: tap}, "
    "{queue: large, selector: 'amount > 10'}]}]"
)
async def test_each_step_is_named_with_its_definition_and_condition(broker: RunningBroker) -> None:
    await consumer(broker, "Consumer.A.VirtualTopic.O")
    await subscriber(broker, "VirtualTopic.O", qos=0)
    await create(broker, "never", subscriptions=["in"])
    answer = await explained(broker, "in", properties=(("amount", 11),))
    assert answer.verdict == "accepted"
    assert [(each.name, each.filter, each.verdict, each.reason) for each in answer.destinations] == [
        ("never", "in", "kept-out", "composite topic in has forward_only"),
        ("client-2", "composite topic in", "delivered", ""),
        ("Consumer.A.VirtualTopic.O", "composite topic in: virtual topic VirtualTopic.>", "spooled", ""),
        ("tap", "composite topic in", "spooled", ""),
        ("large", "composite topic in", "spooled", "the selector matches: amount > 10"),
    ]
    [*_, large] = (await explained(broker, "in")).destinations
    assert (large.name, large.verdict, large.reason) == (
        "large",
        "not-selected",
        "the selector does not match: amount > 10",
    )
    assert await publish(broker, "in", b"m") == [0]


async def test_a_queue_of_a_virtual_topic_says_whose_it_is(broker: RunningBroker) -> None:
    await consumer(broker, "Consumer.A.VirtualTopic.>")
    [view] = (await explained(broker, "VirtualTopic/O", key="k")).destinations
    assert (view.name, view.filter) == ("Consumer.A.VirtualTopic.>", "virtual topic VirtualTopic.>")
    assert [each for each in view.checks if each.refused] == []
