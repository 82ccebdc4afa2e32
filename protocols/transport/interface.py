"""The interface between sockets and protocols: what a transport and a connection promise each other.

A connection speaks a protocol over one byte stream: an MQTT client's session, or the WebSocket framing around it. It
never sees a socket, so the same connection runs over TCP, TLS and WebSocket, and in a test over lists of bytes. The
sockets themselves are in `protocols.transport.listeners`.

Order of calls on a `Connection`: `opened` once, then `received`, `writing_paused` and `writing_resumed` as it comes,
then `closed` once, and nothing after it. After `close`, `close_after_flush` or `abort` nothing but `closed` follows.
After `hand_over` nothing follows: the other connection has the stream.
All of them happen on the event loop's thread; an exception out of any of them ends that connection and no other.
"""

from collections.abc import Callable
from typing import Final, Protocol, TypeAlias, final

READ_INTO_BYTES_MIN: Final = 64 * 1024  # of what is missing: less is copied as soon as memory is made for it
SHORT_PIECE_BYTES: Final = 1024  # the next piece is added to so short a one: objects for single bytes would add up


class PeerInfo(Protocol):
    """Who is at the other end, as far as the transport knows."""

    @property
    def listener(self) -> str:
        """The name of the listener that accepted it."""

    @property
    def host(self) -> str:
        """Its address as the socket sees it: that of a proxy in between, when there is one."""

    @property
    def port(self) -> int:
        """Its port at that address."""

    @property
    def is_encrypted(self) -> bool:
        """Whether the stream is in TLS."""

    @property
    def alpn(self) -> str | None:
        """The application protocol that TLS agreed on."""

    @property
    def certificate_name(self) -> str | None:
        """The user name in a client certificate that was verified."""

    @property
    def subprotocol(self) -> str | None:
        """What a WebSocket upgrade selected."""


@final
class PeerRecord:
    """A `PeerInfo` by itself. A stream over plain TCP needs none: it is its own."""

    __slots__ = ("alpn", "certificate_name", "host", "is_encrypted", "listener", "port", "subprotocol")

    def __init__(
        self,
        listener: str,
        host: str,
        port: int,
        *,
        is_encrypted: bool = False,
        alpn: str | None = None,
        certificate_name: str | None = None,
        subprotocol: str | None = None,
    ) -> None:
        self.listener = listener
        self.host = host
        self.port = port
        self.is_encrypted = is_encrypted
        self.alpn = alpn
        self.certificate_name = certificate_name
        self.subprotocol = subprotocol


class ReadTarget(Protocol):
    """The target of reads for the rest of large data whose beginning has come."""

    def buffer(self) -> memoryview | None:
        """Return memory for what is missing, `READ_INTO_BYTES_MIN` at first; None when nothing large is under way."""

    def filled(self, count: int) -> None:
        """The peer sent `count` bytes, one at least, which are at the beginning of `buffer`."""


class ByteTransport(Protocol):
    """One end of a byte stream. Verbs on a stream that is closing or closed do nothing."""

    def write(self, data: bytes) -> None:
        """Send, or buffer what the socket does not take. Never blocks; see `Connection.writing_paused`."""

    def write_all(self, buffers: list[bytes]) -> None:
        """Send buffers, one behind the other, in one call of the kernel: a head and what belongs to it."""

    def close(self) -> None:
        """Send what is buffered and close. For a peer that has closed itself or expects no close."""

    def close_after_flush(self) -> None:
        """Send what is buffered, then give the peer a moment to read it before the socket goes.

        Closing a socket with input unread makes TCP reset the connection, and a reset destroys data on its way to
        the peer: the DISCONNECT that says why. So the sending side is shut down first, and input is read and discarded
        until the peer closes, or has taken nothing more for about a second.
        """

    def abort(self) -> None:
        """Close at once. What is buffered is lost."""

    def pause_reading(self) -> None:
        """Stop calling `received`: the peer is held back by TCP's window. Idempotent.

        Within `opened` it has no effect: reading begins when that returns.
        """

    def resume_reading(self) -> None:
        """Undo `pause_reading`. Idempotent."""

    def read_into(self, target: ReadTarget) -> None:
        """Have the peer's next bytes put to the memory of `target`, as long as it has some, and not `received`.

        For large data, which then only the kernel copies. Idempotent while it lasts. A transport that cannot
        do it goes on calling `received`.
        """

    def buffered_bytes(self) -> int:
        """Return how many written bytes the socket has not taken yet."""

    def direct(self) -> "ByteTransport":
        """Return the stream itself: something may stand in front of it for a time."""

    def hand_over(self, connection: "Connection") -> None:
        """Have another connection go on with this stream: it gets what comes from now on, and the end.

        Who hands over tells it the beginning: `opened`, and what was received already. Reading and writing are paused
        or not as before. Without effect when the stream is gone.
        """


class Connection(Protocol):
    """One peer of a protocol. See the module for the order of calls."""

    def opened(self, transport: ByteTransport, peer: PeerInfo) -> None:
        """The stream is ready: TLS and WebSocket handshakes are over."""

    def received(self, data: bytes) -> None:
        """The peer sent bytes, cut wherever the network cut them. Never empty."""

    def closed(self, error: Exception | None) -> None:
        """The stream is gone. `error` is None when either side closed it in good order."""

    def writing_paused(self) -> None:
        """More is buffered than the listener's high mark: send no more than the protocol has to."""

    def writing_resumed(self) -> None:
        """The peer has taken most of what was buffered."""


# The listener of streams that other brokers of this machine open, which nobody else can: not one of the configuration.
SIBLINGS: Final = "siblings"

ConnectionFactory: TypeAlias = Callable[[], Connection]  # called once for each accepted stream


def append_piece(pieces: list[bytes], piece: bytes) -> None:
    """Append what was received of something large, whose pieces are joined once, when all have come."""
    if pieces and len(pieces[-1]) < SHORT_PIECE_BYTES:
        pieces[-1] += piece
    else:
        pieces.append(piece)
