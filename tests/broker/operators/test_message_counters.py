"""The message counters of `/metrics` agree with what happened: each message sent, dropped or written counts once."""

import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.node.figures import QueuesQuery
from sluicegate.messaging.message.batch import AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.outcomes import DISCARD_EXPIRED, DISCARD_REJECTED
from sluicegate.messaging.message.refusals import REFUSAL_COUNTERS, REFUSED_QUEUE_FULL
from sluicegate.messaging.observability.latency import BOUNDS_MS
from sluicegate.protocols.amqp.codec.termini import COPY, Source, Target
from sluicegate.protocols.amqp.messages.decode import BODY_DATA, body_bytes_of
from sluicegate.protocols.flow.codec import frame as frames
from sluicegate.protocols.flow.codec.frames.flow import Bind, Bound
from sluicegate.protocols.flow.codec.frames.settle import OUTCOME_ACCEPTED, OUTCOME_FAILED, OUTCOME_RELEASED
from sluicegate.protocols.flow.codec.frames.subscription import Subscribe, Subscribed
from support.amqp.client import AmqpClients
from support.broker.inside_client import InsideClient, until
from support.broker.message_usage import usage_of
from support.broker.named_queues import create, shows
from support.broker.running_broker import RunningBroker
from support.flow.bulk_client import BulkClient, rows_of
from support.flow.client import FlowClient
from support.http.client import LINES, event_stream, http_client

NO_LOCAL = 0x04  # in the options byte of a subscription


async def counted(broker: RunningBroker, name: str, *labels: str) -> float:
    """Return the value of a metric, without its message VPN."""
    samples = await NodeOperations(broker.node).metrics_snapshot()
    return sum([each.value for each in samples if each.name == f"sluicegate_{name}" and each.labels == labels])


async def test_the_usage_of_the_spool_is_shown_beside_its_quota(broker: RunningBroker) -> None:
    """Map and quota fill up each by its own measure, and either has publishers refused."""
    await create(broker, "q", subscriptions=["t"])
    publisher = await broker.connect("publisher", 5)
    await publisher.publish("t", bytes(1000), qos=1)
    assert await counted(broker, "spool_messages_bytes") == usage_of("t", bytes(1000))
    assert await counted(broker, "spool_messages_limit_bytes") == broker.config.spool.usage_bytes_max
    await NodeOperations(broker.node).purge_queue("q")
    assert await counted(broker, "spool_messages_bytes") == 0


@pytest.mark.parametrize("qos", [0, 1])
async def test_no_local_messages_do_not_count_as_sent(broker: RunningBroker, qos: int) -> None:
    """[3.8.3-3]."""
    client, other = await broker.connect("client", 5), await broker.connect("other", 5)
    await client.subscribe(("t", qos | NO_LOCAL))
    for publisher in (client, client, other):
        await publisher.publish("t", b"x", qos=qos)
    await client.messages(1)
    await client.round_trip()
    assert await counted(broker, "messages_received_total", "mqtt") == 3
    assert await counted(broker, "messages_sent_total", "mqtt") == 1


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_a_message_too_large_for_a_client_counts_as_dropped_and_not_as_sent(
    broker: RunningBroker, qos: int
) -> None:
    """[3.1.2-25]."""
    client = await broker.connect_durable("client", properties=mqtt.maximum_packet_size(100))
    await client.subscribe("t", qos=qos)
    publisher = await broker.connect("publisher")
    for size in (10, 1000, 10):
        await publisher.publish("t", bytes(size), qos=qos)
    await client.messages(2)
    assert await counted(broker, "messages_sent_total", "mqtt") == 2
    assert await counted(broker, "messages_dropped_total", "packet_too_large") == 1


