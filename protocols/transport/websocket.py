"""WebSocket (RFC 6455): a connection around a connection, which turns frames into the byte stream inside them.

To a listener it is a `Connection`, to the protocol inside it is the `ByteTransport`. The framing and the handshake are
those of the `websockets` library's sans-IO protocol; the policy is ours: which path and subprotocols are served, to
pages of which origins, that only binary frames are [MQTT 6.0.0-1], and how a stream ends. Frames and packets are
independent [MQTT 6.0.0-2]: the content of a frame goes in as it comes, a fragment too. Compression is never negotiated:
its windows would cost more memory than everything else about an idle connection.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from typing import Final

from websockets.exceptions import InvalidMessage
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import Event, State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from sluicegate.protocols.transport.deadlines import Deadline, Deadlines
from sluicegate.protocols.transport.interface import (
    ByteTransport,
    Connection,
    ConnectionFactory,
    PeerInfo,
    PeerRecord,
    ReadTarget,
)
from sluicegate.protocols.transport.origins import OriginRefusal, WebPages, authority_of
from sluicegate.protocols.transport.unfinished import COUNTED_BYTES_MIN, UnfinishedBytes, UnfinishedShare

ABSOLUTE: Final = re.compile(r"^https?://[^/?#]*", re.IGNORECASE)  # what a target may begin with [RFC 6455 4.2.1]
UPGRADE_S: Final = 10.0  # from the open stream to the whole upgrade request, as for a TLS handshake
MESSAGE_BYTES_MAX: Final = 1 << 20  # clients put a packet, or a socket write of several, into one message
SENT_BYTES_MAX: Final = 256 * 1024  # of one message to the client, which mostly holds a whole one before it reads it
PIECE_BYTES: Final = 8192  # of a read that the library gets at a time: at most 1,365 frames of 40 us
EVENTS_PER_TURN_MAX: Final = 256  # then others have their turn; the rest of a read waits, and the socket with it
BUFFERED_BYTES_MAX: Final = 8 << 20  # a peer that pings and never reads is cut when pongs find this much waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSocketSettings:
    """What an upgrade request has to match."""

    pages: WebPages  # which web pages may use the port
    on_foreign: Callable[[PeerInfo, OriginRefusal], None]  # is told of refused requests
    # In our order of preference. A client that offers none of them is refused. MQTT's names: 3.1 clients knew the
    # second only, and a client that offers both speaks 3.1.1 or 5 [MQTT 6.0.0-3] [MQTT 6.0.0-4].
    subprotocols: tuple[str, ...] = ("mqtt", "mqttv3.1")
    path: str = "/mqtt"
    message_bytes_max: int = MESSAGE_BYTES_MAX  # a larger one closes with 1009
    upgrade_s: float = UPGRADE_S
    unfinished: UnfinishedBytes  # of all clients of the node: of frames, here


def over_websocket(connect: ConnectionFactory, settings: WebSocketSettings) -> ConnectionFactory:
    """Return a factory of WebSocket connections, each with a connection of `connect` inside."""
    upgrades = Deadlines(settings.upgrade_s)
    return lambda: WebSocketConnection(connect=connect, settings=settings, upgrades=upgrades)


class _Phase(Enum):
    UPGRADING = "upgrading"  # the connection inside does not exist yet
    OPEN = "open"
    CLOSING = "closing"  # our last frame is written; input is discarded


class WebSocketConnection:
    """One peer's WebSocket. The connection inside is made when the upgrade succeeds, so a refused one costs little.

    Invariant: the connection inside is `opened` at most once, and `closed` exactly once if it was.
    """

    __slots__ = (
        "_connect",
        "_deadline",
        "_frames",
        "_inside",
        "_is_paused",
        "_peer",
        "_phase",
        "_settings",
        "_stream",
        "_unfinished",
        "_upgrades",
        "_waiting",
    )

    _stream: ByteTransport
    _peer: PeerInfo

    def __init__(self, *, connect: ConnectionFactory, settings: WebSocketSettings, upgrades: Deadlines) -> None:
        self._connect = connect
        self._settings = settings
        self._frames = ServerProtocol(
            subprotocols=[Subprotocol(name) for name in settings.subprotocols],
            extensions=None,
            max_size=settings.message_bytes_max,
        )
        self._inside: Connection | None = None
        self._phase = _Phase.UPGRADING
        self._is_paused = False  # by the connection inside
        self._waiting = b""  # of a read, for the next turn; the stream is paused until then
        self._unfinished: UnfinishedShare | None = None  # of a frame that is not whole, if much of it has come
        self._upgrades = upgrades
        self._deadline: Deadline | None = None

    def __repr__(self) -> str:
        return f"WebSocketConnection({self._phase.value}, {self._inside!r})"

    # What the stream tells: Connection.

    def opened(self, transport: ByteTransport, peer: PeerInfo) -> None:
        """Wait for the upgrade request, for a limited time."""
        self._stream = transport
        self._peer = peer
        self._deadline = self._upgrades.begin(transport.abort)

    def received(self, data: bytes) -> None:
        """Take bytes of the upgrade request or of frames, as many as one turn is for."""
        if self._waiting:
            self._waiting += data
            return
        events_count = 0
        for start in range(0, len(data), PIECE_BYTES):
            if events_count > EVENTS_PER_TURN_MAX and self._phase is not _Phase.CLOSING:
                self._waiting = data[start:]
                self._stream.pause_reading()
                asyncio.get_running_loop().call_soon(self._go_on)
                break
            self._frames.receive_data(data[start : start + PIECE_BYTES])
            if self._phase is not _Phase.CLOSING:
                events = self._frames.events_received()
                events_count += len(events)
                self._take_events(events)
                if self._phase is _Phase.UPGRADING and isinstance(self._frames.handshake_exc, InvalidMessage):
                    self._refuse_what_is_no_request(self._frames.handshake_exc)
        self._flush()
        self._count_unfinished()

    def _count_unfinished(self) -> None:
        """Count the bytes of an unfinished frame among those of all clients."""
        held_bytes = len(self._frames.reader.buffer)
        if held_bytes >= COUNTED_BYTES_MIN or self._unfinished is not None:
            self._unfinished = self._settings.unfinished.count(self._unfinished, held_bytes, self._give_up)

    def _give_up(self) -> None:
        asyncio.get_running_loop().call_soon(self._end_unfinished)

    def _end_unfinished(self) -> None:
        """End, unless the frame is complete meanwhile: all clients together have too much unfinished input."""
        if self._phase is _Phase.OPEN and len(self._frames.reader.buffer) >= COUNTED_BYTES_MIN:
            self._frames.fail(CloseCode.TRY_AGAIN_LATER, "too much unfinished input")
            self._flush()

    def closed(self, error: Exception | None) -> None:
        """The stream is gone, with a Close frame before or without."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._phase = _Phase.CLOSING
        self._frames.reader.buffer.clear()
        self._count_unfinished()
        inside, self._inside = self._inside, None
        if inside is not None:
            inside.closed(error)

    def writing_paused(self) -> None:
        """Pass it inwards."""
        if self._inside is not None:
            self._inside.writing_paused()

    def writing_resumed(self) -> None:
        """Pass it inwards."""
        if self._inside is not None:
            self._inside.writing_resumed()

    # What the connection inside asks for: ByteTransport.

    def write(self, data: bytes) -> None:
        """Send as binary messages, unless the client has sent Close: nothing more may follow that."""
        if self._phase is _Phase.OPEN and self._frames.state is State.OPEN:
            for start in range(0, len(data), SENT_BYTES_MAX):
                self._frames.send_binary(data[start : start + SENT_BYTES_MAX])
            self._stream.write(b"".join(self._frames.data_to_send()))

    def write_all(self, buffers: list[bytes]) -> None:
        """Send each as messages of its own: their borders mean nothing [MQTT 6.0.0-2]."""
        for data in buffers:
            self.write(data)

    def close(self) -> None:
        """Send a Close frame after what is buffered, and close."""
        if self._send_close(CloseCode.NORMAL_CLOSURE):
            self._stream.close()

    def close_after_flush(self) -> None:
        """Send a Close frame after what is buffered, and give the peer time to read it."""
        if self._send_close(CloseCode.NORMAL_CLOSURE):
            self._stream.close_after_flush()

    def abort(self) -> None:
        """Close the stream at once, without a Close frame."""
        self._phase = _Phase.CLOSING
        self._stream.abort()

    def pause_reading(self) -> None:
        """Pause the stream; control frames wait too."""
        self._is_paused = True
        self._stream.pause_reading()

    def resume_reading(self) -> None:
        """Resume the stream."""
        self._is_paused = False
        if not self._waiting:
            self._stream.resume_reading()

    def read_into(self, target: ReadTarget) -> None:
        """Go on as before: what comes is masked, and a copy without the mask is what is received."""

    def buffered_bytes(self) -> int:
        """Return what the stream has not sent, frame headers included."""
        return self._stream.buffered_bytes()

    def direct(self) -> ByteTransport:
        """Return the stream."""
        return self

    def hand_over(self, connection: Connection) -> None:
        """Have another connection go on inside."""
        if self._inside is not None:
            self._inside = connection

    # Upgrade, frames, end.

    def _go_on(self) -> None:
        """Handle the rest of a read. When it is done, the next may come."""
        waiting, self._waiting = self._waiting, b""
        if self._phase is not _Phase.CLOSING:
            try:
                self.received(waiting)
            except Exception:  # as the transport does with what fails within a read
                self.abort()
                raise
        if not self._waiting and not self._is_paused and self._phase is not _Phase.CLOSING:
            self._stream.resume_reading()

    def _take_events(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, Request):
                self._upgrade(event)
            elif isinstance(event, Frame) and self._inside is not None:
                if event.opcode is Opcode.TEXT:
                    self._frames.fail(CloseCode.UNSUPPORTED_DATA, "binary frames only")
                    return
                # Ping, pong and close are answered by the library.
                if event.opcode in (Opcode.BINARY, Opcode.CONT) and event.data:
                    self._inside.received(bytes(event.data))
            if self._phase is _Phase.CLOSING:
                return

    def _upgrade(self, request: Request) -> None:
        if self._frames.close_expected():  # what follows the request in the same read is no frame
            return
        response = self._response_to(request)
        self._frames.send_response(response)
        if response.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
            return
        self._stream.write(b"".join(self._frames.data_to_send()))
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._phase = _Phase.OPEN
        self._inside = self._connect()
        peer = self._peer
        inner = PeerRecord(
            peer.listener,
            peer.host,
            peer.port,
            is_encrypted=peer.is_encrypted,
            alpn=peer.alpn,
            certificate_name=peer.certificate_name,
            subprotocol=self._frames.subprotocol,
        )
        self._inside.opened(self, inner)

    def _response_to(self, request: Request) -> Response:
        """Return the response to an upgrade request."""
        if ABSOLUTE.sub("", request.path).partition("?")[0] != self._settings.path:
            text = f"no WebSocket at this path, only at {self._settings.path}\n"
            return self._frames.reject(HTTPStatus.NOT_FOUND, text)
        if len(request.headers.get_all("Host")) != 1:  # [RFC 6455 4.2.1]; the library does not look
            return self._frames.reject(HTTPStatus.BAD_REQUEST, "not one Host header\n")
        foreign = self._foreign(request)
        if foreign is not None:
            self._settings.on_foreign(self._peer, foreign)
            return self._frames.reject(HTTPStatus(foreign.status), f"{foreign.title}: {foreign.detail}\n")
        offered = [each.strip().lower() for each in ",".join(request.headers.get_all("Upgrade")).split(",")]
        if "websocket" in offered:  # the library knows no list; what else is in it is passed over [RFC 9110 7.8]
            del request.headers["Upgrade"]
            request.headers["Upgrade"] = "websocket"
        try:
            response = self._frames.accept(request)
        except UnicodeEncodeError:  # it would answer with the bytes that it does not understand
            response = self._frames.reject(HTTPStatus.BAD_REQUEST, "a header of the handshake is not ASCII\n")
        if response.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
            response.headers["Sec-WebSocket-Version"] = "13"  # a client of another one has to be told [RFC 6455 4.2.2]
        return response

    def _foreign(self, request: Request) -> OriginRefusal | None:
        """Return why a request of a web page is refused, None if it is not [RFC 6455 4.2.2, 10.2]."""
        headers = request.headers
        host = authority_of(request.path) or headers["Host"]
        return self._settings.pages.refusal(
            host, ", ".join(headers.get_all("Origin")), ", ".join(headers.get_all("Sec-Fetch-Site"))
        )

    def _refuse_what_is_no_request(self, malformed: InvalidMessage) -> None:
        """Answer what the library only hangs up on [RFC 6455 4.2.2]."""
        what = str(malformed.__cause__ or malformed).encode("ascii", "backslashreplace").decode()
        response = self._frames.reject(HTTPStatus.BAD_REQUEST, f"no request for a WebSocket: {what:.200}\n")
        self._stream.write(response.serialize())

    def _flush(self) -> None:
        """Send the library's output. An empty chunk in it means the end of our side."""
        chunks = self._frames.data_to_send()
        if not chunks or self._phase is _Phase.CLOSING:
            return
        self._stream.write(b"".join(chunks))
        if self._stream.buffered_bytes() > BUFFERED_BYTES_MAX:
            self.abort()
        elif b"" in chunks or self._frames.close_expected():
            self._phase = _Phase.CLOSING
            self._stream.close_after_flush()

    def _send_close(self, code: CloseCode) -> bool:
        """Send a Close frame if one can still be sent; False when the end has begun already."""
        if self._phase is not _Phase.OPEN:
            return False
        self._phase = _Phase.CLOSING
        if self._frames.state is State.OPEN:  # the library has answered a Close that came in the same read
            self._frames.send_close(code)
        self._stream.write(b"".join(self._frames.data_to_send()))
        return True
