"""WebSocket: the upgrade, frames into bytes and back, and every way to end. RFC 6455; MQTT 5.0 section 6."""

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.client import connect as websocket_connect
from websockets.client import ClientProtocol
from websockets.exceptions import ConnectionClosedOK
from websockets.frames import Frame
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from sluicegate.protocols.transport.deadlines import Deadlines
from sluicegate.protocols.transport.interface import ByteTransport, Connection, PeerRecord, ReadTarget
from sluicegate.protocols.transport.listeners import Listener
from sluicegate.protocols.transport.origins import OriginRefusal
from sluicegate.protocols.transport.websocket import (
    EVENTS_PER_TURN_MAX,
    PIECE_BYTES,
    SENT_BYTES_MAX,
    WebSocketConnection,
    over_websocket,
)
from support.network.event_loops import RunOnLoop
from support.network.recorded_connection import RecordedConnection, Recorder
from support.network.websocket_settings import for_everybody

HOST = "192.0.2.1"


class PretendStream:
    """The stream below a WebSocket: what is written lies in a list, how it was closed is a word."""

    def __init__(self) -> None:
        self.written = b""
        self.ending: str | None = None
        self.waiting_bytes = 0
        self.is_read = True

    def write(self, data: bytes) -> None:
        self.written += data

    def write_all(self, buffers: list[bytes]) -> None:
        self.written += b"".join(buffers)

    def close(self) -> None:
        self.ending = self.ending or "closed"

    def close_after_flush(self) -> None:
        self.ending = self.ending or "lingering"

    def abort(self) -> None:
        self.ending = self.ending or "aborted"

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def read_into(self, target: ReadTarget) -> None:
        pass

    def buffered_bytes(self) -> int:
        return self.waiting_bytes

    def direct(self) -> ByteTransport:
        return self

    def hand_over(self, connection: Connection) -> None:
        pass


class Dialogue:
    """A WebSocket client and our connection on a pretend wire. Needs a running loop, for the upgrade's deadline."""

    def __init__(self, *, message_bytes_max: int = 1000) -> None:
        self.inside = RecordedConnection()
        self.stream = PretendStream()
        self.foreign: list[OriginRefusal] = []
        settings = for_everybody(
            message_bytes_max=message_bytes_max, on_foreign=lambda _, foreign: self.foreign.append(foreign)
        )
        self.ours = WebSocketConnection(
            connect=lambda: self.inside, settings=settings, upgrades=Deadlines(settings.upgrade_s)
        )
        self.ours.opened(self.stream, PeerRecord(listener="test", host=HOST, port=4711))

    def dial(self, *, offers: list[str] | None = None, path: str = "/mqtt") -> None:
        offered = [Subprotocol(name) for name in (["mqtt"] if offers is None else offers)]
        self.client = ClientProtocol(parse_uri(f"ws://localhost{path}"), subprotocols=offered or None)
        self.client.send_request(self.client.connect())
        self.exchange()

    def exchange(self) -> None:
        """Carry bytes both ways until neither side has more to say."""
        while sent := b"".join(self.client.data_to_send()):
            self.ours.received(sent)
            self.client.receive_data(self.stream.written)
            self.stream.written = b""

    def hears(self) -> list[bytes]:
        """Return the payloads of the frames the client got."""
        self.client.receive_data(self.stream.written)
        self.stream.written = b""
        return [bytes(event.data) for event in self.client.events_received() if isinstance(event, Frame)]

    def close_code(self) -> int | None:
        """Return the code of the Close frame the client got."""
        return None if self.client.close_rcvd is None else int(self.client.close_rcvd.code)

    def leave(self) -> None:
        self.ours.closed(None)


@pytest.fixture
def dialogue(event_loop_runs: None) -> Dialogue:
    return Dialogue()


@pytest.fixture
def event_loop_runs() -> Iterator[None]:
    """Let `asyncio.get_running_loop` answer in a test that awaits nothing."""
    loop = asyncio.new_event_loop()
    asyncio._set_running_loop(loop)
    yield
    asyncio._set_running_loop(None)
    loop.close()


