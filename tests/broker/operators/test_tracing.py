"""Traces of messages, from a publisher of one protocol to a consumer of another, as a collector receives them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import support.mqtt.packets as mqtt
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.protocols.amqp.codec.delivery_states import RELEASED, DeliveryState
from sluicegate.protocols.amqp.codec.sections import MESSAGE_ANNOTATIONS, NOWHERE, find_sections
from sluicegate.protocols.amqp.messages.decode import BODY_DATA, body_bytes_of
from sluicegate.protocols.amqp.types.decoding import decode
from sluicegate.protocols.amqp.types.encoding import encode
from sluicegate.protocols.amqp.types.values import AmqpMap, Symbol
from support.amqp.client import AmqpClient
from support.amqp.received import Received
from support.broker.named_queues import create, shows
from support.broker.running_broker import RunningBroker
from support.http.client import http_client
from support.mqtt.raw_client import RawClient
from support.operations.trace_collector import TraceCollector

USER_PROPERTY = 38
IMPLEMENTATION_ERROR = 0x83
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
SAMPLED = f"00-{TRACE}-{PARENT}-01"
NOT_SAMPLED = f"00-{TRACE}-{PARENT}-00"


@asynccontextmanager
async def traced(folder: Path, *settings: str) -> AsyncIterator[tuple[RunningBroker, TraceCollector]]:
    async with TraceCollector() as collector:
        on = ("tracing.enabled=true", f"tracing.endpoint={collector.endpoint}", "tracing.export_interval_ms=50")
        async with RunningBroker(folder / "data", (*on, *settings)) as broker:
            yield broker, collector


def context(traceparent: str = SAMPLED, tracestate: str = "") -> bytes:
    state = mqtt.user_property("tracestate", tracestate) if tracestate else b""
    return mqtt.user_property("traceparent", traceparent) + state + mqtt.user_property("baggage", "tenant=7")


def application_properties(received: Received) -> dict[object, object]:
    at = find_sections(received.message).application_at
    assert at != NOWHERE
    properties, _ = decode(received.message, at, len(received.message))
    assert isinstance(properties, AmqpMap)
    return dict(properties.pairs)


async def outcomes(device: RawClient, collector: TraceCollector) -> list[object]:
    """Return what the settlements of `q` were traced with, once a later trace is whole."""
    other = TRACE.replace("4", "5")
    await device.publish("rest", b"x", properties=context(SAMPLED.replace(TRACE, other)))
    await collector.story(other, "publish")
    return [each.attributes["sluicegate.outcome"] for each in collector.spans if each.name == "settle q"]


async def test_the_whole_story_from_an_mqtt_publisher_to_an_amqp_consumer(tmp_path: Path) -> None:
    """docs/operate/tracing.md: publish, spool, queue dwell, deliver and settle, below the publisher's span."""
    async with traced(tmp_path) as (broker, collector):
        await create(broker, subscriptions=["orders/>"])
        device = await broker.connect("device", level=5)
        await device.publish("orders/eu", b"one", qos=1, properties=context(tracestate="vendor=x"))
        consumer = await AmqpClient.open(broker.amqp_port, "billing")
        await consumer.receiver("l", "q", credit=10)
        (received,) = await consumer.deliveries(1)
        consumer.settle(received.delivery_id)
        await shows(broker, lambda view: view.unacked_count == 0 and view.ready_count == 0)

        story = await collector.story(TRACE, "publish", "spool", "dwell q", "deliver q", "settle q")

        carried = application_properties(received)
        assert (carried["traceparent"], carried["tracestate"], carried["baggage"]) == (SAMPLED, "vendor=x", "tenant=7")
        publish, spool, dwell = story["publish"], story["spool"], story["dwell q"]
        deliver, settle = story["deliver q"], story["settle q"]
        assert [each.parent_id for each in (publish, spool, dwell)] == [PARENT] * 3
        assert (deliver.parent_id, settle.parent_id) == (dwell.span_id, deliver.span_id)
        assert {each.service for each in story.values()} == {"sluicegate"}
        assert {each.tracestate for each in story.values()} == {"vendor=x"}
        assert publish.attributes["messaging.client.id"] == "device"
        assert publish.attributes["messaging.destination.name"] == "orders/eu"
        assert spool.attributes["sluicegate.spool.outcome"] == "written"
        assert dwell.attributes["messaging.destination.name"] == "q"
        assert deliver.attributes["messaging.client.id"] == "billing"
        assert deliver.attributes["network.protocol.name"] == "amqp"
        assert settle.attributes["sluicegate.outcome"] == "accepted"
        assert publish.began_ms <= dwell.ended_ms == deliver.began_ms == settle.began_ms <= settle.ended_ms
        await consumer.close()


