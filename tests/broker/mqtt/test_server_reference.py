"""A broker that stops, or has moved, says which server is to serve its 5.0 clients (sections 3.14.2.2.5, 4.11)."""

import asyncio

import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.config.load import load
from support.broker.running_broker import RunningBroker

SERVER_REFERENCE, REASON_STRING = 28, 31
USE_ANOTHER_SERVER, SERVER_MOVED = 0x9C, 0x9D
ELSEWHERE = "mqtt.server_reference=b.example:1883"
MOVED = (ELSEWHERE, "mqtt.server_moved=true")


async def reload(broker: RunningBroker, *settings: str) -> None:
    await broker.node.reload(load(None, settings=(*broker.settings, *settings)))


@pytest.mark.parametrize(
    ("packet_bytes_max", "told"), [(1000, {SERVER_REFERENCE, REASON_STRING}), (30, {SERVER_REFERENCE}), (20, set())]
)
async def test_a_broker_that_stops_says_who_else_is_there(
    broker: RunningBroker, packet_bytes_max: int, told: set[int]
) -> None:
    """[3.14.2-3]: and no more than the client takes. The setting counts that is in force when the broker stops."""
    client = await broker.open(5)
    client.send(mqtt.connect("c", level=5, properties=mqtt.maximum_packet_size(packet_bytes_max)))
    await client.connack()
    await reload(broker, ELSEWHERE)
    stopping = asyncio.ensure_future(broker.stop())
    end = mqtt.server_disconnect(await client.awaited(mqtt.DISCONNECT))
    assert end.reason_code == USE_ANOTHER_SERVER
    assert {found for found, _ in end.properties} == told
    assert end.value(SERVER_REFERENCE) == ("b.example:1883" if told else None)
    await client.is_closed()
    await stopping


@pytest.mark.settings(ELSEWHERE)
@pytest.mark.parametrize("level", [3, 4])
async def test_clients_of_3_x_are_disconnected_as_ever(broker: RunningBroker, level: int) -> None:
    client = await broker.connect(level=level)
    stopping = asyncio.ensure_future(broker.stop())
    await client.is_closed()
    await stopping


@pytest.mark.settings(ELSEWHERE)
async def test_until_it_stops_a_broker_serves_its_clients(broker: RunningBroker) -> None:
    await (await broker.connect(level=5)).round_trip()


@pytest.mark.settings(*MOVED)
async def test_a_broker_that_has_moved_serves_no_5_0_client(broker: RunningBroker) -> None:
    client = await broker.open(5)
    answer = await client.connect("c")
    assert (answer.reason_code, answer.value(SERVER_REFERENCE)) == (SERVER_MOVED, "b.example:1883")
    await client.is_closed()
    await (await broker.connect(level=4)).round_trip()


async def test_a_reload_sends_those_away_that_are_connected_and_lets_them_come_back(broker: RunningBroker) -> None:
    client, earlier = await broker.connect(level=5), await broker.connect(level=4)
    await reload(broker, *MOVED)
    end = mqtt.server_disconnect(await client.awaited(mqtt.DISCONNECT))
    assert (end.reason_code, end.value(SERVER_REFERENCE)) == (SERVER_MOVED, "b.example:1883")
    await client.is_closed()
    await earlier.round_trip()
    assert broker.node.default.other_servers.sent_counts == {"moved": 1}
    await reload(broker)
    await (await broker.connect(level=5)).round_trip()


@pytest.mark.accounts(ada="engine")
@pytest.mark.settings(*MOVED)
async def test_only_who_may_connect_is_told_where_to(broker: RunningBroker) -> None:
    client = await broker.open(5)
    answer = await client.connect("c", user_name="ada", password=b"wrong")
    assert (answer.reason_code, answer.value(SERVER_REFERENCE)) == (0x86, None)
