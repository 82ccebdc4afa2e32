"""TLS beneath a stream: what is held back, how it ends, and records that are cut anywhere; on both event loops.

What streams in TLS have in common with others is in `test_listeners`.
"""

import asyncio
import gc
import secrets
import socket
import ssl
import struct
from pathlib import Path

import pytest

from sluicegate.protocols.transport.listeners import Listener
from sluicegate.protocols.transport.tls.context import ClientCertificates, TlsFiles
from sluicegate.protocols.transport.tls.transport import TlsTransport
from support.network.event_loops import RunOnLoop
from support.network.recorded_connection import RecordedConnection, Recorder
from support.network.recording_listener import dials, leaves, listens, meets, trusts, writes_certificate
from support.network.tls_records import TlsRecords

SENT = secrets.token_bytes(50_000)  # several records


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    """A self-signed certificate for localhost."""
    return writes_certificate(tmp_path_factory.mktemp("tls"), "localhost")


async def is_met(files: TlsFiles) -> tuple[Listener, TlsRecords, RecordedConnection]:
    """Start a listener; return it, a client by hand whose handshake is over, and the listener's side of it."""
    recorder = Recorder()
    listener = listens(recorder, tls=files)
    await listener.start()
    client = await TlsRecords.dials(listener, trusts(files))
    client.writer.write(await client.shakes_hands())
    return listener, client, await recorder.next_opened()


async def has_had_every_chance(listener: Listener, files: TlsFiles) -> None:
    """Let the loop read whatever there is to read: another client's way there and back."""
    reader, writer = await dials(listener, ssl=trusts(files), server_hostname="localhost")
    recorder = listener._connect.__self__  # type: ignore[attr-defined]  # the one that made its connections
    other = await recorder.next_opened()
    writer.write(b"?")
    await other.has_received(b"?")
    other.transport.write(b"!")
    assert await reader.readexactly(1) == b"!"
    await leaves(writer)
    await other.has_closed()


def shuts_down(writer: asyncio.StreamWriter) -> None:
    """Send TCP's end beneath whatever TLS has to say."""
    with writer.get_extra_info("socket").dup() as beneath:
        beneath.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("ends", ["in TLS", "by TCP", "in both"])
def test_bytes_sent_before_the_end_are_read_after_reading_resumes(run: RunOnLoop, files: TlsFiles, ends: str) -> None:
    """TLS transports of event loops may forget it: they read on while they are paused, and meet the end."""

    async def scenario() -> None:
        listener, client, connection = await is_met(files)
        client.writer.write(client.enclosed(b"?"))
        await connection.has_received(b"?")
        connection.transport.pause_reading()
        client.writer.write(client.enclosed(SENT))
        if ends != "by TCP":
            client.writer.write(client.end())
        if ends != "in TLS":
            client.writer.write_eof()
        await has_had_every_chance(listener, files)
        assert (connection.data, connection.ends) == (b"?", [])

        connection.transport.resume_reading()
        assert await connection.has_closed() is None
        assert connection.data == b"?" + SENT
        await leaves(client.writer)
        await listener.stop()

    run(scenario())


@pytest.mark.parametrize("ends", ["in TLS", "by TCP"])
def test_the_end_after_the_last_bytes_waits_until_these_are_handled(run: RunOnLoop, files: TlsFiles, ends: str) -> None:
    """A connection that has a request to carry out says so at the end of the turn in which it came."""

    async def scenario() -> None:
        listener, client, connection = await is_met(files)
        connection.pauses_on = b"request"
        client.writer.write(client.enclosed(b"request") + (client.end() if ends == "in TLS" else b""))
        if ends == "by TCP":
            client.writer.write_eof()
        await connection.has_received(b"request")
        await has_had_every_chance(listener, files)
        assert connection.ends == []
        connection.transport.write(b"answer")
        connection.transport.resume_reading()
        assert await connection.has_closed() is None
        assert await client.reads() == b"answer"
        await leaves(client.writer)
        await listener.stop()

    run(scenario())


