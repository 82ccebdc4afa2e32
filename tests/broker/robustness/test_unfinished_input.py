"""Input that clients began and did not finish: one limit bounds it over all clients and protocols."""

import asyncio
from collections.abc import Callable

import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.config.load import load
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.protocols.amqp.types import errors as conditions
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.transport.unfinished import COUNTER
from support.broker.operator_views import event_texts
from support.broker.running_broker import RunningBroker
from support.hostile.unfinished_senders import (
    AmqpSender,
    FlowSender,
    HttpSender,
    MqttSender,
    UnfinishedSender,
    WebSocketSender,
)
from support.mqtt.raw_client import DEADLINE_S, RawClient

KIB = 1 << 10
MUCH = 600 * KIB
QUOTA_EXCEEDED = 0x97
TRY_AGAIN_LATER = 1013

pytestmark = [pytest.mark.settings("backpressure.unfinished_bytes_max=1 MiB")]

PORTS: dict[type[UnfinishedSender], Callable[[RunningBroker], int]] = {
    MqttSender: lambda broker: broker.port,
    WebSocketSender: lambda broker: broker.websocket_port,
    AmqpSender: lambda broker: broker.amqp_port,
    FlowSender: lambda broker: broker.flow_port,
    HttpSender: lambda broker: broker.node.http.listeners["http"].port,
}
ENDINGS = [
    (MqttSender, QUOTA_EXCEEDED),
    (WebSocketSender, TRY_AGAIN_LATER),
    (AmqpSender, conditions.RESOURCE_LIMIT_EXCEEDED),
    (FlowSender, codes.LIMIT_EXCEEDED),
    (HttpSender, (503, True)),
]
EACH = pytest.mark.parametrize(("kind", "ending"), ENDINGS, ids=lambda value: getattr(value, "__name__", ""))


async def held(broker: RunningBroker, bytes_min: int, bytes_max: int = 1 << 40) -> None:
    """Wait until the broker counts so many bytes as unfinished."""
    async with asyncio.timeout(DEADLINE_S):
        while not bytes_min <= broker.node.services.unfinished.used_bytes <= bytes_max:
            await asyncio.sleep(0.01)


async def half_sent(client: RawClient) -> Callable[[], None]:
    """Send the larger half of a packet of 1000 KiB; return what sends the rest."""
    packet = mqtt.publish("t", bytes(1000 * KIB), level=client.level, qos=1, packet_id=1)
    client.send(packet[:MUCH])
    return lambda: client.send(packet[MUCH:])


@EACH
async def test_a_client_that_stopped_sending_makes_room_for_another(
    broker: RunningBroker, kind: type[UnfinishedSender], ending: object
) -> None:
    """In the words of its protocol, counted and told; the other one's message is taken."""
    broker.ignores_violations()
    stopped = await kind.open(PORTS[kind](broker))
    await stopped.sends(MUCH)
    await held(broker, MUCH)
    client = await broker.connect(level=5)
    send_rest = await half_sent(client)
    assert await stopped.ending() == ending
    send_rest()
    assert await client.answered(mqtt.PUBACK, 1) in (0, 0x10)
    await held(broker, 0, 0)
    samples = {(each.name, each.labels): each.value for each in await NodeOperations(broker.node).metrics_snapshot()}
    assert samples["sluicegate_unfinished_ended_total", ()] == 1
    assert samples["sluicegate_unfinished_limit_bytes", ()] == 1 << 20
    if kind is not WebSocketSender:  # what ended there was never one of MQTT
        protocol = kind.__name__.removesuffix("Sender").lower()
        assert samples["sluicegate_connections_failed_total", (protocol, COUNTER)] == 1
    assert await event_texts(broker, "SYSTEM_CLIENT_UNFINISHED_BYTES_EXCEED") == [
        "SYSTEM: SYSTEM_CLIENT_UNFINISHED_BYTES_EXCEED: - - Unfinished bytes limit of all clients 1024 kB exceeded"
    ]


@pytest.mark.parametrize("kind", PORTS)
async def test_unfinished_input_is_freed_with_its_client(broker: RunningBroker, kind: type[UnfinishedSender]) -> None:
    for _ in range(3):
        client = await kind.open(PORTS[kind](broker))
        await client.sends(MUCH)
        await held(broker, MUCH)
        await client.vanish()
        await held(broker, 0, 0)
    assert broker.node.services.unfinished.ended_count == 0


@pytest.mark.parametrize("level", [3, 4])
async def test_a_client_of_mqtt_3_finds_its_connection_closed_and_its_will_is_sent(
    broker: RunningBroker, level: int
) -> None:
    listener = await broker.connect(level=5)
    await listener.subscribe("will/topic")
    stopped = await broker.connect("stopped", level, will=mqtt.WillPart())
    await half_sent(stopped)
    await held(broker, MUCH)
    await half_sent(await broker.connect(level=5))
    await stopped.is_closed()
    assert await listener.payloads(1) == [b"gone"]


async def test_a_session_whose_connection_ended_so_is_there_when_the_client_is_back(broker: RunningBroker) -> None:
    stopped = await broker.connect_durable("stopped")
    await stopped.subscribe("t", qos=1)
    await half_sent(stopped)
    await held(broker, MUCH)
    client = await broker.connect(level=5)
    send_rest = await half_sent(client)
    await stopped.is_ended(QUOTA_EXCEEDED)
    send_rest()
    assert await client.answered(mqtt.PUBACK, 1) == 0
    back = await broker.connect_durable("stopped")
    assert [len(each) for each in await back.payloads(1)] == [1000 * KIB]


async def test_many_messages_of_which_each_has_room_are_all_taken(broker: RunningBroker) -> None:
    """What is whole is not counted any more, however much goes by."""
    client = await broker.connect(level=5)
    for number in range(1, 30):
        client.send(mqtt.publish("t", bytes(700 * KIB), level=5, qos=1, packet_id=number))
    assert [await client.answered(mqtt.PUBACK, number) for number in range(1, 30)] == [0x10] * 29
    await held(broker, 0, 0)
    assert broker.node.services.unfinished.ended_count == 0


@pytest.mark.settings("backpressure.unfinished_bytes_max=64 MiB")
async def test_a_reload_lowers_the_bound_for_what_comes_next(broker: RunningBroker) -> None:
    stopped = await MqttSender.open(broker.port)
    await stopped.sends(2 * MUCH)
    await held(broker, 2 * MUCH)
    settings = (*broker.settings, "backpressure.unfinished_bytes_max=1 MiB")
    changes = await broker.node.reload(load(settings=settings))
    assert not changes.restart_needed
    client = await broker.connect(level=5)
    send_rest = await half_sent(client)
    assert await stopped.ending() == QUOTA_EXCEEDED
    send_rest()
    assert await client.answered(mqtt.PUBACK, 1) == 0x10
