"""Traces that go on across a link."""

from pathlib import Path

import pytest

import support.mqtt.packets as mqtt
from support.broker.linked_brokers import Brokers, until
from support.broker.named_queues import create
from support.operations.trace_collector import TraceCollector

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
CONTEXT = mqtt.user_property("traceparent", f"00-{TRACE}-{PARENT}-01")


def traced(collector: TraceCollector, name: str) -> tuple[str, ...]:
    return (
        "tracing.enabled=true",
        f"tracing.endpoint={collector.endpoint}",
        "tracing.export_interval_ms=50",
        f"tracing.service_name={name}",
    )


async def test_a_guaranteed_message_is_traced_from_its_publisher_to_a_queue_of_the_neighbor(tmp_path: Path) -> None:
    async with TraceCollector() as collector, Brokers(tmp_path) as brokers:
        await brokers.pair(a=traced(collector, "here"), b=traced(collector, "there"))
        await brokers.are_linked()
        await create(brokers["b"], "q", subscriptions=["t"])
        await until(lambda: brokers["a"].wants("b") == {"t"})
        publisher = await brokers["a"].connect("publisher", 5)
        await publisher.publish("t", b"m", qos=1, properties=CONTEXT)
        consumer = await brokers["b"].connect("consumer", 5)
        await consumer.subscribe("$queue/q", qos=1)
        consumer.acknowledge(await consumer.message())

        names = ("publish", "dwell #link/b", "deliver #link/b", "settle #link/b")
        story = await collector.story(TRACE, *names, "arrive a", "dwell q", "deliver q", "settle q")
        assert {name: story[name].service for name in ("publish", "arrive a")} == {
            "publish": "here",
            "arrive a": "there",
        }
        assert [story[name].parent_id for name in ("publish", "arrive a", "dwell #link/b", "dwell q")] == [PARENT] * 4
        assert story["arrive a"].attributes["sluicegate.neighbor"] == "a"
        assert story["arrive a"].attributes["messaging.client.id"] == "publisher"


@pytest.mark.parametrize("is_on", [True, False])
async def test_a_direct_message_is_traced_where_it_arrives(tmp_path: Path, is_on: bool) -> None:
    """Each broker decides by the context: one that records no traces passes it on all the same."""
    async with TraceCollector() as collector, Brokers(tmp_path) as brokers:
        await brokers.pair(a=traced(collector, "here") if is_on else (), b=traced(collector, "there"))
        await brokers.are_linked()
        subscriber = await brokers["b"].connect("subscriber", 5)
        await subscriber.subscribe("t")
        await until(lambda: brokers["a"].wants("b") == {"t"})
        publisher = await brokers["a"].connect("publisher", 5)
        await publisher.publish("t", b"m", qos=0, properties=CONTEXT)
        assert (await subscriber.message()).payload == b"m"

        story = await collector.story(TRACE, "arrive a", *(["publish"] if is_on else []))
        assert story["arrive a"].service == "there"