def test_handshake_data_and_end_may_come_in_any_pieces(run: RunOnLoop, files: TlsFiles) -> None:
    async def scenario() -> None:
        recorder = Recorder()
        listener = listens(recorder, tls=files)
        await listener.start()
        for is_cut in (True, False):
            client = await TlsRecords.dials(listener, trusts(files))
            last = await client.shakes_hands() + client.enclosed(b"first") + client.enclosed(b"second") + client.end()
            for piece in [last[index : index + 1] for index in range(len(last))] if is_cut else [last]:
                client.writer.write(piece)
                await client.writer.drain()
                await asyncio.sleep(0)
            connection = await recorder.next_opened()
            assert await connection.has_closed() is None
            assert connection.data == b"firstsecond"
            await leaves(client.writer)
        assert (listener.connection_count, listener.handshake_failed_count) == (0, 0)
        await listener.stop()

    run(scenario())


def test_a_client_that_goes_in_the_middle_of_a_record_has_sent_those_before_it(run: RunOnLoop, files: TlsFiles) -> None:
    async def scenario() -> None:
        listener, client, connection = await is_met(files)
        client.writer.write(client.enclosed(SENT) + client.enclosed(b"never whole")[:-1])
        client.writer.write_eof()
        assert await connection.has_closed() is None
        assert connection.data == SENT
        await leaves(client.writer)
        await listener.stop()

    run(scenario())


def test_a_forged_record_ends_its_stream_and_no_other(run: RunOnLoop, files: TlsFiles) -> None:
    async def scenario() -> None:
        listener, client, connection = await is_met(files)
        records = bytearray(client.enclosed(b"true") + client.enclosed(b"forged"))
        records[-1] ^= 1
        client.writer.write(records + client.enclosed(b"behind it"))
        assert isinstance(await connection.has_closed(), ssl.SSLError)
        assert connection.data == b"true"
        await has_had_every_chance(listener, files)
        await leaves(client.writer)
        await listener.stop()

    run(scenario())


def test_large_data_is_decrypted_no_further_than_its_reader_wants(run: RunOnLoop, files: TlsFiles) -> None:
    """A connection may pause where something large ends: what came behind it in the same read waits."""

    async def scenario() -> None:
        listener, client, connection = await is_met(files)
        client.writer.write(client.enclosed(b"large follows"))
        await connection.has_received(b"large follows")
        large = Pausing(connection)
        connection.transport.read_into(large)
        client.writer.write(client.enclosed(SENT) + client.enclosed(b"behind it") + client.end())
        client.writer.write_eof()
        await connection.until(large.is_full)
        await has_had_every_chance(listener, files)
        assert (bytes(large.memory), connection.data, connection.ends) == (SENT, b"large follows", [])
        connection.transport.resume_reading()
        assert await connection.has_closed() is None
        assert connection.data == b"large followsbehind it"
        await leaves(client.writer)
        await listener.stop()

    run(scenario())


class Pausing:
    """Room for what is large; when it is full nothing more is wanted."""

    def __init__(self, connection: RecordedConnection) -> None:
        self.memory = bytearray(len(SENT))
        self._connection = connection
        self._placed_count = 0

    def is_full(self) -> bool:
        return self._placed_count == len(SENT)

    def buffer(self) -> memoryview | None:
        return None if self.is_full() else memoryview(self.memory)[self._placed_count :]

    def filled(self, count: int) -> None:
        self._placed_count += count
        if self.is_full():
            self._connection.transport.pause_reading()
            self._connection.tell()


