"""The figures of a whole node that displays query."""

from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.node.figures import QueuesQuery
from support.broker.message_usage import usage_of
from support.broker.named_queues import create
from support.broker.running_broker import RunningBroker


async def test_figures_of_queues_and_protocols_count_what_happens(broker: RunningBroker) -> None:
    await create(broker, subscriptions=["t"])
    view = NodeOperations(broker.node)
    before = await view.node_figures()
    worker = await broker.connect("worker", level=5)
    assert await worker.subscribe("$queue/q", qos=1) == [1]
    await worker.publish("t", b"12345", qos=1)
    await worker.message()

    (queue,) = (await view.queues_figures(QueuesQuery())).queues
    after = await view.node_figures()

    assert (queue.name, queue.flows_count, queue.accepted_total, queue.delivered_total) == ("q", 1, 1, 1)
    assert (queue.ready_count, queue.unacked_count, queue.spooled_bytes) == (0, 1, usage_of("t", b"12345"))
    mqtt = {each.protocol: each for each in after.protocols}["mqtt"]
    mqtt_before = {each.protocol: each for each in before.protocols}["mqtt"]
    assert mqtt.connections_count == mqtt_before.connections_count + 1
    assert mqtt.messages_received_total == mqtt_before.messages_received_total + 1
    assert after.at_ms >= before.at_ms
    assert before.process is not None
    assert after.process is not None
    assert before.process.memory_bytes > 1 << 20
    assert after.process.cpu_ms_total >= before.process.cpu_ms_total


async def test_queues_are_found_by_pattern_and_those_of_sessions_are_left_out(broker: RunningBroker) -> None:
    await create(broker, subscriptions=["t"])
    keeper = await broker.connect("keeper", clean_start=False)
    await keeper.subscribe("kept/#", qos=1)
    view = NodeOperations(broker.node)

    everything = await view.queues_figures(QueuesQuery())
    named = await view.queues_figures(QueuesQuery(is_named_only=True))
    none = await view.queues_figures(QueuesQuery(name="x*"))

    assert everything.total_count == 2
    assert [each.name for each in named.queues] == ["q"]
    assert (none.total_count, none.queues) == (0, ())