async def test_browsed_messages_count_as_sent_in_every_protocol(broker: RunningBroker, amqp: AmqpClients) -> None:
    orders = InsideClient(broker, "orders")
    await orders.create()
    await orders.publish(b"a", b"b", b"c")
    async with http_client(broker) as http:
        lines = await http.get("/QUEUE/orders", params={"browse": "true"}, headers=LINES)
        assert len(lines.text.splitlines()) == 3
        async with event_stream(http, "/QUEUE/orders", browse="true") as events:
            for _ in range(3):
                await events.next("message")
    looking = await amqp.connect()
    await looking.receiver("look", Source("orders", distribution_mode=COPY), credit=10)
    await looking.deliveries(3)
    async with FlowClient(broker.flow_port) as client:
        flow_id, request_id = client.ids()
        client.send(Bind(flow_id, request_id, "orders", 0, 1000, browses=True).encode())
        await client.heard(Bound)
        await client.receives_in_all(3, flow_id)
    sent = [await counted(broker, "messages_sent_total", protocol) for protocol in ("http", "amqp", "flow")]
    assert sent == [6, 3, 3]


async def test_a_batch_that_is_written_counts_by_its_messages(broker: RunningBroker) -> None:
    orders = InsideClient(broker, "orders")
    await orders.create()
    await orders.publish(b"a", b"b", b"c")
    await orders.publish(b"d")
    assert await counted(broker, "spool_messages_written_total") == 4
    assert await counted(broker, "queue_messages_accepted_total", "orders") == 4
    consumer = await orders.consume_all()
    assert len(consumer.got) == 4
    assert await counted(broker, "queue_messages_delivered_total", "orders") == 4
    assert await counted(broker, "queue_messages_settled_total", "orders") == 4
    assert await counted(broker, "queue_messages_redelivered_total", "orders") == 0


async def test_a_message_that_dies_counts_in_both_queues_and_not_as_settled(broker: RunningBroker) -> None:
    await create(broker, "dead")
    await create(broker, "orders", subscriptions=["t"], dead_msg_queue="dead", max_redelivery_count=1)
    publisher = await broker.connect("publisher", 5)
    await publisher.publish("t", b"x", qos=1)
    worker = await broker.connect("worker", 5)
    await worker.subscribe("$queue/orders", qos=1)
    message = await worker.message()
    worker.send(mqtt.puback(message.packet_id, 0x80))
    await worker.subscribe("$queue/dead", qos=1)
    await worker.messages(1)
    await worker.round_trip()

    async def is_moved() -> bool:
        return await counted(broker, "queue_messages_to_dmq_total", "orders", DISCARD_REJECTED) == 1

    await until(is_moved, "the word of the store that the message has moved")
    assert await counted(broker, "queue_messages_settled_total", "orders") == 0
    assert await counted(broker, "queue_messages_accepted_total", "dead") == 1
    assert await counted(broker, "queue_messages_settled_total", "dead") == 1
    assert await counted(broker, "messages_sent_total", "mqtt") == 2
    (figures,) = (await NodeOperations(broker.node).queues_figures(QueuesQuery(name="orders"))).queues
    assert (figures.discarded_total, figures.to_dmq_total) == (0, 1)


async def test_the_figures_of_a_queue_show_what_its_metric_of_discarded_messages_counts(broker: RunningBroker) -> None:
    await create(broker, "orders", subscriptions=["t"], max_redelivery_count=1, dead_msg_queue="")
    publisher = await broker.connect("publisher", 5)
    await publisher.publish("t", b"x", qos=1)
    worker = await broker.connect("worker", 5)
    await worker.subscribe("$queue/orders", qos=1)
    message = await worker.message()
    worker.send(mqtt.puback(message.packet_id, 0x80))
    await worker.round_trip()

    assert await counted(broker, "queue_messages_discarded_total", "orders", DISCARD_REJECTED) == 1
    (figures,) = (await NodeOperations(broker.node).queues_figures(QueuesQuery(name="orders"))).queues
    assert (figures.discarded_total, figures.to_dmq_total) == (1, 0)


