"""What a connection held is free when it closes, and need not wait for the cycle collector, which hardly ever looks.

A node's collector goes through what has been there for long once in a billion objects (`gateway.process`): a connection
in a cycle would stay until then.
"""

import asyncio
import gc
from collections.abc import Iterator
from typing import Final

import pytest

import mqtt_packets as mqtt
from actors.cell import ActorCell
from raw_client import DEADLINE_S
from running_broker import RunningBroker

KINDS: Final = ("MqttConnection", "MqttEngine", "DeliveringSide", "PublishingSide", "Session", "Stream")
CELL: Final = "cell"  # of a connection


def there() -> dict[str, int]:
    """Return how many objects there are of each kind that connections are made of."""
    objects = gc.get_objects()
    names = [type(each).__name__ for each in objects]
    cells = [each for each in objects if isinstance(each, ActorCell) and each.kind == "connection"]
    return {kind: names.count(kind) for kind in KINDS} | {CELL: len(cells)}


def left(before: dict[str, int]) -> dict[str, int]:
    """Return how many more there are than before."""
    return {kind: count - before[kind] for kind, count in there().items() if count > before[kind]}


@pytest.fixture
def before(broker: RunningBroker) -> Iterator[dict[str, int]]:
    """Have the collector rest; return what there was."""
    gc.collect()
    gc.disable()
    yield there()
    gc.enable()


async def all_gone(before: dict[str, int]) -> None:
    """Nothing is left of clients that are gone."""
    try:
        async with asyncio.timeout(DEADLINE_S):
            while left(before):
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"what is left: {left(before)}") from None


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_an_mqtt_client_that_published_and_consumed(
    broker: RunningBroker, before: dict[str, int], qos: int
) -> None:
    client = await broker.connect("client")
    await client.subscribe("t", "$share/g/s", qos=qos)
    await client.publish("t", b"1", qos=qos, retain=True)
    message = await client.message()
    if qos == 1:
        client.acknowledge(message)
    elif qos == 2:
        client.send(mqtt.pubrec(message.packet_id))
        await client.answered(mqtt.PUBREL, message.packet_id)
        client.send(mqtt.pubcomp(message.packet_id))
    await client.subscribe("+", qos=qos)
    await client.message()
    await client.leave()
    await all_gone(before)


async def test_an_mqtt_client_that_vanishes_with_messages_unanswered(
    broker: RunningBroker, before: dict[str, int]
) -> None:
    client = await broker.connect("client")
    await client.subscribe("t", qos=2)
    await client.publish("t", b"1", qos=1)
    await client.message()
    await client.vanish()
    await all_gone(before)


async def test_a_client_that_leaves_with_its_last_answer(broker: RunningBroker, before: dict[str, int]) -> None:
    """What was to be written at the end of the turn is written by whoever has the session then."""
    client = await broker.connect_durable("client")
    await client.subscribe("t", qos=2)
    await client.publish("t", b"1", qos=2)
    message = await client.message()
    client.send(mqtt.pubrec(message.packet_id) + mqtt.disconnect())
    await client.is_closed()
    await (await broker.connect("client")).leave()  # which ends its session
    await all_gone(before)


async def test_a_client_that_names_a_method_of_authentication(broker: RunningBroker, before: dict[str, int]) -> None:
    client = await broker.open(5)
    client.send(mqtt.connect("client", level=5, properties=mqtt.authentication_method("unheard-of")))
    await client.is_refused(0x8C)
    await all_gone(before)


async def test_a_client_whose_session_another_connection_takes(broker: RunningBroker, before: dict[str, int]) -> None:
    first = await broker.connect_durable("client")
    await first.subscribe("t", "$share/g/s", qos=2)
    second = await broker.connect_durable("client")
    await first.is_ended(0x8E)
    await second.leave()
    await (await broker.connect("client")).leave()  # which ends its session
    await all_gone(before)