async def test_a_rejected_message_is_followed_into_the_dead_message_queue(tmp_path: Path) -> None:
    async with traced(tmp_path) as (broker, collector):
        await create(broker, "#DEAD_MSG_QUEUE")
        await create(broker, subscriptions=["orders/>"])
        worker = await broker.connect("worker", level=5)
        await worker.subscribe("$queue/q", qos=1)
        await (await broker.connect(level=5)).publish("orders/eu", b"bad", properties=context())
        worker.send(mqtt.puback((await worker.message()).packet_id, IMPLEMENTATION_ERROR))
        undertaker = await broker.connect("undertaker", level=5)
        await undertaker.subscribe("$queue/#DEAD_MSG_QUEUE", qos=1)
        undertaker.acknowledge(await undertaker.message())

        story = await collector.story(TRACE, "settle q", "move q", "settle #DEAD_MSG_QUEUE")

        assert story["settle q"].attributes["sluicegate.outcome"] == "rejected"
        assert story["move q"].attributes["sluicegate.dead_reason"] == "rejected"
        assert story["move q"].attributes["messaging.destination.name"] == "#DEAD_MSG_QUEUE"
        assert story["settle #DEAD_MSG_QUEUE"].attributes["sluicegate.outcome"] == "accepted"


async def test_a_consumer_that_vanishes_gives_its_message_back(tmp_path: Path) -> None:
    async with traced(tmp_path) as (broker, collector):
        await create(broker, subscriptions=["orders/>"])
        worker = await broker.connect("worker", level=5)
        await worker.subscribe("$queue/q", qos=1)
        await (await broker.connect(level=5)).publish("orders/eu", b"x", qos=1, properties=context())
        await worker.message()
        await worker.vanish()

        story = await collector.story(TRACE, "settle q")

        assert story["settle q"].attributes["sluicegate.outcome"] == "given_back"


async def test_a_settlement_that_comes_too_late_is_not_traced_as_one(tmp_path: Path) -> None:
    """docs/operate/tracing.md: the outcome is what became of a delivery, whatever its consumer says later."""
    async with traced(tmp_path) as (broker, collector):
        await create(broker, subscriptions=["orders/>"], consumer_ack_timeout_ms=20, max_redelivery_count=1)
        worker = await broker.connect("worker", level=5)
        await worker.subscribe("$queue/q", qos=1)
        device = await broker.connect(level=5)
        await device.publish("orders/eu", b"x", qos=1, properties=context())
        first, again = await worker.message(), await worker.message()
        await shows(broker, lambda view: view.ready_count + view.unacked_count == 0)
        worker.acknowledge(first, again)
        await worker.round_trip()
        assert await outcomes(device, collector) == ["given_back", "given_back"]


async def test_a_late_settlement_does_not_end_the_trace_of_the_next_delivery(tmp_path: Path) -> None:
    """docs/operate/tracing.md: what a consumer says of a delivery that was late counts for nothing."""
    async with traced(tmp_path) as (broker, collector):
        await create(broker, subscriptions=["orders/>"], consumer_ack_timeout_ms=60_000)
        device = await broker.connect(level=5)
        await device.publish("orders/eu", b"x", qos=1, properties=context())
        worker = await AmqpClient.open(broker.amqp_port, "billing")
        await worker.receiver("l", "q", credit=10)
        late = await worker.delivery()
        broker.clock.forward(65)
        await shows(broker, lambda view: view.redelivered_total == 1)
        again = await worker.delivery()
        worker.settle(late.delivery_id)
        await worker.round_trip()
        worker.settle(again.delivery_id, again.delivery_id, DeliveryState(RELEASED))
        await worker.delivery()
        assert await outcomes(device, collector) == ["given_back", "released"]
        await worker.close()


async def test_the_sampled_flag_of_a_message_decides_whether_it_is_traced(tmp_path: Path) -> None:
    """OpenTelemetry's sampler parentbased_traceidratio; Trace Context 3.2.2.5.1, the flag `sampled`."""
    async with traced(tmp_path) as (broker, collector):
        await create(broker, subscriptions=["orders/>"])
        device = await broker.connect(level=5)
        await device.publish("orders/eu", b"no", qos=1, properties=context(NOT_SAMPLED))
        await device.publish("orders/eu", b"not valid", qos=1, properties=context(SAMPLED.upper()))
        other = TRACE.replace("4", "5")
        await device.publish("orders/eu", b"yes", qos=1, properties=context(SAMPLED.replace(TRACE, other)))

        await collector.story(other, "publish")

        assert {each.trace_id for each in collector.spans} == {other}


