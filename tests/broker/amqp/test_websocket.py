"""AMQP over WebSocket, with a foreign WebSocket client around a foreign AMQP engine."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from proton import Connection, Delivery, Endpoint, Message, Transport
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from support.broker.running_broker import RunningBroker
from support.mqtt.raw_client import DEADLINE_S
from support.network.certificates import make_certificates

pytestmark = pytest.mark.settings("listeners.amqp_websocket.enabled=true", "listeners.amqp_websocket.port=0")

FRAME_BYTES = 65_536  # the most that the broker takes, and less than the message below


@asynccontextmanager
async def opened(broker: RunningBroker, *subprotocols: str) -> AsyncIterator[ClientConnection]:
    offered = [Subprotocol(name) for name in subprotocols] or None
    url = f"ws://127.0.0.1:{broker.node.amqp.listeners['amqp_websocket'].port}/amqp"
    async with connect(url, subprotocols=offered, max_size=None) as socket:
        yield socket


@pytest.mark.parametrize(
    ("offered", "selected"),
    [
        pytest.param(["amqp"], "amqp", id="the standard's"),
        pytest.param(["AMQPWSB10"], "AMQPWSB10", id="Azure's clients, SAP's"),
        pytest.param(["binary", "AMQPWSB10"], "AMQPWSB10", id="rhea's examples"),
        pytest.param(["binary"], "binary", id="before there was one"),
    ],
)
async def test_the_answer_names_the_subprotocol(broker: RunningBroker, offered: list[str], selected: str) -> None:
    """OASIS: the binding of AMQP to WebSocket."""
    async with opened(broker, *offered) as socket:
        assert socket.subprotocol == selected


@pytest.mark.parametrize("offered", [[], ["mqtt"]])
async def test_an_upgrade_without_our_subprotocol_is_refused(broker: RunningBroker, offered: list[str]) -> None:
    """OASIS: the binding of AMQP to WebSocket."""
    with pytest.raises(InvalidStatus):
        async with opened(broker, *offered):
            pass


async def test_tls_may_be_around_it(tmp_path: Path) -> None:
    """OASIS: the binding of AMQP to WebSocket; pages that come by HTTPS may open nothing else."""
    certificates = make_certificates(tmp_path)
    settings = (
        "listeners.amqp_websocket_tls.enabled=true",
        "listeners.amqp_websocket_tls.port=0",
        f"listeners.amqp_websocket_tls.certificate={certificates.server}",
        f"listeners.amqp_websocket_tls.key={certificates.server_key}",
        f"listeners.amqp_websocket_tls.client_ca={certificates.authority}",
    )
    trusts = ssl.create_default_context(cafile=str(certificates.authority))
    trusts.load_cert_chain(certificates.server, certificates.server_key)
    transport, client = Transport(), Connection()
    transport.sasl().allowed_mechs("EXTERNAL")
    transport.bind(client)
    client.open()
    async with RunningBroker(tmp_path / "data", settings) as broker:
        url = f"wss://localhost:{broker.node.amqp.listeners['amqp_websocket_tls'].port}/amqp"
        async with connect(url, subprotocols=[Subprotocol("amqp")], ssl=trusts) as socket:
            await exchange(socket, transport, lambda: bool(client.state & Endpoint.REMOTE_ACTIVE))
            assert [each.identity.user for each in broker.node.amqp.open_connections()] == ["localhost"]


async def exchange(socket: ClientConnection, transport: Transport, is_done: Callable[[], bool]) -> None:
    """Send all that there is to say in one message at a time, and read, until something is so."""
    while not is_done():
        words = b""
        while (count := transport.pending()) > 0:
            piece = transport.peek(count)
            assert piece is not None
            words += piece
            transport.pop(count)
        if words:
            await socket.send(words)
        else:
            heard = await asyncio.wait_for(socket.recv(), DEADLINE_S)
            assert isinstance(heard, bytes)
            transport.push(heard)


async def test_a_message_may_hold_several_frames(broker: RunningBroker) -> None:
    """OASIS: the binding of AMQP to WebSocket; a client writes what it has."""
    transport, client = Transport(), Connection()
    transport.bind(client)
    client.container = "joins its frames"
    client.open()
    session = client.session()
    session.open()
    sender = session.sender("s")
    sender.target.address = "topic://a"
    sender.open()
    async with opened(broker, "amqp") as socket:
        await exchange(socket, transport, lambda: sender.credit > 0)
        delivery = sender.delivery("1")
        sender.stream(Message(body=b"x" * (5 * FRAME_BYTES)).encode())
        sender.advance()
        await exchange(socket, transport, lambda: delivery.remote_state == Delivery.ACCEPTED)
