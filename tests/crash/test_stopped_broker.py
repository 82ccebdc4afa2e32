"""A broker process is stopped for longer than any time limit, and continued: clients that spoke meanwhile are served.

What they have sent lies in their sockets, and the broker has to read it before it judges who was silent.
"""

import asyncio
import os
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from sluicegate.protocols.transport.listeners import TLS_HANDSHAKE_S
from sluicegate.protocols.transport.loop.selector import SOCKETS_PER_POLL
from sluicegate.protocols.transport.websocket import UPGRADE_S
from support.amqp.client import AmqpClient
from support.flow.client import FlowClient
from support.mqtt import packets as mqtt
from support.mqtt.raw_client import RawClient
from support.network.certificates import make_certificates
from support.processes.gateway import GatewayProcess, gateway

STOPPED_S = 10  # all limits below are shorter, and long enough for clients to begin on a busy machine
KEEP_ALIVE_S = 6  # 9 seconds until the broker gives up
WITHIN_S = 30
REQUEST = b"POST /TOPIC/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello"
UPGRADE = (
    b"GET /mqtt HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Protocol: mqtt\r\n\r\n"
)
HANDSHAKE_S = max(TLS_HANDSHAKE_S, UPGRADE_S)
AMQP_MESSAGE = b"\0\x53\x77\xa1\1m"

pytestmark = [pytest.mark.crash, pytest.mark.slow]


@contextmanager
def stopped(node: GatewayProcess, seconds: float = STOPPED_S) -> Iterator[None]:
    """Stop the process for so long, then do what is in the block, and let it run again."""
    os.kill(node.pid, signal.SIGSTOP)
    try:
        time.sleep(seconds)
        yield
        time.sleep(0.5)  # all that was sent is in the broker's sockets
    finally:
        os.kill(node.pid, signal.SIGCONT)


def test_clients_of_all_protocols_are_served_by_a_broker_that_was_stopped(tmp_path: Path) -> None:
    """[MQTT 3.1.2-22], AMQP 2.4.5, RFC 9110 15.5.9; flow: sessions, keep-alive."""
    limits: dict[str, object] = {"http__head_timeout_s": 8, "http__keep_alive_s": 8, "amqp__idle_timeout_s": 8}
    with gateway(tmp_path, **limits) as node:
        asyncio.run(_clients_speak_while_it_is_stopped(node))


async def _clients_speak_while_it_is_stopped(node: GatewayProcess) -> None:
    of_mqtt = await RawClient.open(node.mqtt_port, 5)
    await of_mqtt.connect("m", keep_alive_s=KEEP_ALIVE_S)
    of_amqp = await AmqpClient.open(node.amqp_port)
    await of_amqp.sender("out", "topic://a", handle=1)
    reader, writer = await asyncio.open_connection("127.0.0.1", node.ports["http"])
    writer.write(REQUEST)
    async with FlowClient(node.ports["flow"], keep_alive_ms=3000) as of_flow:
        flow_id = (await of_flow.opens_publisher()).flow_id
        assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
        writer.write(REQUEST[:20])  # a head that has begun

        with stopped(node):
            writer.write(REQUEST[20:])
            of_mqtt.send(mqtt.pingreq())
            of_flow.publishes(flow_id, [1], topic="a")
            of_amqp.transfer(1, AMQP_MESSAGE)

        async with asyncio.timeout(WITHIN_S):
            assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
            await of_mqtt.awaited(mqtt.PINGRESP)
            await of_flow.answered(flow_id, 1)
            await of_amqp.confirmed()
    writer.close()
    await of_mqtt.leave()
    await of_amqp.close()


class Handshake:
    """The client's end of a TLS handshake, step by step."""

    def __init__(self, port: int, authority: Path) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), WITHIN_S)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=authority)
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")

    def step(self) -> bool:
        """Say what is to be said now; return whether the handshake is over."""
        try:
            self._tls.do_handshake()
            return True
        except ssl.SSLWantReadError:
            return False
        finally:
            self.socket.sendall(self._outgoing.read())

    def finish(self) -> None:
        while not self.step():
            answer = self.socket.recv(65_536)
            assert answer, "the broker has closed the connection"
            self._incoming.write(answer)


def test_handshakes_go_on_at_a_broker_that_was_stopped(tmp_path: Path) -> None:
    """The limit of handshakes and upgrades is over while the broker stands still; it has not read what was sent."""
    certificates = make_certificates(tmp_path)
    tls = {each.split("=")[0]: each.split("=")[1] for each in certificates.in_tls("listeners.mqtt_tls")}
    with gateway(tmp_path, **{name: value for name, value in tls.items() if not name.endswith("port")}) as node:
        handshake = Handshake(node.ports["mqtt_tls"], certificates.authority)
        upgrade = socket.create_connection(("127.0.0.1", node.ports["mqtt_websocket"]), WITHIN_S)
        upgrade.sendall(UPGRADE[:40])
        with handshake.socket, upgrade:
            with stopped(node, HANDSHAKE_S + 0.5):
                assert not handshake.step()
                upgrade.sendall(UPGRADE[40:])

            handshake.finish()
            assert upgrade.recv(1000).startswith(b"HTTP/1.1 101 ")


def test_more_clients_than_one_poll_reads_are_served_by_a_broker_that_was_stopped(tmp_path: Path) -> None:
    """[MQTT 3.1.2-22]: those that the first poll leaves unread have spoken as well."""
    with gateway(tmp_path) as node, ExitStack() as stack:
        clients = [
            stack.enter_context(socket.create_connection(("127.0.0.1", node.mqtt_port), WITHIN_S))
            for _ in range(SOCKETS_PER_POLL + 100)
        ]
        for number, client in enumerate(clients):
            client.sendall(mqtt.connect(f"c{number}", level=5, keep_alive_s=KEEP_ALIVE_S))
            assert client.recv(1000)[0] >> 4 == mqtt.CONNACK
        for client in clients:
            client.sendall(mqtt.pingreq())
            assert client.recv(2) == b"\xd0\0"

        with stopped(node):
            for client in clients:
                client.sendall(mqtt.pingreq())

        assert {client.recv(2) for client in clients} == {b"\xd0\0"}