@pytest.mark.parametrize("verb", ["close", "close_after_flush"])
def test_close_notify_follows_everything_else(run: RunOnLoop, files: TlsFiles, verb: str) -> None:
    """Else it could not tell it from an end that somebody in between has made."""

    async def scenario() -> None:
        listener, client, connection = await is_met(files)
        connection.transport.write_all([b"head", b"", SENT])
        connection.transport.write(b"")
        getattr(connection.transport, verb)()
        connection.transport.write(b"late")
        came = b""
        while piece := await client.reads():
            came += piece
        assert came == b"head" + SENT
        client.writer.write(client.enclosed(b"too late"))
        await leaves(client.writer)
        await connection.has_closed()
        assert connection.data == b""
        await listener.stop()

    run(scenario())


def test_a_client_that_is_refused_learns_why(run: RunOnLoop, tmp_path: Path) -> None:
    async def scenario() -> None:
        files = writes_certificate(tmp_path, "localhost", client_certificates=ClientCertificates.REQUIRED)
        recorder = Recorder()
        listener = listens(recorder, tls=files)
        await listener.start()
        told: list[tuple[str, str]] = []
        listener.on_handshake_failed = lambda host, reason: told.append((host, reason))
        client = await TlsRecords.dials(listener, trusts(files))
        client.writer.write(await client.shakes_hands())
        with pytest.raises(ssl.SSLError, match=r"(?i)certificate required"):
            await client.reads()
        assert [host for host, _ in told] == ["127.0.0.1"]
        assert "peer did not return a certificate" in told[0][1]
        assert (listener.connection_count, listener.handshake_failed_count, recorder.made) == (0, 1, [])
        await leaves(client.writer)
        await listener.stop()

    run(scenario())


def test_handshakes_that_their_client_gives_up_are_counted_and_those_the_listener_gives_up_are_not(
    run: RunOnLoop, files: TlsFiles
) -> None:
    async def scenario() -> None:
        recorder = Recorder()
        listener = listens(recorder, tls=files)
        await listener.start()
        gone = await TlsRecords.dials(listener, trusts(files))
        await gone.shakes_hands()
        gone.writer.write_eof()
        await has_ended(gone.writer, listener)
        assert (listener.connection_count, listener.handshake_failed_count) == (0, 1)

        waiting = await TlsRecords.dials(listener, trusts(files))
        await waiting.shakes_hands()
        assert listener.connection_count == 1
        await listener.stop()
        assert (listener.connection_count, listener.handshake_failed_count) == (0, 1)
        await leaves(waiting.writer)
        assert recorder.made == []

    run(scenario())


@pytest.mark.parametrize("is_first", [True, False])
def test_a_connection_reset_in_the_handshake_is_reported_with_the_client_s_address(
    run: RunOnLoop, files: TlsFiles, is_first: bool
) -> None:
    """The kernel forgets a peer's address with the reset."""

    async def scenario() -> None:
        told: list[str] = []
        listener = listens(Recorder(), tls=files)
        listener.on_handshake_failed = lambda host, _: told.append(host)
        await listener.start()
        client = await TlsRecords.dials(listener, trusts(files))
        if not is_first:
            await client.shakes_hands()
        accepted = client.writer.get_extra_info("socket")
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close resets
        client.writer.transport.abort()
        while not told:
            await asyncio.sleep(0)
        assert told == ["127.0.0.1"]
        await listener.stop()

    run(scenario())


async def has_ended(writer: asyncio.StreamWriter, listener: Listener) -> None:
    while listener.connection_count:
        await asyncio.sleep(0)
    await leaves(writer)


def test_streams_that_close_are_free_at_once(run: RunOnLoop, files: TlsFiles) -> None:
    """Without the cycle collector, which comes late (docs/decisions/0007)."""

    async def scenario() -> None:
        listener, _, writer, connection = await meets(files)
        writer.write(b"ping")
        await connection.has_received(b"ping")
        await leaves(writer)
        await connection.has_closed()
        await asyncio.sleep(0)
        del connection.transport
        assert [each for each in gc.get_objects() if isinstance(each, TlsTransport)] == []
        await listener.stop()

    gc.collect()
    gc.disable()
    try:
        run(scenario())
    finally:
        gc.enable()