async def test_a_device_without_properties_begins_a_trace_that_its_consumer_goes_on_with(tmp_path: Path) -> None:
    """MQTT 3.1.1 has no place for a context: the gateway begins the trace, and the message carries it from there."""
    async with traced(tmp_path, "tracing.begin_traces=true") as (broker, collector):
        await create(broker, subscriptions=["orders/>"])
        worker = await broker.connect("worker", level=5)
        await worker.subscribe("$queue/q", qos=1)
        await (await broker.connect("device", level=4)).publish("orders/eu", b"x", qos=1)
        message = await worker.message()
        worker.acknowledge(message)

        pairs = [each for each in message.values(USER_PROPERTY) if isinstance(each, tuple)]
        version, trace_id, parent_id, flags = str(dict(pairs)["traceparent"]).split("-")
        story = await collector.story(trace_id, "publish", "settle q")

        assert (version, flags, message.payload) == ("00", "01", b"x")
        assert (story["publish"].span_id, story["publish"].parent_id) == (parent_id, "")
        assert story["dwell q"].parent_id == parent_id


async def test_contexts_are_headers_over_http_and_annotations_over_amqp(tmp_path: Path) -> None:
    """Trace Context 3.2 and 3.3, and W3C's Trace Context for AMQP, where who is on the way writes annotations."""
    async with traced(tmp_path) as (broker, collector):
        await create(broker, access_type="non-exclusive")  # the HTTP worker's flow outlives its connection
        sender = await AmqpClient.open(broker.amqp_port, "sender")
        await sender.sender("s", "q")
        noted = AmqpMap([(Symbol("traceparent"), SAMPLED)])
        sender.transfer(
            9, bytes((0x00, 0x53, MESSAGE_ANNOTATIONS)) + encode(noted) + body_bytes_of(BODY_DATA, b"from amqp")
        )
        await sender.confirmed()
        async with http_client(broker) as client:
            polled = await client.get("/QUEUE/q", params={"max": 1})
            assert polled.headers["traceparent"] == SAMPLED
            other = SAMPLED.replace(TRACE, TRACE.replace("4", "5"))
            several = [("Traceparent", other), ("Tracestate", "a=1"), ("tracestate", "b=2"), ("Baggage", "c=3")]
            await client.post("/QUEUE/q", content="from http", headers=several)
        consumer = await AmqpClient.open(broker.amqp_port, "consumer")
        await consumer.receiver("l", "q", credit=10)
        received = await consumer.delivery()
        carried = application_properties(received)
        assert (carried["traceparent"], carried["tracestate"], carried["baggage"]) == (other, "a=1,b=2", "c=3")

        story = await collector.story(TRACE, "publish", "deliver q")
        assert story["publish"].attributes["messaging.destination.name"] == "q"
        assert story["deliver q"].attributes["network.protocol.name"] == "http"
        await sender.close()
        await consumer.close()


async def test_topics_and_queues_that_are_not_named_are_not_traced(tmp_path: Path) -> None:
    settings = ('tracing.topics=["orders/>"]', 'tracing.queues=["pay*"]')
    async with traced(tmp_path, *settings) as (broker, collector):
        await create(broker, "pay-1", subscriptions=["orders/>", "other"])
        await create(broker, "rest", subscriptions=["orders/>", "other"])
        worker = await broker.connect("worker", level=5)
        await worker.subscribe("$queue/rest", "$queue/pay-1", qos=1)
        device = await broker.connect(level=5)
        await device.publish("other", b"-", qos=1, properties=context(SAMPLED.replace(TRACE, TRACE.replace("4", "5"))))
        await device.publish("orders/eu", b"-", qos=1, properties=context())
        worker.acknowledge(*await worker.messages(4))

        await collector.story(TRACE, "settle pay-1")

        assert {each.trace_id for each in collector.spans} == {TRACE}
        assert [each.name for each in collector.spans if each.name.endswith("rest")] == []


async def test_spans_that_a_collector_refuses_are_counted_and_do_no_harm(tmp_path: Path) -> None:
    async with TraceCollector(status=lambda _: 400) as collector:
        settings = (
            "tracing.enabled=true",
            f"tracing.endpoint={collector.endpoint}",
            "tracing.export_interval_ms=50",
            "tracing.buffer_records_max=100",
        )
        async with RunningBroker(tmp_path / "data", settings) as broker:
            device = await broker.connect(level=5)
            for number in range(300):  # in one read, and more than the buffer takes until it is emptied
                device.send(mqtt.publish(f"t/{number}", b"x", level=5, properties=context(_nth(number))))
            await device.round_trip()
            await collector.has(1)
            export = broker.node.trace_export
            assert export is not None
            while export.failed_count == 0:
                await device.round_trip()
            samples = {each.name: each.value for each in await NodeOperations(broker.node).metrics_snapshot()}
        assert samples["sluicegate_trace_spans_failed_total"] > 0
        assert samples["sluicegate_trace_spans_exported_total"] == 0
        assert export.buffer.dropped_count + export.failed_count == 300


def _nth(number: int) -> str:
    return f"00-{number + 1:032x}-{PARENT}-01"