async def test_only_what_a_consumer_accepts_counts_as_settled(broker: RunningBroker) -> None:
    await create(broker, "orders", subscriptions=["t"])
    publisher = await broker.connect("publisher")
    await publisher.publish("t", b"x", qos=1)
    async with FlowClient(broker.flow_port) as client:
        flow_id = await client.binds("orders")
        for delivery_id, outcome in enumerate((OUTCOME_RELEASED, OUTCOME_FAILED, OUTCOME_ACCEPTED), 1):
            await client.receives_in_all(1, flow_id)
            client.settles(flow_id, delivery_id, delivery_id, outcome)
        await shows(broker, lambda view: view.ready_count + view.unacked_count == 0, "orders")
    assert await counted(broker, "queue_messages_delivered_total", "orders") == 3
    assert await counted(broker, "queue_messages_settled_total", "orders") == 1


@pytest.mark.settings("virtual_destinations.composite_topics=[{name: all, forward_to: [{queue: a}, {queue: b}]}]")
async def test_a_message_to_a_composite_counts_once_as_received_and_once_for_each_queue(
    broker: RunningBroker,
) -> None:
    async with FlowClient(broker.flow_port) as client:
        opened = await client.opens_publisher()
        client.publishes(opened.flow_id, [1, 2, 3], topic="all")
        await client.answered(opened.flow_id, 3)
    assert await counted(broker, "messages_received_total", "flow") == 3
    for queue in ("a", "b"):
        assert await counted(broker, "queue_messages_accepted_total", queue) == 3


async def test_staged_messages_count_as_received_when_they_are_committed(broker: RunningBroker) -> None:
    """Each once, however often its commit is asked for; what is not committed was not published."""
    await create(broker)
    async with BulkClient(broker.flow_port) as client:
        await client.stages("t", 0, rows_of(["q"] * 3, [b"1", b"2", b"3"]), 3, to_queues=True)
        await client.stages("t", 0, rows_of(["q"] * 2, [b"1", b"2"]), 2, to_queues=True, attempt=1)
        assert await counted(broker, "messages_received_total", "flow") == 0
        for _ in range(2):
            await client.commits("t", (0, 1))
    assert await counted(broker, "messages_received_total", "flow") == 2
    assert await counted(broker, "queue_messages_accepted_total", "q") == 2


async def test_bulk_reads_count_as_sent_and_not_as_delivered(broker: RunningBroker) -> None:
    orders = InsideClient(broker, "q")
    await orders.create()
    await orders.publish(b"a", b"b", b"c")
    async with BulkClient(broker.flow_port) as client:
        for _ in range(2):
            assert await client.reads() == [b"a", b"b", b"c"]
    assert await counted(broker, "messages_sent_total", "flow") == 6
    assert await counted(broker, "queue_messages_delivered_total", "q") == 0


@pytest.mark.parametrize("target", [Target("q"), Target(None)], ids=["no message", "to nobody"])
async def test_an_invalid_presettled_message_counts_as_dropped(
    broker: RunningBroker, amqp: AmqpClients, target: Target
) -> None:
    await create(broker)
    client = await amqp.connect()
    await client.sender("out", target)
    client.transfer(9, b"\xff" if target.address else body_bytes_of(BODY_DATA, b"m"), settled=True)
    await client.round_trip()
    assert await counted(broker, "messages_dropped_total", "invalid_message") == 1


async def test_a_direct_message_that_has_expired_is_dropped_and_not_sent(broker: RunningBroker) -> None:
    """It may have waited for this client's turn for longer than it lives."""
    async with FlowClient(broker.flow_port) as client:
        _, request_id = client.ids()
        client.send(Subscribe(frames.SUBSCRIBE, request_id, "t", (), "").encode())
        await client.heard(Subscribed)
        (connection,) = broker.node.flow.open_connections()
        batch = MessageBatch(
            topic="t",
            topics=None,
            payloads=[b"late", b"in time"],
            headers=[Headers(expires_at_ms=1), None],
            qos=AT_MOST_ONCE,
            retain=False,
            publisher="p",
            received_ms=0,
            payload_bytes=11,
        )
        connection.receive(batch)
        connection.turn_ended()
        assert [each.payload for each in await client.receives_in_all(1, 0)] == [b"in time"]
    assert await counted(broker, "messages_sent_total", "flow") == 1
    assert await counted(broker, "messages_dropped_total", DISCARD_EXPIRED) == 1


