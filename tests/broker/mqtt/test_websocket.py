"""MQTT over WebSocket (section 6), with a foreign WebSocket client."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

import support.mqtt.packets as mqtt
from support.broker.running_broker import RunningBroker
from support.mqtt.packets import WillPart
from support.mqtt.raw_client import DEADLINE_S


@asynccontextmanager
async def opened(broker: RunningBroker, *subprotocols: str) -> AsyncIterator[ClientConnection]:
    offered = [Subprotocol(name) for name in subprotocols] or None
    async with connect(f"ws://127.0.0.1:{broker.websocket_port}/mqtt", subprotocols=offered, max_size=None) as socket:
        yield socket


async def packets(socket: ClientConnection, count: int) -> list[mqtt.Packet]:
    """Return the next packets, in whatever frames they come."""
    data = b""
    while len(mqtt.take_packets(data)[0]) < count:
        frame = await asyncio.wait_for(socket.recv(), DEADLINE_S)
        assert isinstance(frame, bytes)  # [6.0.0-1]
        data += frame
    return mqtt.packets_of(data)


@pytest.mark.parametrize("offered", [[], ["amqp"]])
async def test_an_upgrade_without_our_subprotocol_is_refused(broker: RunningBroker, offered: list[str]) -> None:
    """[6.0.0-3]."""
    with pytest.raises(InvalidStatus):
        async with opened(broker, *offered):
            pass


@pytest.mark.parametrize(
    ("offered", "selected"), [(["mqtt"], "mqtt"), (["mqttv3.1", "mqtt"], "mqtt"), (["mqttv3.1"], "mqttv3.1")]
)
async def test_the_answer_names_the_subprotocol(broker: RunningBroker, offered: list[str], selected: str) -> None:
    """[6.0.0-4]."""
    async with opened(broker, *offered) as socket:
        assert socket.subprotocol == selected


@pytest.mark.parametrize("level", [3, 4, 5])
async def test_frames_and_packets_are_cut_independently(broker: RunningBroker, level: int) -> None:
    """[6.0.0-2]."""
    async with opened(broker, "mqtt") as socket:
        greeting = mqtt.connect("framed", level=level)
        for part in (greeting[:1], greeting[1:7], greeting[7:]):
            await socket.send(part)
        assert mqtt.connack((await packets(socket, 1))[0], level).reason_code == 0
        await socket.send(mqtt.subscribe(("t", 0), level=level) + mqtt.publish("t", b"both", level=level))
        suback, message = await packets(socket, 2)
        assert suback.kind == mqtt.SUBACK
        assert mqtt.published(message, level).payload == b"both"
        await socket.send([mqtt.pingreq()[:1], mqtt.pingreq()[1:]])  # one message of two frames
        assert (await packets(socket, 1))[0].kind == mqtt.PINGRESP
        await (await socket.ping())


async def test_a_text_frame_closes(broker: RunningBroker) -> None:
    """[6.0.0-1]."""
    async with opened(broker, "mqtt") as socket:
        await socket.send(mqtt.connect("texting"))
        await packets(socket, 1)
        await socket.send("hello")
        with pytest.raises(ConnectionClosed):
            await asyncio.wait_for(socket.recv(), DEADLINE_S)


async def test_a_websocket_close_is_no_goodbye(broker: RunningBroker) -> None:
    """[3.1.2-8]: without an MQTT DISCONNECT the will is published."""
    heir = await broker.connect()
    await heir.subscribe("will/topic")
    async with opened(broker, "mqtt") as socket:
        await socket.send(mqtt.connect("leaving", will=WillPart()))
        await packets(socket, 1)
    assert await heir.payloads(1) == [b"gone"]


async def test_a_large_message_comes_through(broker: RunningBroker) -> None:
    """[6.0.0-2]: a packet may take more than one frame, in both directions."""
    large = bytes(range(256)) * 8192
    async with opened(broker, "mqtt") as socket:
        await socket.send(mqtt.connect("large"))
        await packets(socket, 1)
        await socket.send(mqtt.subscribe(("t", 0)))
        await packets(socket, 1)
        packet = mqtt.publish("t", large)
        for first in range(0, len(packet), 500_000):
            await socket.send(packet[first : first + 500_000])
        data = b""
        while not mqtt.take_packets(data)[0]:
            frame = await asyncio.wait_for(socket.recv(), DEADLINE_S)
            assert isinstance(frame, bytes)
            data += frame
        assert mqtt.all_published(data)[0].payload == large
