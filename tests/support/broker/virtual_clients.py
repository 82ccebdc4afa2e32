"""Clients of virtual destinations: MQTT 5 on both sides, messages with properties."""

import support.mqtt.packets as mqtt
from sluicegate.gateway.config.load import load
from support.broker.named_queues import shown
from support.broker.running_broker import RunningBroker
from support.mqtt.raw_client import RawClient

USER_PROPERTY = 38


async def consumer(broker: RunningBroker, queue: str, selector: str = "", *, client_id: str = "") -> RawClient:
    """Attach a consumer to a queue, which may be made for it."""
    client = await broker.connect(client_id, level=5)
    properties = mqtt.user_property("selector", selector) if selector else b""
    assert await client.subscribe(f"$queue/{queue}", qos=1, properties=properties) == [1]
    return client


async def subscriber(broker: RunningBroker, *filters: str, qos: int = 1) -> RawClient:
    """Subscribe a client to topics."""
    client = await broker.connect(level=5)
    assert await client.subscribe(*filters, qos=qos) == [qos] * len(filters)
    return client


async def publish(broker: RunningBroker, topic: str, *payloads: bytes, qos: int = 1, **properties: str) -> list[int]:
    """Publish messages one after the other; return the reason codes."""
    client = await broker.connect(level=5)
    section = b"".join([mqtt.user_property(name.replace("_", "-"), value) for name, value in properties.items()])
    codes = [await client.publish(topic, payload, qos=qos, properties=section) for payload in payloads]
    await client.vanish()
    return codes


async def depth(broker: RunningBroker, queue: str) -> int:
    """Return the number of messages in a queue, in flight or not."""
    view = await shown(broker, queue)
    return view.ready_count + view.unacked_count


def marks(message: mqtt.Published) -> dict[str, str]:
    """Return the user properties of a message whose names begin as the broker's do."""
    pairs = [pair for pair in message.values(USER_PROPERTY) if isinstance(pair, tuple)]
    return {name: value for name, value in pairs if name.startswith("x-opt-")}


async def redefine(broker: RunningBroker, *settings: str) -> None:
    """Have a running broker take over a changed configuration, as SIGHUP does."""
    await broker.node.reload(load(None, settings=[*broker.settings, *settings]))
