"""Streams that go on with another connection, or leave for another process, over real sockets."""

import asyncio
import socket
from typing import cast

import pytest
from websockets.asyncio.client import connect as websocket_connect
from websockets.typing import Subprotocol

from sluicegate.protocols.transport.interface import PeerRecord
from sluicegate.protocols.transport.listeners import Listener
from sluicegate.protocols.transport.loop import event_loop as socket_loop
from sluicegate.protocols.transport.stream.stream import WRITE_HIGH_BYTES, Origin, TcpStream, adopt
from sluicegate.protocols.transport.tls.context import TlsFiles
from sluicegate.protocols.transport.websocket import over_websocket
from support.network.event_loops import RunOnLoop
from support.network.recorded_connection import RecordedConnection, Recorder
from support.network.recording_listener import dials, leaves, listens, meets, trusts, writes_certificate
from support.network.websocket_settings import for_everybody

UNLISTED = Origin("elsewhere", lambda: None)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return writes_certificate(tmp_path_factory.mktemp("tls"), "localhost")


class Beginning(RecordedConnection):
    """A connection that hands the stream over at its first bytes, which it passes on."""

    def __init__(self, successor: RecordedConnection) -> None:
        super().__init__()
        self._successor = successor

    def received(self, data: bytes) -> None:
        super().received(data)
        self.transport.hand_over(self._successor)
        self._successor.opened(self.transport, self.peer)
        self._successor.received(data)


@pytest.mark.parametrize("is_tls", [False, True])
def test_a_stream_goes_on_with_another_connection(run: RunOnLoop, files: TlsFiles, is_tls: bool) -> None:
    async def scenario() -> None:
        listener, reader, writer, first = await meets(files if is_tls else None)
        second = RecordedConnection()
        writer.write(b"for the first")
        await first.has_received(b"for the first")
        first.transport.hand_over(second)
        second.opened(first.transport, first.peer)

        writer.write(b"for the second")
        await second.has_received(b"for the second")
        second.transport.write(b"answer")
        assert await reader.readexactly(6) == b"answer"
        second.transport.write(bytes(32 * WRITE_HIGH_BYTES))
        assert second.pauses == ["paused"]
        await reader.readexactly(32 * WRITE_HIGH_BYTES)
        await second.until(lambda: second.pauses == ["paused", "resumed"])
        await leaves(writer)
        assert await second.has_closed() is None
        assert (first.data, first.pauses, first.ends) == (b"for the first", [], [])
        assert listener.connection_count == 0
        await listener.stop()

    run(scenario())


def test_the_connection_inside_a_websocket_is_followed_by_another(run: RunOnLoop) -> None:
    async def scenario() -> None:
        second = RecordedConnection()
        first = Beginning(second)
        connect = over_websocket(lambda: first, for_everybody())
        listener = Listener(name="ws", host="127.0.0.1", port=0, connect=connect)
        await listener.start()
        url = f"ws://127.0.0.1:{listener.port}/mqtt"
        async with websocket_connect(url, subprotocols=[Subprotocol("mqtt")], proxy=None) as client:
            await client.send(b"hello ")
            await client.send(b"again")
            await second.has_received(b"hello again")
            second.transport.write(b"answer")
            assert await client.recv() == b"answer"
        assert await second.has_closed() is None
        assert (first.data, first.ends) == (b"hello ", [])
        await listener.stop()

    run(scenario())


@pytest.mark.parametrize("is_tls", [False, True])
def test_the_successor_is_called_within_the_read_that_brought_it(run: RunOnLoop, files: TlsFiles, is_tls: bool) -> None:
    async def scenario() -> None:
        second = RecordedConnection()
        first = Beginning(second)
        recorder = Recorder()
        listener = listens(recorder, tls=files if is_tls else None)
        listener._connect = lambda: first
        await listener.start()
        _, writer = await (dials_tls(listener, files) if is_tls else dials(listener))
        writer.write(b"hello")
        await second.has_received(b"hello")
        writer.write(b" again")
        await second.has_received(b"hello again")
        assert first.data == b"hello"
        await leaves(writer)
        await second.has_closed()
        assert first.ends == []
        await listener.stop()

    run(scenario())


async def dials_tls(listener: Listener, files: TlsFiles) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await dials(listener, ssl=trusts(files), server_hostname="localhost")


@pytest.mark.parametrize("is_tls", [False, True])
def test_a_stream_that_is_gone_is_not_handed_over(run: RunOnLoop, files: TlsFiles, is_tls: bool) -> None:
    async def scenario() -> None:
        listener, _, writer, first = await meets(files if is_tls else None)
        await leaves(writer)
        await first.has_closed()
        second = RecordedConnection()
        first.transport.hand_over(second)
        await asyncio.sleep(0)
        assert (len(first.ends), second.ends) == (1, [])
        await listener.stop()

    run(scenario())


def test_a_detached_socket_goes_on_elsewhere_and_its_stream_is_silent(run: RunOnLoop) -> None:
    async def scenario() -> None:
        listener, reader, writer, connection = await meets()
        stream = cast(TcpStream, connection.transport)
        fd = stream.detach()
        assert listener.connection_count == 0
        assert (stream.fileno(), stream.is_closing(), stream.detach()) == (-1, True, -1)
        writer.write(b"unread")
        stream.write(b"nothing")
        stream.resume_reading()
        stream.close_after_flush()
        stream.abort()
        with socket.socket(fileno=fd) as taken:
            loop = asyncio.get_running_loop()
            assert await loop.sock_recv(taken, 100) == b"unread"
            await loop.sock_sendall(taken, b"from elsewhere")
        assert await reader.read() == b"from elsewhere"
        assert (connection.data, connection.ends) == (b"", [])
        await leaves(writer)
        await listener.stop()

    run(scenario())


