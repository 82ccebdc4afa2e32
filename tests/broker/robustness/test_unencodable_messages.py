"""A message that a protocol cannot encode for a consumer, by an internal error: only that message is lost to it."""

import asyncio

import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.messaging.observability.events import VPN_MESSAGE_UNWRITABLE
from sluicegate.protocols.flow.codec.frames.flow import Bind
from support.amqp.client import AmqpClient
from support.broker.inside_client import InsideClient
from support.broker.named_queues import shown, shows
from support.broker.running_broker import RunningBroker
from support.flow.client import FlowClient
from support.http.client import http_client, poll, settle
from support.mqtt.raw_client import DEADLINE_S

NO_UTF_8 = "q/\ud800"  # a lone surrogate has no bytes in any protocol


@pytest.fixture(autouse=True)
def expect_the_failure(caplog: pytest.LogCaptureFixture) -> None:
    """The node tells of the message, and of the connection that it cost."""
    told = ("cannot be written", "failed")
    caplog.handler.addFilter(lambda record: not any(words in record.getMessage() for words in told))


async def publish_three(broker: RunningBroker) -> None:
    """Make a queue with three messages, the second of which nobody can write."""
    broker.ignores_violations()
    inside = InsideClient(broker, "q")
    await inside.create(subscriptions=["q/>"])
    await inside.publish_on("q/a", NO_UTF_8, "q/b")


async def only_one_is_rejected(broker: RunningBroker) -> None:
    """The queue, the counters and operators know of one."""
    view = await shows(broker, lambda view: view.ready_count + view.unacked_count == 0)
    assert view.discards == {"rejected_discarded": 1}
    view_of_node = NodeOperations(broker.node)
    samples = await view_of_node.metrics_snapshot()
    dropped = [each for each in samples if each.name == "sluicegate_messages_dropped_total" and each.value]
    assert [(each.labels[-1], each.value) for each in dropped] == [("unwritable", 1)]
    events = await view_of_node.events(after=0, limit=1000)
    assert [each.event for each in events].count(VPN_MESSAGE_UNWRITABLE.name) == 1


async def until_rejected(broker: RunningBroker) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while (await shown(broker)).discards != {"rejected_discarded": 1}:
            await asyncio.sleep(0.01)


async def test_flow(broker: RunningBroker) -> None:
    """It costs the connection that it comes to first, and nobody else anything."""
    await publish_three(broker)
    first = FlowClient(broker.flow_port, name="first")
    await first.open()
    first.send(Bind(1, 1, "q", 0, 1000).encode())
    await first.ended()
    async with FlowClient(broker.flow_port, name="second") as client:
        flow_id = await client.binds("q")
        got = await client.receives_in_all(2, flow_id)
        assert [each.payload for each in got] == [b"0", b"2"]
        client.accepts_through(flow_id, 2)
        await only_one_is_rejected(broker)


async def test_amqp(broker: RunningBroker) -> None:
    await publish_three(broker)
    first = await AmqpClient.open(broker.amqp_port, "first")
    await first.receiver("l", "q", credit=10)
    await until_rejected(broker)
    first.vanish()
    client = await AmqpClient.open(broker.amqp_port, "second")
    await client.receiver("l", "q", credit=10)
    for delivery in await client.deliveries(2):
        client.settle(delivery.delivery_id)
    await only_one_is_rejected(broker)
    await client.close()


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("level", [4, 5])
@pytest.mark.parametrize("is_durable", [False, True])
async def test_mqtt(broker: RunningBroker, level: int, qos: int, is_durable: bool) -> None:
    """QoS 2 of a durable session goes out when the store has its packet ids, which is later."""
    await publish_three(broker)
    first = await (broker.connect_durable("first", level) if is_durable else broker.connect("first", level))
    first.send(mqtt.subscribe(("$queue/q", qos), level=level))
    await until_rejected(broker)
    second = await broker.connect("second", level)
    await second.subscribe("$queue/q", qos=qos)
    assert await second.payloads(2) == [b"0", b"2"]
    await only_one_is_rejected(broker)


@pytest.mark.parametrize("max_count", [1, 100])
async def test_http(broker: RunningBroker, max_count: int) -> None:
    """Here it costs not even the request: what stands beside it is in the answer."""
    await publish_three(broker)
    async with http_client(broker) as client:
        path, messages = await poll(client, "/QUEUE/q", max=max_count)
        while len(messages) < 2:
            messages += (await poll(client, path, max=max_count))[1]
        assert [each["payload"] for each in messages] == ["0", "2"]
        for each in messages:
            assert await settle(client, each["settle"]) == 204
    await only_one_is_rejected(broker)
