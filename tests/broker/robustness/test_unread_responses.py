"""Clients that keep asking and read no responses: the gateway bounds what it holds, then disconnects them."""

import asyncio
import socket
from contextlib import suppress

import pytest

import support.mqtt.packets as mqtt
from sluicegate.protocols.amqp.codec.frames import frame
from sluicegate.protocols.amqp.codec.performatives import Begin, Flow, Open
from support.broker.running_broker import RunningBroker
from support.network.small_buffers import buffer_little

AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
SESSION = frame(0, Begin(next_outgoing_id=0, incoming_window=1000, outgoing_window=1000).encode())
ASKED = Flow(next_incoming_id=0, incoming_window=1000, next_outgoing_id=0, outgoing_window=1000, echo=True)


async def goes_on_asking(port: int, first: bytes, asked: bytes) -> None:
    """Say something, then ask until the gateway ends the connection."""
    loop = asyncio.get_running_loop()
    client = socket.socket()
    client.setblocking(False)
    with client:
        await loop.sock_connect(client, ("127.0.0.1", port))
        await loop.sock_sendall(client, first)
        await loop.sock_recv(client, 1)  # the broker has its end
        buffer_little(client)
        with suppress(ConnectionResetError, BrokenPipeError):
            while True:
                await loop.sock_sendall(client, asked)


@pytest.mark.parametrize(
    ("asked", "packets_per_send"),
    [(mqtt.pingreq(), 50_000), (mqtt.publish("nobody", b"", qos=1, packet_id=1), 5000)],
)
async def test_an_mqtt_client_that_reads_no_answers_is_cut_off(
    broker: RunningBroker, asked: bytes, packets_per_send: int
) -> None:
    """PINGREQ has no window, and in 3.1.1 PUBLISH has none."""
    await goes_on_asking(broker.port, mqtt.connect("c"), asked * packets_per_send)
    assert broker.node.mqtt.counters.violated == {"answers_not_read": 1}
    await broker.connect("another")


@pytest.mark.slow
async def test_an_amqp_client_that_reads_no_answers_is_cut_off(broker: RunningBroker) -> None:
    """AMQP 2.7.4: a flow with `echo` is answered by one."""
    opened = AMQP_HEADER + frame(0, Open("c").encode()) + SESSION
    await goes_on_asking(broker.amqp_port, opened, frame(0, ASKED.encode()) * 1000)
    assert broker.node.amqp.counters.violated == {"answers_not_read": 1}