def test_a_socket_can_be_detached_while_it_is_read(run: RunOnLoop) -> None:
    async def scenario() -> None:
        taken: list[socket.socket] = []

        class Leaving(RecordedConnection):
            def received(self, data: bytes) -> None:
                super().received(data)
                taken.append(socket.socket(fileno=cast(TcpStream, self.transport).detach()))

        leaving = Leaving()
        recorder = Recorder()
        listener = listens(recorder)
        listener._connect = lambda: leaving
        await listener.start()
        reader, writer = await dials(listener)
        writer.write(bytes(1 << 20))  # far more than one read takes
        await leaving.until(lambda: bool(taken))
        loop, count = asyncio.get_running_loop(), len(leaving.data)
        while count < 1 << 20:
            count += len(await loop.sock_recv(taken[0], 1 << 20))
        taken[0].close()
        assert await reader.read() == b""
        assert leaving.ends == []
        await leaves(writer)
        await listener.stop()

    run(scenario())


def test_a_stream_that_is_closing_is_not_detached(run: RunOnLoop) -> None:
    async def scenario() -> None:
        listener, reader, writer, connection = await meets()
        stream = cast(TcpStream, connection.transport)
        stream.abort()
        assert stream.detach() == -1
        await connection.has_closed()
        assert await reader.read() == b""
        await leaves(writer)
        await listener.stop()

    run(scenario())


def test_an_adopted_socket_gets_its_first_bytes_before_what_it_sends(run: RunOnLoop) -> None:
    async def scenario() -> None:
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        ours.sendall(b" behind it")
        connection = RecordedConnection()
        adopt(theirs.detach(), PeerRecord("elsewhere", "192.0.2.1", 4711), lambda: connection, b"read before", UNLISTED)
        assert connection.data == b"read before"
        await connection.has_received(b"read before behind it")
        peer = connection.peer
        assert (peer.listener, peer.host, peer.port) == ("elsewhere", "192.0.2.1", 4711)
        assert (peer.is_encrypted, peer.alpn, peer.certificate_name, peer.subprotocol) == (False, None, None, None)
        connection.transport.write(b"answer")
        assert ours.recv(100) == b"answer"
        ours.close()
        assert await connection.has_closed() is None

    run(scenario())


def test_an_adopted_peer_is_who_the_other_process_says(run: RunOnLoop) -> None:
    async def scenario() -> None:
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        connection = RecordedConnection()
        peer = PeerRecord("tls", "::1", 1, is_encrypted=True, alpn="mqtt", certificate_name="a", subprotocol="mqtt")
        adopt(theirs.detach(), peer, lambda: connection, b"", UNLISTED)
        assert connection.peer is peer
        ours.close()
        await connection.has_closed()

    run(scenario())


def test_a_listener_counts_adopted_streams_and_refuses_those_beyond_its_limit(run: RunOnLoop) -> None:
    async def scenario() -> None:
        recorder = Recorder()
        listener = listens(recorder, connections_max=1)
        await listener.start()
        connection = RecordedConnection()
        pairs = [socket.socketpair() for _ in range(2)]
        for _, theirs in pairs:
            theirs.setblocking(False)
            listener.adopt(theirs.detach(), PeerRecord("test", "192.0.2.1", 4711), lambda: connection, b"x")
        assert (listener.connection_count, listener.refused_count) == (1, 1)
        assert pairs[1][0].recv(1) == b""
        assert connection.data == b"x"
        assert connection.peer.listener == "test"
        pairs[0][0].close()
        await connection.has_closed()
        assert listener.connection_count == 0
        pairs[1][0].close()
        await listener.stop()

    run(scenario())


def test_an_adopted_stream_whose_file_has_too_high_a_number_is_closed(run: RunOnLoop) -> None:
    async def scenario() -> None:
        listener = listens(Recorder(), files_max=3)
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        listener.adopt(theirs.detach(), PeerRecord("test", "192.0.2.1", 4711), RecordedConnection, b"x")
        assert ours.recv(1) == b""
        assert (listener.beyond_files_count, listener.connection_count) == (1, 0)
        ours.close()

    run(scenario())


@pytest.mark.parametrize("where", ["made", "opened", "received"])
def test_a_failure_of_an_adopted_connection_costs_only_its_stream(where: str) -> None:
    reported: list[str] = []
    closed: list[str] = []

    class Failing(RecordedConnection):
        def __init__(self) -> None:
            super().__init__()
            self._fail("made")

        def opened(self, *_: object) -> None:
            self._fail("opened")

        def received(self, data: bytes) -> None:
            self._fail("received")

        def _fail(self, when: str) -> None:
            if where == when:
                raise RuntimeError(when)

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(str(context["exception"])))
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        peer = PeerRecord("test", "192.0.2.1", 4711)
        adopt(theirs.detach(), peer, Failing, b"x", Origin("test", lambda: closed.append("closed")))
        assert await asyncio.to_thread(ours.recv, 1) == b""
        ours.close()

    socket_loop.run(scenario())
    assert (reported, closed) == ([where], ["closed"])
