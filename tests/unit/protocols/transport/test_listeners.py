"""Listeners and streams over real loopback sockets: TCP and TLS, on both kinds of event loop."""

import asyncio
import os
import secrets
import socket
import ssl
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from sluicegate.protocols.transport.listeners import Listener, ListenerNotStarted
from sluicegate.protocols.transport.loop import event_loop as socket_loop
from sluicegate.protocols.transport.stream.stream import WRITE_HIGH_BYTES
from sluicegate.protocols.transport.tls.context import ClientCertificates, TlsFiles, TlsFilesRefused
from support.network.event_loops import RunOnLoop
from support.network.recorded_connection import RecordedConnection, Recorder
from support.network.recording_listener import dials, leaves, listens, meets, trusts, writes_certificate

LARGE_BYTES = 1 << 20
LAST_WORDS_BYTES = 32 << 20  # far more than socket buffers take
SENT_WHILE_LEAVING = b"x" * 100_000  # unread input at the moment of the close


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    """A self-signed certificate for localhost that signs itself as a client's as well."""
    folder = tmp_path_factory.mktemp("tls")
    return writes_certificate(folder, "localhost")


@pytest.mark.parametrize("is_tls", [False, True])
def test_bytes_go_both_ways_and_the_end_is_reported_once(run: RunOnLoop, files: TlsFiles, is_tls: bool) -> None:
    async def scenario() -> None:
        listener, reader, writer, connection = await meets(files if is_tls else None)
        assert connection.peer.host == "127.0.0.1"
        assert connection.peer.port == writer.get_extra_info("sockname")[1]
        assert connection.peer.is_encrypted == is_tls

        writer.write(b"ping")
        await connection.has_received(b"ping")
        connection.transport.write(b"pong")
        assert await reader.readexactly(4) == b"pong"
        assert (listener.connection_count, listener.accepted_count) == (1, 1)

        await leaves(writer)
        assert await connection.has_closed() is None
        assert listener.connection_count == 0
        await listener.stop()

    run(scenario())


def test_streams_send_small_writes_at_once(run: RunOnLoop) -> None:
    """Nagle's algorithm would hold a confirmation back until the peer's delayed acknowledgement, up to 40 ms."""

    async def scenario() -> None:
        listener, _, writer, connection = await meets()
        accepted = socket.socket(fileno=connection.transport._fd)  # type: ignore[attr-defined]
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
        accepted.detach()
        await leaves(writer)
        await connection.has_closed()
        await listener.stop()

    run(scenario())


@pytest.mark.parametrize("is_tls", [False, True])
def test_a_last_word_reaches_a_peer_that_is_still_sending(run: RunOnLoop, files: TlsFiles, is_tls: bool) -> None:
    """A close with unread input makes TCP reset the connection, which destroys the DISCONNECT [MQTT 4.13.1-1]."""

    async def scenario() -> None:
        listener, reader, writer, connection = await meets(files if is_tls else None)
        connection.transport.pause_reading()
        writer.write(SENT_WHILE_LEAVING)
        await writer.drain()

        connection.transport.write(b"goodbye")
        connection.transport.close_after_flush()
        writer.write(SENT_WHILE_LEAVING)
        await writer.drain()

        assert await reader.readexactly(7) == b"goodbye"
        await leaves(writer)
        await connection.has_closed()
        assert SENT_WHILE_LEAVING not in connection.data
        assert listener.connection_count == 0
        await listener.stop()

    run(scenario())


@pytest.mark.parametrize("is_tls", [False, True])
def test_a_peer_that_never_closes_is_closed_after_the_linger(
    run: RunOnLoop, monkeypatch: pytest.MonkeyPatch, files: TlsFiles, is_tls: bool
) -> None:
    monkeypatch.setattr("sluicegate.protocols.transport.stream.stream.LINGER_S", 0.05)

    async def scenario() -> None:
        listener, reader, writer, connection = await meets(files if is_tls else None)
        connection.transport.write(b"goodbye")
        connection.transport.close_after_flush()
        assert await reader.read() == b"goodbye"  # the sending side is shut down, nothing was reset
        assert await connection.has_closed() is None
        await leaves(writer)
        await listener.stop()

    run(scenario())