@pytest.mark.parametrize(
    ("offers", "selected"),
    [
        (["mqtt"], "mqtt"),
        (["mqttv3.1"], "mqttv3.1"),
        (["mqttv3.1", "mqtt"], "mqtt"),
        (["chat", "mqtt"], "mqtt"),
    ],
)
def test_an_upgrade_selects_a_subprotocol(dialogue: Dialogue, offers: list[str], selected: str) -> None:
    """[MQTT 6.0.0-3] the client must offer it, [MQTT 6.0.0-4] the server must select it."""
    dialogue.dial(offers=offers)
    assert dialogue.client.subprotocol == selected
    assert dialogue.inside.peer.subprotocol == selected
    assert dialogue.inside.peer.host == HOST


@pytest.mark.parametrize("offers", [[], ["chat"]])
def test_an_upgrade_without_a_subprotocol_of_ours_is_refused(dialogue: Dialogue, offers: list[str]) -> None:
    dialogue.dial(offers=offers)
    assert "400" in str(dialogue.client.handshake_exc)
    assert dialogue.stream.ending == "lingering"
    assert not hasattr(dialogue.inside, "transport")


@pytest.mark.parametrize(("path", "is_found"), [("/mqtt?token=1", True), ("/", False), ("/mqtt/", False)])
def test_only_the_path_configured_is_served(dialogue: Dialogue, path: str, is_found: bool) -> None:
    dialogue.dial(path=path)
    assert hasattr(dialogue.inside, "transport") is is_found
    assert ("404" in str(dialogue.client.handshake_exc)) is not is_found


UPGRADE = (
    b"GET /mqtt HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Protocol: mqtt\r\n\r\n"
)


@pytest.mark.parametrize(
    ("request_bytes", "status", "reason"),
    [
        (UPGRADE.replace(b"\r\n\r\n", b"\r\nOrigin: http://localhost:3000\r\n\r\n"), 403, "foreign_origin"),
        (UPGRADE.replace(b"Host: localhost", b"Host: evil.example"), 421, "foreign_host"),
        (UPGRADE.replace(b"GET /mqtt", b"GET http://evil.example/mqtt"), 421, "foreign_host"),
    ],
    ids=["origin", "host", "absolute target"],
)
def test_an_upgrade_for_a_foreign_page_is_refused(
    dialogue: Dialogue, request_bytes: bytes, status: int, reason: str
) -> None:
    """[RFC 6455 4.2.2, 10.2]: before there is a connection in it; RFC 9112 3.2.2: of a whole URL its host counts."""
    dialogue.ours.received(request_bytes)
    assert dialogue.stream.written.startswith(b"HTTP/1.1 %d " % status)
    assert [each.reason for each in dialogue.foreign] == [reason]
    assert dialogue.stream.ending == "lingering"
    assert not hasattr(dialogue.inside, "transport")


def test_an_upgrade_for_a_page_of_the_port_itself_is_granted(dialogue: Dialogue) -> None:
    dialogue.ours.received(UPGRADE.replace(b"\r\n\r\n", b"\r\nOrigin: http://localhost\r\n\r\n"))
    assert dialogue.stream.written.startswith(b"HTTP/1.1 101 ")
    assert dialogue.foreign == []
    dialogue.leave()


