"""Streams that are relayed to another process, over real sockets: TLS and WebSocket outside, a pair of them inside."""

import asyncio
import socket
from dataclasses import dataclass

import pytest
from websockets.asyncio.client import connect as websocket_connect
from websockets.exceptions import ConnectionClosedOK
from websockets.typing import Subprotocol

from sluicegate.protocols.transport.interface import PeerRecord
from sluicegate.protocols.transport.listeners import Listener
from sluicegate.protocols.transport.loop.event_loop import running_sockets
from sluicegate.protocols.transport.passing.relay import Relay
from sluicegate.protocols.transport.stream.stream import Origin, TcpStream, adopt
from sluicegate.protocols.transport.tls.context import TlsFiles
from sluicegate.protocols.transport.websocket import over_websocket
from support.network.event_loops import RunOnLoop
from support.network.recorded_connection import RecordedConnection, Recorder
from support.network.recording_listener import leaves, meets, writes_certificate
from support.network.websocket_settings import for_everybody

MIB = 1 << 20
MUCH = 32 * MIB  # more than sockets and streams keep


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return writes_certificate(tmp_path_factory.mktemp("tls"), "localhost")


class CountedConnection(RecordedConnection):
    """Counts what comes behind the first bytes: to join all of it would take longer than to send it."""

    count = 0

    def received(self, data: bytes) -> None:
        self.count += len(data)
        super().received(data if len(self.data) < MIB else data[:1])


def relayed(connection: RecordedConnection, ended: list[Relay]) -> tuple[Relay, CountedConnection]:
    """Relay the stream of a connection; return what the other process would have of it."""
    here, there = socket.socketpair()
    here.setblocking(False)
    there.setblocking(False)
    relay = Relay(connection.transport, TcpStream(running_sockets(), here.detach()), ended.append)
    served = CountedConnection()
    adopt(there.detach(), PeerRecord("test", "192.0.2.1", 1), lambda: served, b"", Origin("test", lambda: None))
    return relay, served


@dataclass
class Meeting:
    """A client, and the connection that serves it behind a relay."""

    listener: Listener
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    served: CountedConnection
    relay: Relay
    ended: list[Relay]

    async def is_over(self) -> None:
        await self.served.has_closed()
        while not self.ended:
            await asyncio.sleep(0)
        assert self.ended == [self.relay]
        assert self.listener.connection_count == 0
        await self.listener.stop()


async def meeting(files: TlsFiles) -> Meeting:
    listener, reader, writer, first = await meets(files)
    ended: list[Relay] = []
    relay, served = relayed(first, ended)
    return Meeting(listener, reader, writer, served, relay, ended)


def test_bytes_go_both_ways_until_the_client_leaves(run: RunOnLoop, files: TlsFiles) -> None:
    async def scenario() -> None:
        met = await meeting(files)
        met.relay.received(b"before, ")
        met.writer.write(b"from the client")
        await met.served.has_received(b"before, from the client")
        met.served.transport.write(b"answer")
        assert await met.reader.readexactly(6) == b"answer"
        met.writer.write(b", last words")
        await leaves(met.writer)
        assert await met.served.has_closed() is None
        assert met.served.data == b"before, from the client, last words"
        await met.is_over()

    run(scenario())


@pytest.mark.parametrize("verb", ["close", "close_after_flush"])
def test_last_words_arrive_before_the_end(run: RunOnLoop, files: TlsFiles, verb: str) -> None:
    async def scenario() -> None:
        met = await meeting(files)
        met.served.transport.write(b"x" * MIB + b"goodbye")
        getattr(met.served.transport, verb)()
        assert await met.reader.read(-1) == b"x" * MIB + b"goodbye"
        await leaves(met.writer)
        await met.is_over()

    run(scenario())


def test_a_client_that_does_not_read_holds_back_who_serves_it(run: RunOnLoop, files: TlsFiles) -> None:
    async def scenario() -> None:
        met = await meeting(files)
        sent = 0
        while not met.served.pauses:
            met.served.transport.write(bytes(MIB))
            sent += MIB
            await asyncio.sleep(0)
            assert sent < MUCH
        await met.reader.readexactly(sent)
        await met.served.until(lambda: met.served.pauses == ["paused", "resumed"])
        await leaves(met.writer)
        await met.is_over()

    run(scenario())


def test_who_serves_a_client_holds_it_back(run: RunOnLoop, files: TlsFiles) -> None:
    async def scenario() -> None:
        met = await meeting(files)
        met.served.transport.pause_reading()
        sending = asyncio.create_task(sends(met.writer, MUCH))
        await asyncio.sleep(0)
        done, _ = await asyncio.wait([sending], timeout=0.2)
        assert not done
        assert met.served.count == 0
        met.served.transport.resume_reading()
        await sending
        await met.served.until(lambda: met.served.count == MUCH)
        await leaves(met.writer)
        await met.is_over()

    run(scenario())


async def sends(writer: asyncio.StreamWriter, count: int) -> None:
    for _ in range(count // MIB):
        writer.write(bytes(MIB))
        await writer.drain()


def test_a_process_that_dies_takes_its_clients_along(run: RunOnLoop, files: TlsFiles) -> None:
    async def scenario() -> None:
        met = await meeting(files)
        met.served.transport.abort()
        assert await met.reader.read() == b""
        await leaves(met.writer)
        await met.is_over()

    run(scenario())


def test_a_relay_that_is_ended_ends_both_sides(run: RunOnLoop, files: TlsFiles) -> None:
    async def scenario() -> None:
        met = await meeting(files)
        met.writer.write(b"hello")
        await met.served.has_received(b"hello")
        met.relay.end()
        assert await met.reader.read() == b""
        assert await met.served.has_closed() is None
        await leaves(met.writer)
        await met.is_over()
        met.relay.end()  # harmless

    run(scenario())


def test_what_is_inside_a_websocket_is_relayed(run: RunOnLoop) -> None:
    async def scenario() -> None:
        recorder = Recorder()
        connect = over_websocket(recorder.connect, for_everybody())
        listener = Listener(name="ws", host="127.0.0.1", port=0, connect=connect)
        await listener.start()
        url = f"ws://127.0.0.1:{listener.port}/mqtt"
        ended: list[Relay] = []
        async with websocket_connect(url, subprotocols=[Subprotocol("mqtt")], proxy=None) as client:
            _, served = relayed(await recorder.next_opened(), ended)
            await client.send(b"from the client")
            await served.has_received(b"from the client")
            served.transport.write(b"goodbye")
            served.transport.close_after_flush()
            assert await client.recv() == b"goodbye"
            with pytest.raises(ConnectionClosedOK):
                await client.recv()
        await served.has_closed()
        while not ended:
            await asyncio.sleep(0)
        await listener.stop()

    run(scenario())