def test_a_peer_that_takes_its_last_words_slowly_gets_all_of_them(
    run: RunOnLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large answer over HTTP with `Connection: close` takes longer than the linger on many a line."""
    monkeypatch.setattr("sluicegate.protocols.transport.stream.stream.LINGER_S", 0.5)

    async def scenario() -> None:
        listener, reader, writer, connection = await meets()
        connection.transport.write(bytes(LAST_WORDS_BYTES))
        connection.transport.close_after_flush()
        loop = asyncio.get_running_loop()
        end, count = loop.time() + 1.5, 0
        while loop.time() < end:
            count += len(await reader.read(64 * 1024))
            await asyncio.sleep(0.01)
        while piece := await reader.read(1 << 20):
            count += len(piece)
        assert count == LAST_WORDS_BYTES
        await leaves(writer)
        await connection.has_closed()
        await listener.stop()

    run(scenario())


def test_a_last_write_to_a_peer_that_reset_its_connection_raises_nothing(run: RunOnLoop) -> None:
    """There is nothing to shut down then, which the loop may not have seen yet."""

    async def scenario() -> None:
        recorder = Recorder()
        listener = listens(recorder)
        await listener.start()
        client = socket.create_connection(("127.0.0.1", listener.port))
        connection = await recorder.next_opened()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()  # so that is a reset

        connection.transport.close_after_flush()

        await connection.has_closed()
        assert listener.connection_count == 0
        await listener.stop()

    run(scenario())


def test_a_peer_that_reads_nothing_cannot_hold_a_stream_open(run: RunOnLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluicegate.protocols.transport.stream.stream.FLUSH_S", 0.05)

    async def scenario() -> None:
        recorder = Recorder()
        listener = listens(recorder)
        await listener.start()
        silent = socket.create_connection(("127.0.0.1", listener.port))
        connection = await recorder.next_opened()
        connection.transport.write(bytes(32 << 20))
        assert connection.transport.buffered_bytes() > WRITE_HIGH_BYTES
        connection.transport.close()
        await connection.has_closed()
        silent.close()
        await listener.stop()

    run(scenario())


def test_nothing_more_is_sent_to_a_peer_that_has_said_its_last(run: RunOnLoop) -> None:
    """Else a peer that reads slowly would keep its half-open stream for as long as there are messages for it."""

    async def scenario() -> None:
        recorder = Recorder()
        listener = listens(recorder)
        await listener.start()
        leaving = socket.create_connection(("127.0.0.1", listener.port))
        connection = await recorder.next_opened()
        connection.transport.write(bytes(32 << 20))
        leaving.shutdown(socket.SHUT_WR)
        while not connection.transport.is_closing():  # type: ignore[attr-defined]
            await asyncio.sleep(0)
        unsent = connection.transport.buffered_bytes()
        connection.transport.write(b"late")
        assert 0 < connection.transport.buffered_bytes() <= unsent
        leaving.close()
        await connection.has_closed()
        await listener.stop()

    run(scenario())


@pytest.mark.parametrize("is_tls", [False, True])
def test_a_peer_that_has_said_its_last_and_reads_nothing_is_cut_off(
    run: RunOnLoop, monkeypatch: pytest.MonkeyPatch, files: TlsFiles, is_tls: bool
) -> None:
    """It answers TCP's probes of its full window, so nothing else would ever end its stream."""
    monkeypatch.setattr("sluicegate.protocols.transport.stream.stream.LINGER_S", 0.05)

    async def scenario() -> None:
        listener, _, writer, connection = await meets(files if is_tls else None)
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # one for both directions
        connection.transport.write(bytes(LAST_WORDS_BYTES))
        kept = writer.get_extra_info("socket").dup()
        kept.shutdown(socket.SHUT_WR)
        await connection.has_closed()
        assert listener.connection_count == 0
        kept.close()
        await leaves(writer)
        await listener.stop()

    run(scenario())


@pytest.mark.parametrize("is_tls", [False, True])
def test_verbs_on_a_closed_stream_do_nothing(run: RunOnLoop, files: TlsFiles, is_tls: bool) -> None:
    async def scenario() -> None:
        listener, _, writer, connection = await meets(files if is_tls else None)
        connection.transport.abort()
        await connection.has_closed()
        transport = connection.transport
        transport.write(b"late")
        transport.pause_reading()
        transport.resume_reading()
        transport.close_after_flush()
        transport.close()
        transport.abort()
        assert transport.buffered_bytes() == 0
        await leaves(writer)
        await listener.stop()

    run(scenario())


def test_reading_pauses_and_resumes(run: RunOnLoop) -> None:
    async def scenario() -> None:
        recorder = Recorder()
        listener = listens(recorder)
        await listener.start()
        _, writer = await dials(listener)
        connection = await recorder.next_opened()
        writer.write(b"1")
        await connection.has_received(b"1")
        connection.transport.pause_reading()
        connection.transport.pause_reading()
        writer.write(b"2")
        await writer.drain()
        # A second stream's round trip gives the loop every chance to read the first.
        other_reader, other = await dials(listener)
        second = await recorder.next_opened()
        other.write(b"?")
        await second.has_received(b"?")
        second.transport.write(b"!")
        assert await other_reader.readexactly(1) == b"!"
        assert connection.data == b"1"

        connection.transport.resume_reading()
        connection.transport.resume_reading()
        await connection.has_received(b"12")
        for end, side in ((writer, connection), (other, second)):
            await leaves(end)
            await side.has_closed()
        await listener.stop()

    run(scenario())


class Large:
    """Room for something large; another one, each time that a stream says where it begins."""

    def __init__(self, connection: RecordedConnection) -> None:
        self.came: list[bytes] = []
        self.on_half: Callable[[], None] | None = None
        self._connection = connection
        self._memory = bytearray()
        self._placed_count = 0

    def begins(self) -> None:
        self._memory = bytearray(LARGE_BYTES)
        self._placed_count = 0
        self._connection.transport.read_into(self)

    def buffer(self) -> memoryview | None:
        return memoryview(self._memory)[self._placed_count :] if self._memory else None

    def filled(self, count: int) -> None:
        self._placed_count += count
        if self.on_half is not None and self._placed_count > LARGE_BYTES // 2:
            self.on_half()
        if self._placed_count == LARGE_BYTES:
            self.came.append(bytes(self._memory))
            self._memory = bytearray()
            self._connection.tell()


@pytest.mark.parametrize("is_tls", [False, True])
def test_something_large_is_read_to_where_it_belongs(run: RunOnLoop, files: TlsFiles, is_tls: bool) -> None:
    """Two of them behind each other, and something small behind each, which is received as ever."""

    async def scenario() -> None:
        listener, reader, writer, connection = await meets(files if is_tls else None)
        large = Large(connection)
        sent = [secrets.token_bytes(LARGE_BYTES) for _ in range(2)]
        heard = b""
        for each in sent:
            writer.write(b"large follows")
            heard += b"large follows"
            await connection.has_received(heard)
            large.begins()
            large.begins()  # it is no other
            writer.write(each + b"small")
            heard += b"small"
            await connection.has_received(heard)
        assert large.came == sent
        connection.transport.write(b"answer")
        assert await reader.readexactly(6) == b"answer"
        await leaves(writer)
        assert await connection.has_closed() is None
        await listener.stop()

    run(scenario())


@pytest.mark.parametrize("is_tls", [False, True])
def test_a_peer_that_goes_in_the_middle_of_something_large_is_gone(
    run: RunOnLoop, files: TlsFiles, is_tls: bool
) -> None:
    async def scenario() -> None:
        listener, _, writer, connection = await meets(files if is_tls else None)
        large = Large(connection)
        large.begins()
        writer.write(bytes(LARGE_BYTES // 2))
        await leaves(writer)
        assert await connection.has_closed() is None
        assert (large.came, connection.data, listener.connection_count) == ([], b"", 0)
        await listener.stop()

    run(scenario())


@pytest.mark.parametrize("is_tls", [False, True])
def test_a_stream_that_closes_during_a_large_read_reads_no_further(
    run: RunOnLoop, files: TlsFiles, is_tls: bool
) -> None:
    async def scenario() -> None:
        listener, reader, writer, connection = await meets(files if is_tls else None)
        large = Large(connection)
        large.begins()
        large.on_half = lambda: says_goodbye(connection)
        writer.write(bytes(LARGE_BYTES // 2 + 1))
        assert await reader.readexactly(7) == b"goodbye"
        writer.write(bytes(LARGE_BYTES))
        await writer.drain()
        await leaves(writer)
        await connection.has_closed()
        assert (large.came, connection.data, listener.connection_count) == ([], b"", 0)
        await listener.stop()

    run(scenario())


def says_goodbye(connection: RecordedConnection) -> None:
    connection.transport.write(b"goodbye")
    connection.transport.close_after_flush()


def test_nothing_large_is_read_while_reading_is_paused(run: RunOnLoop) -> None:
    async def scenario() -> None:
        recorder = Recorder()
        listener = listens(recorder)
        await listener.start()
        _, writer = await dials(listener)
        connection = await recorder.next_opened()
        writer.write(b"?")
        await connection.has_received(b"?")
        connection.transport.pause_reading()
        large = Large(connection)
        large.begins()
        writer.write(bytes(LARGE_BYTES))
        other_reader, other = await dials(listener)
        second = await recorder.next_opened()
        second.transport.write(b"!")
        assert await other_reader.readexactly(1) == b"!"
        assert large.came == []
        connection.transport.resume_reading()
        await connection.until(lambda: len(large.came) == 1)
        for end, side in ((writer, connection), (other, second)):
            await leaves(end)
            await side.has_closed()
        await listener.stop()

    run(scenario())


@pytest.mark.parametrize("is_tls", [False, True])
def test_buffers_that_are_written_together_arrive_in_order(run: RunOnLoop, files: TlsFiles, is_tls: bool) -> None:
    async def scenario() -> None:
        listener, reader, writer, connection = await meets(files if is_tls else None)
        buffers = [b"head", secrets.token_bytes(8 << 20), b"tail"]  # more than a socket takes at once
        connection.transport.write_all(buffers)
        connection.transport.write(b"more")
        assert await reader.readexactly(8 + len(buffers[1]) + 4) == b"".join(buffers) + b"more"
        connection.transport.abort()
        connection.transport.write_all(buffers)
        await connection.has_closed()
        connection.transport.write_all(buffers)
        await leaves(writer)
        await listener.stop()

    run(scenario())


@pytest.mark.parametrize("is_tls", [False, True])
def test_a_slow_reader_pauses_writing_until_it_has_caught_up(run: RunOnLoop, files: TlsFiles, is_tls: bool) -> None:
    async def scenario() -> None:
        listener, reader, writer, connection = await meets(files if is_tls else None)
        connection.transport.write(bytes(16 << 20))
        assert connection.pauses == ["paused"]
        await reader.readexactly(16 << 20)
        await connection.until(lambda: connection.pauses == ["paused", "resumed"])
        await leaves(writer)
        await connection.has_closed()
        await listener.stop()

    run(scenario())


@pytest.mark.parametrize("is_tls", [False, True])
def test_a_full_listener_closes_further_streams_and_counts_them(run: RunOnLoop, files: TlsFiles, is_tls: bool) -> None:
    async def scenario() -> None:
        recorder = Recorder()
        listener = listens(recorder, connections_max=1, tls=files if is_tls else None)
        await listener.start()
        tls = {"ssl": trusts(files), "server_hostname": "localhost"} if is_tls else {}
        _, writer = await dials(listener, **tls)
        connection = await recorder.next_opened()

        refused, refused_writer = await dials(listener)  # refused before any handshake
        assert await refused.read() == b""
        await leaves(refused_writer)
        assert (listener.connection_count, listener.refused_count) == (1, 1)

        await leaves(writer)
        await connection.has_closed()
        _, writer = await dials(listener, **tls)
        connection = await recorder.next_opened()
        await leaves(writer)
        await connection.has_closed()
        await listener.stop()

    run(scenario())


@pytest.mark.parametrize("is_tls", [False, True])
def test_files_that_are_kept_back_are_for_no_client(run: RunOnLoop, files: TlsFiles, is_tls: bool) -> None:
    """Files have the lowest number that is free: one of those kept back says that all others are open."""

    async def scenario() -> None:
        recorder = Recorder()
        lowest = os.dup(0)
        os.close(lowest)
        listener = listens(recorder, files_max=lowest, tls=files if is_tls else None)
        await listener.start()

        refused, refused_writer = await dials(listener)
        assert await refused.read() == b""
        await leaves(refused_writer)

        assert (listener.connection_count, listener.refused_count, listener.beyond_files_count) == (0, 0, 1)
        await listener.stop()

    run(scenario())


def test_an_exception_in_a_connection_ends_that_connection_only() -> None:
    """One bad client must never harm others."""

    async def scenario() -> None:
        reported: list[BaseException] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))
        recorder = Recorder()
        listener = listens(recorder)
        await listener.start()
        _, good = await dials(listener)
        kept = await recorder.next_opened()
        bad_reader, bad = await dials(listener)
        broken = await recorder.next_opened()
        broken.fails_on = b"poison"
        bad.write(b"poison")
        assert isinstance(await broken.has_closed(), RuntimeError)
        assert await bad_reader.read() == b""
        good.write(b"fine")
        await kept.has_received(b"fine")
        assert [type(error) for error in reported] == [RuntimeError]
        await leaves(bad)
        await leaves(good)
        await kept.has_closed()
        await listener.stop()

    socket_loop.run(scenario())


def test_a_stopped_listener_keeps_its_streams_and_frees_its_port(run: RunOnLoop) -> None:
    async def scenario() -> None:
        recorder = Recorder()
        listener = listens(recorder)
        with pytest.raises(ListenerNotStarted):
            _ = listener.port
        await listener.start()
        port = listener.port
        reader, writer = await dials(listener)
        connection = await recorder.next_opened()
        await listener.stop()
        await listener.stop()

        connection.transport.write(b"still here")
        assert await reader.readexactly(10) == b"still here"
        again = Listener(name="again", host="127.0.0.1", port=port, connect=recorder.connect)
        await again.start()
        assert again.port == port
        await again.stop()
        await leaves(writer)
        await connection.has_closed()

    run(scenario())


def test_tls_identifies_the_peer(run: RunOnLoop, files: TlsFiles) -> None:
    async def scenario() -> None:
        recorder = Recorder()
        listener = listens(recorder, tls=files)
        await listener.start()
        context = trusts(files, alpn=["mqtt"], shows_certificate=True)
        reader, writer = await dials(listener, ssl=context, server_hostname="localhost")
        writer.write(b"ping")
        connection = await recorder.next_opened()
        assert connection.peer.is_encrypted
        assert connection.peer.alpn == "mqtt"
        assert connection.peer.certificate_name == "localhost"
        await connection.has_received(b"ping")
        connection.transport.write(b"pong")
        assert await reader.readexactly(4) == b"pong"
        await leaves(writer)
        await connection.has_closed()
        await listener.stop()

    run(scenario())


def test_a_failed_or_endless_handshake_is_counted_and_gives_its_place_back(run: RunOnLoop, files: TlsFiles) -> None:
    async def scenario() -> None:
        recorder = Recorder()
        listener = listens(recorder, tls=files, tls_handshake_s=0.05)
        await listener.start()
        reader, writer = await dials(listener)
        writer.write(b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x3c\x00\x00")  # MQTT without TLS
        await reader.read()
        await leaves(writer)
        reader, writer = await dials(listener)  # and one that says nothing
        await reader.read()
        await leaves(writer)
        assert (listener.handshake_failed_count, listener.connection_count) == (2, 0)
        assert recorder.made == []
        await listener.stop()

    run(scenario())


def test_a_reload_serves_the_new_certificate_and_a_broken_one_changes_nothing(run: RunOnLoop, tmp_path: Path) -> None:
    async def scenario() -> None:
        old = writes_certificate(tmp_path, "first")
        recorder = Recorder()
        listener = listens(recorder, tls=old)
        await listener.start()

        async def name_served() -> str:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.load_verify_locations(old.certificate)
            _, writer = await dials(listener, ssl=context)
            connection = await recorder.next_opened()
            certificate = writer.get_extra_info("peercert")
            await leaves(writer)
            await connection.has_closed()
            return str(certificate["subject"][0][0][1])

        assert await name_served() == "first"
        good = old.private_key.read_bytes()
        old.private_key.write_bytes(b"no key")
        with pytest.raises(TlsFilesRefused, match=r"first\.key"):
            listener.read_tls()
        old.private_key.write_bytes(good)
        assert await name_served() == "first"

        new = writes_certificate(tmp_path, "second")
        new.certificate.replace(old.certificate)
        new.private_key.replace(old.private_key)
        listener.use_tls(listener.read_tls())
        assert await name_served() == "second"
        await listener.stop()

    run(scenario())


def test_files_that_are_no_certificate_or_have_a_pass_phrase_are_refused_in_our_words(
    files: TlsFiles, tmp_path: Path
) -> None:
    """OpenSSL would ask for the pass phrase at the terminal, and the whole gateway wait for it."""
    nonsense, locked = tmp_path / "nonsense.pem", tmp_path / "locked.key"
    nonsense.write_text("no certificate")
    key = serialization.load_pem_private_key(files.private_key.read_bytes(), None)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    locked.write_bytes(key.private_bytes(*form, serialization.BestAvailableEncryption(b"secret")))
    for wrong, words in (
        (replace(files, certificate=nonsense), r"nonsense\.pem with key .*: this is not a certificate and its own key"),
        (replace(files, certificate=tmp_path / "none.pem"), r"none\.pem with key .*: No such file or directory$"),
        (
            replace(files, private_key=locked),
            r"locked\.key: it is encrypted; allowed: one without a pass phrase$",
        ),
        (replace(files, client_authorities=nonsense), r"client authorities .*: this is not certificates in PEM"),
    ):
        with pytest.raises(TlsFilesRefused, match=words):
            wrong.context()


def test_verifying_clients_without_an_authority_is_refused(files: TlsFiles) -> None:
    alone = TlsFiles(
        certificate=files.certificate,
        private_key=files.private_key,
        client_certificates=ClientCertificates.REQUIRED,
    )
    with pytest.raises(TlsFilesRefused, match="no file of client authorities"):
        alone.context()
