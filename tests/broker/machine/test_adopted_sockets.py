"""Clients whose sockets another process has accepted and passed, with the bytes that it has read."""

import asyncio
import socket
from typing import Any, Self

import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.node.servers.server import ProtocolServer
from sluicegate.protocols.flow.codec.frames.session import AUTH_DONE
from sluicegate.protocols.transport.interface import PeerRecord
from support.broker.running_broker import RunningBroker
from support.flow.client import FlowClient
from support.mqtt.raw_client import RawClient


class Acceptance:
    """A port that accepts in the place of another process, and passes each socket on."""

    def __init__(self, server: ProtocolServer[Any, Any], listener: str, certificate_name: str | None = None) -> None:
        self._server = server
        self._listener = listener
        self._certificate_name = certificate_name
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.setblocking(False)
        self.port: int = self._listening.getsockname()[1]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listening.close()

    async def passes(self, *, read_bytes: int = 0) -> tuple[str, int]:
        """Accept a client, read so much of it, pass it on, and return its address."""
        loop = asyncio.get_running_loop()
        accepted, address = await loop.sock_accept(self._listening)
        data = b""
        while len(data) < read_bytes:
            data += await loop.sock_recv(accepted, read_bytes - len(data))
        name = self._certificate_name
        peer = PeerRecord(self._listener, *address, is_encrypted=name is not None, certificate_name=name)
        self._server.adopt(accepted.detach(), peer, data)
        return address[0], address[1]


@pytest.mark.parametrize("level", [3, 4, 5])
async def test_packets_behind_connect_may_have_been_read_with_it(broker: RunningBroker, level: int) -> None:
    async with Acceptance(broker.node.mqtt, "mqtt") as acceptance:
        client = await RawClient.open(acceptance.port, level)
        packets = [
            mqtt.connect("passed", level=level),
            mqtt.subscribe(("t", 0), packet_id=1, level=level),
            mqtt.publish("t", b"with CONNECT", level=level),
        ]
        client.send(*packets, mqtt.publish("t", b"behind it", level=level))
        host, port = await acceptance.passes(read_bytes=len(b"".join(packets)) - 3)
        assert (await client.connack()).reason_code == 0
        await client.awaited(mqtt.SUBACK)
        assert await client.payloads(2) == [b"with CONNECT", b"behind it"]
        (connection,) = broker.node.mqtt.open_connections()
        assert connection.peer_name() == f"{host}:{port}"
        assert broker.node.mqtt.listeners["mqtt"].connection_count == 1
        assert broker.node.mqtt.counters.connected == 1
        await client.vanish()
        await broker.has_no_more_than(sessions=0, queues=0)
        assert broker.node.mqtt.listeners["mqtt"].connection_count == 0


@pytest.mark.settings("listeners.mqtt.max_connections=1")
async def test_a_passed_client_has_a_place_of_its_listener_or_none(broker: RunningBroker) -> None:
    await broker.connect("first")
    async with Acceptance(broker.node.mqtt, "mqtt") as acceptance:
        client = await RawClient.open(acceptance.port, 5)
        await acceptance.passes()
        await client.ends()
    assert broker.node.mqtt.listeners["mqtt"].refused_count == 1


@pytest.mark.accounts(sibling="secret")
async def test_a_client_may_come_from_no_listener_and_be_known_already(broker: RunningBroker) -> None:
    """As brokers of one machine are, whose sockets no port has accepted."""
    async with Acceptance(broker.node.flow, "elsewhere", certificate_name="sibling") as acceptance:
        client = FlowClient(acceptance.port)
        passing = asyncio.create_task(acceptance.passes(read_bytes=1))
        await client.connect()
        await passing
        assert (await client.authenticate("EXTERNAL", b"")).state == AUTH_DONE
        assert [each.identity.user for each in broker.node.flow.open_connections()] == ["sibling"]
        assert broker.node.flow.listeners["flow"].connection_count == 0
        await client.close()


async def test_a_broker_that_stops_takes_no_more_clients(broker: RunningBroker) -> None:
    server = broker.node.mqtt
    async with Acceptance(server, "mqtt") as acceptance:
        served = await RawClient.open(acceptance.port, 5)
        await acceptance.passes()
        assert (await served.connect("served")).reason_code == 0
        await broker.stop()
        await served.ends()
        late = await RawClient.open(acceptance.port, 5)
        await acceptance.passes()
        await late.ends()
    await broker.start()
