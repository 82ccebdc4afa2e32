"""Events of a node reach their watchers: MQTT subscribers, queues, and the admin port."""

import asyncio

import pytest

from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.messaging.observability.events import BURST, CLIENT_CONNECTED
from support.broker.running_broker import RunningBroker
from support.mqtt.packets import Published
from support.mqtt.raw_client import DEADLINE_S, RawClient


def told(message: Published) -> tuple[str, str]:
    return message.topic, message.payload.decode()


async def create(broker: RunningBroker, name: str, **attributes: object) -> None:
    await NodeOperations(broker.node).create_queue({"name": name, **attributes})


async def events_named(client: RawClient, name: str) -> list[str]:
    """The texts of the events that have come, when the one that is waited for is among them."""
    texts = []
    while True:
        message = await client.message()
        texts.append(message.payload.decode())
        if f"/{name}" in message.topic:
            return texts


async def test_an_mqtt_subscriber_hears_of_queues(broker: RunningBroker) -> None:
    """Solace 9.5: the MQTT form of an event's topic."""
    watcher = await broker.connect("watcher")
    await watcher.subscribe("$SYS/LOG/+/VPN/#")

    await create(broker, "orders")
    assert told(await watcher.message()) == (
        "$SYS/LOG/INFO/VPN/sluicegate/VPN_AD_QENDPT_CREATE/default",
        "VPN: VPN_AD_QENDPT_CREATE: default - Queue orders created",
    )
    await NodeOperations(broker.node).delete_queue("orders")
    assert told(await watcher.message())[1] == "VPN: VPN_AD_QENDPT_DELETE: default - Queue orders deleted"


@pytest.mark.settings("events.publish_client=true")
async def test_an_mqtt_subscriber_hears_of_clients_where_that_is_wanted(broker: RunningBroker) -> None:
    watcher = await broker.connect("watcher")
    await watcher.subscribe("$SYS/LOG/+/CLIENT/+/+/default/+")
    await create(broker, "orders", max_bind_count=1)

    device = await broker.connect("device/1", level=5)
    await device.subscribe("$queue/orders", qos=1)
    late = await broker.connect("late", level=5)
    assert await late.subscribe("$queue/orders", qos=1) == [0x97]
    await device.leave()

    texts = await events_named(watcher, "CLIENT_CLIENT_DISCONNECT/default/device%2F1")
    names = [text.split(": ")[1] for text in texts]
    assert names[:4] == [
        "CLIENT_CLIENT_CONNECT",
        "CLIENT_CLIENT_BIND_SUCCESS",
        "CLIENT_CLIENT_CONNECT",
        "CLIENT_CLIENT_BIND_FAILED",
    ]
    assert "late bind to queue orders failed: 503 Max clients exceeded for Queue" in texts[3]


@pytest.mark.settings("events.publish_client=true")
async def test_a_publisher_flow_opens_with_the_first_guaranteed_message_of_a_connection(broker: RunningBroker) -> None:
    """Solace 9.5: CLIENT_CLIENT_OPEN_FLOW, CLIENT_CLIENT_CLOSE_FLOW."""
    watcher = await broker.connect("watcher")
    await watcher.subscribe("$SYS/LOG/+/CLIENT/+/+/default/device")
    device = await broker.connect("device", level=5)
    for qos in (0, 1, 2, 1):
        await device.publish("t", qos=qos)
    await device.leave()

    texts = await events_named(watcher, "CLIENT_CLIENT_DISCONNECT/")

    assert [text.split(": ")[1] for text in texts] == [
        "CLIENT_CLIENT_CONNECT",
        "CLIENT_CLIENT_OPEN_FLOW",
        "CLIENT_CLIENT_CLOSE_FLOW",
        "CLIENT_CLIENT_DISCONNECT",
    ]
    assert texts[1].endswith("default device publisher flow opened")


async def test_events_of_clients_stay_off_the_bus_unless_wanted(broker: RunningBroker) -> None:
    watcher = await broker.connect("watcher")
    await watcher.subscribe("$SYS/LOG/#")
    await broker.connect("another")
    await watcher.is_quiet()


async def test_a_wildcard_of_mqtt_never_brings_an_event(broker: RunningBroker) -> None:
    """[4.7.2-1], and `#LOG/...` is no topic that an MQTT client may be sent [3.3.2-2]."""
    watcher = await broker.connect("watcher")
    await watcher.subscribe("#", "+/INFO/#")
    await create(broker, "orders")
    await watcher.is_quiet()


async def test_a_queue_collects_events(broker: RunningBroker) -> None:
    await create(broker, "ops", subscriptions=["#LOG/>"])
    await create(broker, "orders")
    view = NodeOperations(broker.node)
    async with asyncio.timeout(DEADLINE_S):
        while (await view.show_queue("ops")).ready_count == 0:
            await asyncio.sleep(0.01)
    [message] = await view.browse_queue("ops")
    assert message.topic == "#LOG/INFO/VPN/sluicegate/VPN_AD_QENDPT_CREATE/default"


async def test_operators_see_recent_events_and_how_many_there_were(broker: RunningBroker) -> None:
    await create(broker, "orders")
    view = NodeOperations(broker.node)
    events = await view.events(after=0, limit=10)
    assert [each.event for each in events] == ["SYSTEM_SYSTEM_STARTUP_COMPLETE", "VPN_AD_QENDPT_CREATE"]
    assert await view.events(after=events[0].number, limit=10) == events[1:]
    assert await view.events(after=0, limit=1) == events[1:]
    samples = {(each.name, each.labels): each.value for each in await view.metrics_snapshot()}
    assert samples["sluicegate_events_total", ("VPN_AD_QENDPT_CREATE",)] == 1


async def test_a_flood_of_events_is_cut_and_counted(broker: RunningBroker) -> None:
    emitter = broker.node.services.runtime.events
    for _ in range(3 * BURST):
        emitter.emit(CLIENT_CONNECTED, "again", client="device")
    name, record = CLIENT_CONNECTED.name, emitter.record
    assert record.counts[name] + record.suppressed[name] == 3 * BURST
    assert record.suppressed[name] > 0