async def test_an_actor_counts_what_other_actors_have_sent_it(broker: RunningBroker) -> None:
    """A hundred messages that a client has published in one write are one message to the partition."""
    await create(broker)
    async with FlowClient(broker.flow_port) as client:
        opened = await client.opens_publisher()
        before = await counted(broker, "actor_messages_handled_total", "partition")
        client.publishes(opened.flow_id, list(range(1, 101)), queue="q")
        await client.answered(opened.flow_id, 100)
    assert 1 <= await counted(broker, "actor_messages_handled_total", "partition") - before < 100


async def test_counters_of_sessions_do_not_fall_when_sessions_end(broker: RunningBroker) -> None:
    """Goal: a counter that falls counts as one that began anew, and its whole rest as new. Method: one of two ends."""
    stays, goes = [await broker.connect(name, 5) for name in ("stays", "goes")]
    publisher = await broker.connect("publisher")
    for client in (stays, goes):
        await client.subscribe("t", qos=1)
    await publisher.publish("t", b"x", qos=1)
    for client in (stays, goes):
        await client.messages(1)
        await client.round_trip()
    names = [f"queue_messages_{name}_total" for name in ("accepted", "delivered", "settled")]
    assert [await counted(broker, name, "#sessions") for name in names] == [2, 2, 2]
    handled = await counted(broker, "actor_messages_handled_total", "partition")
    queues = await counted(broker, "queues")
    await goes.leave()

    async def one_is_gone() -> bool:
        return await counted(broker, "queues") == queues - 1

    await until(one_is_gone, "the end of the session's queue")
    assert [await counted(broker, name, "#sessions") for name in names] == [2, 2, 2]
    assert await counted(broker, "actor_messages_handled_total", "partition") >= handled > 0


async def test_refusals_of_a_queue_stay_counted_when_it_is_deleted(broker: RunningBroker) -> None:
    orders = InsideClient(broker, "orders")
    await orders.create()
    gate = (await orders.handle()).target.gate
    gate.refuse(REFUSED_QUEUE_FULL, 3, hears=True)
    gate.refuse(REFUSED_QUEUE_FULL, 2, hears=False)
    reason = REFUSAL_COUNTERS[REFUSED_QUEUE_FULL]
    assert await counted(broker, "messages_refused_total", reason) == 3
    assert await counted(broker, "messages_dropped_total", reason) == 2
    await orders.delete()
    assert await counted(broker, "messages_refused_total", reason) == 3
    assert await counted(broker, "messages_dropped_total", reason) == 2


async def test_latencies_are_histograms_of_messages(broker: RunningBroker, amqp: AmqpClients) -> None:
    """From publish to confirmation by protocol, and to the first delivery; a redelivery does not count."""
    await create(broker, "orders", subscriptions=["t"])
    publisher = await broker.connect("publisher", 5)
    await publisher.publish("t", b"mqtt", qos=1)
    sender = await amqp.connect()
    await sender.sender("send", Target("orders"))
    await sender.outcome(sender.transfer(9, body_bytes_of(BODY_DATA, b"m")))
    async with http_client(broker) as http:
        assert (await http.post("/QUEUE/orders", content=b"http")).status_code == 200
    broker.forward(30)
    worker = await broker.connect("worker", 5)
    await worker.subscribe("$queue/orders", qos=1)
    for _ in range(3):
        await worker.message()
    await worker.vanish()
    again = await broker.connect("again", 5)
    await again.subscribe("$queue/orders", qos=1)
    await again.messages(3)
    samples = await NodeOperations(broker.node).metrics_snapshot()
    confirmed = {each.labels: sum(each.counts) for each in samples if "to_confirmation" in each.name}
    assert confirmed == {("mqtt",): 1, ("amqp",): 1, ("http",): 1, ("flow",): 0}
    (delivered,) = [each for each in samples if "to_delivery" in each.name]
    assert sum(delivered.counts) == 3
    assert delivered.counts[BOUNDS_MS.index(60_000)] == 3
    assert 90 <= delivered.value < 180