@pytest.mark.parametrize(
    ("request_bytes", "text"),
    [
        (b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x3c\x00\x00\r\n\r\n", b"invalid HTTP request line"),
        (UPGRADE.replace(b"HTTP/1.1", b"HTTP/1.0"), b"expected HTTP/1.1"),
        (UPGRADE.replace(b"GET", b"POST"), b"expected GET"),
        (UPGRADE.replace(b"Host: ", b"Host : "), b"invalid HTTP header"),
        (UPGRADE.replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\nhello"), b"request body"),
        (UPGRADE.replace(b"Host", b"Hast"), b"Host"),
        (UPGRADE.replace(b"Upgrade: web", b"Host: other\r\nUpgrade: web"), b"Host"),
        (UPGRADE.replace(b": mqtt", b": mqtt, \xc3\xa9"), b"not ASCII"),
        (UPGRADE.replace(b": Upgrade", b": Upgrade, \xff"), b"not ASCII"),
    ],
)
def test_an_invalid_upgrade_request_gets_the_reason(dialogue: Dialogue, request_bytes: bytes, text: bytes) -> None:
    """[RFC 6455 4.2.2]: with a status, and the end of the stream. Nothing of it is a fault of ours."""
    dialogue.ours.received(request_bytes)
    head, _, body = dialogue.stream.written.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert text in body
    assert dialogue.stream.ending == "lingering"
    assert not hasattr(dialogue.inside, "transport")


def test_a_client_of_another_version_gets_ours(dialogue: Dialogue) -> None:
    """[RFC 6455 4.2.2] [RFC 6455 4.4]."""
    dialogue.ours.received(UPGRADE.replace(b": 13", b": 8"))
    assert b"\r\nSec-WebSocket-Version: 13\r\n" in dialogue.stream.written
    assert dialogue.stream.ending == "lingering"


@pytest.mark.parametrize(
    "upgrade",
    [b"Upgrade: h2c, WebSocket", b"Upgrade: websocket, h2c", b"Upgrade: h2c\r\nUpgrade: websocket"],
)
def test_a_client_may_offer_other_protocols_too(dialogue: Dialogue, upgrade: bytes) -> None:
    """RFC 9110 7.8: a server passes over those that it does not know; the answer names the one that it has chosen."""
    dialogue.ours.received(UPGRADE.replace(b"Upgrade: websocket", upgrade))
    head = dialogue.stream.written
    assert head.startswith(b"HTTP/1.1 101 ")
    assert b"\r\nUpgrade: websocket\r\n" in head


@pytest.mark.parametrize("upgrade", [b"Upgrade: h2c", b"Upgrade: websockets, h2c", b"X: websocket"])
def test_a_client_that_offers_no_websocket_gets_none(dialogue: Dialogue, upgrade: bytes) -> None:
    """[RFC 6455 4.2.1]."""
    dialogue.ours.received(UPGRADE.replace(b"Upgrade: websocket", upgrade))
    assert not dialogue.stream.written.startswith(b"HTTP/1.1 101 ")


@pytest.mark.parametrize("target", [b"http://gate.example:8000/mqtt", b"HTTPS://gate.example/mqtt?token=1"])
def test_a_target_may_name_the_host_too(dialogue: Dialogue, target: bytes) -> None:
    """[RFC 6455 4.2.1]."""
    dialogue.ours.received(UPGRADE.replace(b"/mqtt", target))
    assert dialogue.stream.written.startswith(b"HTTP/1.1 101 ")


def test_frames_and_fragments_become_one_byte_stream(dialogue: Dialogue) -> None:
    """[MQTT 6.0.0-2] packets are not aligned on frame boundaries; control frames come between fragments."""
    dialogue.dial()
    dialogue.client.send_binary(b"one")
    dialogue.client.send_binary(b"two", fin=False)
    dialogue.client.send_ping(b"still there?")
    dialogue.client.send_continuation(b"", fin=False)
    dialogue.client.send_continuation(b"three", fin=True)
    sent = b"".join(dialogue.client.data_to_send())
    for position in range(len(sent)):
        dialogue.ours.received(sent[position : position + 1])
    assert dialogue.inside.data == b"onetwothree"
    assert dialogue.hears() == [b"still there?"]


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_read_of_thousands_of_frames_is_taken_over_several_turns(run: RunOnLoop, *, is_paused: bool) -> None:
    """A frame takes 40 us whatever is in it, so one read of a stranger's held up everybody else for two seconds."""

    async def scenario() -> None:
        dialogue = Dialogue()
        dialogue.dial()
        frame, frames = b"\x82\x81\0\0\0\0a", 40_000
        of_a_turn = EVENTS_PER_TURN_MAX + PIECE_BYTES // len(frame)
        dialogue.ours.received(frame * frames)
        if is_paused:
            dialogue.ours.pause_reading()
        turns = 1
        while len(dialogue.inside.data) < frames:
            assert len(dialogue.inside.data) <= turns * of_a_turn
            assert not dialogue.stream.is_read
            dialogue.ours.resume_reading()  # of the connection inside, as whatever it may say meanwhile
            assert not dialogue.stream.is_read
            if is_paused:
                dialogue.ours.pause_reading()
            await asyncio.sleep(0)
            turns += 1

        assert turns >= frames // of_a_turn
        assert dialogue.stream.is_read is not is_paused
        dialogue.ours.resume_reading()
        assert dialogue.stream.is_read
        dialogue.leave()

    run(scenario())


def test_a_failure_in_a_later_turn_ends_its_connection(run: RunOnLoop) -> None:
    async def scenario() -> None:
        dialogue = Dialogue()
        dialogue.dial()
        told: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
        dialogue.inside.fails_on = b"b"
        dialogue.ours.received(b"\x82\x81\0\0\0\0a" * 10_000 + b"\x82\x81\0\0\0\0b")
        while not told:
            await asyncio.sleep(0)

        assert dialogue.stream.ending == "aborted"
        dialogue.leave()

    run(scenario())


def test_the_rest_of_a_read_is_dropped_when_the_stream_is_gone(run: RunOnLoop) -> None:
    async def scenario() -> None:
        dialogue = Dialogue()
        dialogue.dial()
        dialogue.ours.received(b"\x82\x81\0\0\0\0a" * 40_000)
        dialogue.leave()
        heard = len(dialogue.inside.data)
        await asyncio.sleep(0)

        assert len(dialogue.inside.data) == heard

    run(scenario())


def test_each_write_becomes_one_binary_message(dialogue: Dialogue) -> None:
    dialogue.dial()
    dialogue.inside.transport.write(b"\x20\x02")
    dialogue.inside.transport.write(b"\x00\x00")
    assert dialogue.hears() == [b"\x20\x02", b"\x00\x00"]


def test_a_large_write_is_cut_into_messages_of_bounded_size(dialogue: Dialogue) -> None:
    """[6.0.0-2]: a client mostly collects a message before it reads it, so one turn's writing is not one message."""
    dialogue.dial()
    data = bytes(range(256)) * 1024 * 2 + b"rest"
    dialogue.inside.transport.write(data)
    heard = dialogue.hears()
    assert [len(message) for message in heard] == [SENT_BYTES_MAX, SENT_BYTES_MAX, 4]
    assert b"".join(heard) == data


def test_a_text_frame_closes_with_1003_and_nothing_after_it_is_read(dialogue: Dialogue) -> None:
    """[MQTT 6.0.0-1] any other frame type: the receiver must close the network connection."""
    dialogue.dial()
    dialogue.client.send_binary(b"good")
    dialogue.client.send_text(b"bad", fin=False)
    dialogue.client.send_continuation(b"worse", fin=True)
    dialogue.client.send_binary(b"late")
    dialogue.exchange()
    assert dialogue.close_code() == 1003
    assert dialogue.inside.data == b"good"
    assert dialogue.stream.ending == "lingering"


@pytest.mark.parametrize("is_fragmented", [False, True])
def test_a_message_over_the_limit_closes_with_1009(event_loop_runs: None, is_fragmented: bool) -> None:
    dialogue = Dialogue(message_bytes_max=10)
    dialogue.dial()
    if is_fragmented:
        dialogue.client.send_binary(b"123456", fin=False)
        dialogue.client.send_continuation(b"78901", fin=True)
    else:
        dialogue.client.send_binary(b"12345678901")
    dialogue.exchange()
    assert dialogue.close_code() == 1009
    assert dialogue.stream.ending == "lingering"


def test_a_close_frame_is_answered_and_the_end_is_reported_once(dialogue: Dialogue) -> None:
    """Without an MQTT DISCONNECT before it this is an abnormal end; the connection inside decides that."""
    dialogue.dial()
    dialogue.client.send_close(1000)
    dialogue.exchange()
    assert dialogue.close_code() == 1000
    assert dialogue.stream.ending == "lingering"
    dialogue.leave()
    assert dialogue.inside.ends == [None]


def test_a_goodbye_from_inside_is_the_last_thing_sent(dialogue: Dialogue) -> None:
    dialogue.dial()
    transport = dialogue.inside.transport
    transport.write(b"disconnect")
    transport.close_after_flush()
    transport.write(b"late")
    transport.close()
    assert dialogue.hears()[0] == b"disconnect"
    assert dialogue.close_code() == 1000
    assert dialogue.stream.ending == "lingering"


def test_a_goodbye_from_inside_behind_a_close_frame_of_the_same_read_is_no_second_close(dialogue: Dialogue) -> None:
    """RFC 6455 5.5.1: one Close frame each. mqtt.js sends DISCONNECT and Close in one segment."""
    dialogue.dial()
    dialogue.client.send_binary(b"DISCONNECT")
    dialogue.client.send_close(1000)
    dialogue.inside.closes_on = b"DISCONNECT"

    dialogue.exchange()

    assert dialogue.close_code() == 1000
    assert dialogue.stream.ending == "closed"


def test_a_peer_that_pings_and_never_reads_is_cut_off(dialogue: Dialogue) -> None:
    dialogue.dial()
    dialogue.stream.waiting_bytes = 9 << 20
    dialogue.client.send_ping(b"again")
    dialogue.exchange()
    assert dialogue.stream.ending == "aborted"


@given(
    prefix=st.sampled_from([b"", UPGRADE[:-2], UPGRADE, UPGRADE.replace(b"/mqtt", b"/")]),
    reads=st.lists(st.binary(min_size=1, max_size=40), max_size=8),
    is_one_read=st.booleans(),
)
def test_no_input_raises_or_opens_the_inside_twice(prefix: bytes, reads: list[bytes], is_one_read: bool) -> None:
    """Goal: whatever a stranger sends, only the stream ends. Method: an upgrade, whole or cut, then noise."""

    async def scenario() -> None:
        dialogue = Dialogue()
        sent = [prefix, *reads]
        for data in [b"".join(sent)] if is_one_read else sent:
            if data and dialogue.stream.ending is None:
                dialogue.ours.received(data)
        dialogue.leave()
        assert len(dialogue.inside.ends) == int(hasattr(dialogue.inside, "transport"))

    asyncio.run(scenario())


def test_an_upgrade_that_never_comes_ends_the_stream(run: RunOnLoop) -> None:
    async def scenario() -> None:
        recorder = Recorder()
        settings = for_everybody(upgrade_s=0.05)
        listener = Listener(name="ws", host="127.0.0.1", port=0, connect=over_websocket(recorder.connect, settings))
        await listener.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(b"GET /mqtt HTTP/1.1\r\n")
        assert await reader.read() == b""
        assert recorder.made == []
        writer.close()
        await listener.stop()

    run(scenario())


def test_a_foreign_client_talks_over_a_real_socket(run: RunOnLoop) -> None:
    async def scenario() -> None:
        recorder = Recorder()
        connect = over_websocket(recorder.connect, for_everybody())
        listener = Listener(name="ws", host="127.0.0.1", port=0, connect=connect)
        await listener.start()
        url = f"ws://127.0.0.1:{listener.port}/mqtt"
        async with websocket_connect(url, subprotocols=[Subprotocol("mqtt")], proxy=None) as client:
            inside = await recorder.next_opened()
            await client.send([b"fragment ", b"by ", b"fragment"])
            await inside.has_received(b"fragment by fragment")
            inside.transport.write(bytes(1 << 20))
            received = b""
            while len(received) < 1 << 20:  # cut into messages of bounded size
                piece = await client.recv()
                assert isinstance(piece, bytes)
                received += piece
            assert received == bytes(1 << 20)
            inside.transport.write(b"goodbye")
            inside.transport.close_after_flush()
            assert await client.recv() == b"goodbye"
            with pytest.raises(ConnectionClosedOK):
                await client.recv()
        await inside.has_closed()
        assert listener.connection_count == 0
        await listener.stop()

    run(scenario())
