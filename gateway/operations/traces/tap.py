"""A tap on one connection: it stands between the connection and its stream, as long as somebody listens.

It is put there at run time, so a connection without one has nothing to check. Bytes pass as they are. Large packets are
read piece by piece meanwhile, and not straight into their memory. Several taps of a connection stand behind each other,
and each may be taken away first. A flow connection that becomes a link between brokers writes past its taps.
"""

from collections.abc import Callable
from typing import Protocol

from sluicegate.protocols.transport.interface import ByteTransport, Connection, PeerInfo, ReadTarget


class Tapped(Connection, Protocol):
    """A connection that a tap can be put on."""

    @property
    def stream(self) -> ByteTransport | None:
        """What it writes to; None: it is gone."""

    def write_to(self, stream: ByteTransport) -> None:
        """Write to another stream from now on, which leads to the same peer."""

    def is_within_packet(self) -> bool:
        """Return whether the beginning of a packet has come, and its rest has not."""


class Tap:
    """A connection to the stream, and a stream to the connection."""

    def __init__(
        self,
        connection: Tapped,
        stream: ByteTransport,
        *,
        seen: Callable[[bool, bytes], None],
        on_closed: Callable[[], None],
    ) -> None:
        """`seen` gets whether bytes come from the client, and the bytes, from the beginning of a packet on."""
        self._connection = connection
        self._stream = stream
        self._seen = seen
        self._on_closed = on_closed
        self._is_synchronous = False  # the next bytes of the client begin a packet
        self.is_over = False  # nobody listens any more

    def begin(self) -> None:
        """Stand between the two."""
        _pass_to(self, self._stream)
        self._connection.write_to(self)

    def end(self) -> None:
        """Stand aside. Idempotent; without effect when the stream is gone."""
        self.is_over = True
        self._seen, self._on_closed = _not_seen, _not_told
        if self._connection.stream is self:
            self._connection.write_to(self._stream)
            _pass_to(self._connection, self._stream)

    # --- for another tap, which stands nearer to the stream ---

    @property
    def stream(self) -> ByteTransport | None:
        """What it writes to."""
        return self._stream

    def write_to(self, stream: ByteTransport) -> None:
        """Write to another stream from now on."""
        self._stream = stream

    def is_within_packet(self) -> bool:
        """Return what the connection says."""
        return self._connection.is_within_packet()

    # --- for the stream: Connection ---

    def opened(self, transport: ByteTransport, peer: PeerInfo) -> None:
        """Nothing: the stream is open."""

    def received(self, data: bytes) -> None:
        """Pass bytes on."""
        if not self._is_synchronous:
            self._is_synchronous = not self._connection.is_within_packet()
        if self._is_synchronous:
            self._seen(True, data)
        self._connection.received(data)

    def closed(self, error: Exception | None) -> None:
        """Pass the end on."""
        self._connection.closed(error)
        self._on_closed()

    def writing_paused(self) -> None:
        """Pass it on."""
        self._connection.writing_paused()

    def writing_resumed(self) -> None:
        """Pass it on."""
        self._connection.writing_resumed()

    # --- for the connection: ByteTransport ---

    def write(self, data: bytes) -> None:
        """Pass bytes on."""
        self._seen(False, data)
        self._stream.write(data)

    def write_all(self, buffers: list[bytes]) -> None:
        """Pass them on."""
        for each in buffers:
            self._seen(False, each)
        self._stream.write_all(buffers)

    def close(self) -> None:
        """Pass it on."""
        self._stream.close()

    def close_after_flush(self) -> None:
        """Pass it on."""
        self._stream.close_after_flush()

    def abort(self) -> None:
        """Pass it on."""
        self._stream.abort()

    def pause_reading(self) -> None:
        """Pass it on."""
        self._stream.pause_reading()

    def resume_reading(self) -> None:
        """Pass it on."""
        self._stream.resume_reading()

    def read_into(self, target: ReadTarget) -> None:
        """Do nothing: what is read past the tap would not be seen."""

    def buffered_bytes(self) -> int:
        """Return what the stream has buffered."""
        return self._stream.buffered_bytes()

    def direct(self) -> ByteTransport:
        """Return the stream behind it."""
        return self._stream.direct()

    def hand_over(self, connection: Connection) -> None:
        """Leave the stream to another connection."""
        self._stream.hand_over(connection)


def _not_seen(from_client: bool, data: bytes) -> None:
    """Take the place of who listened."""


def _not_told() -> None:
    """Take the place of who waited for the end."""


def _pass_to(connection: Tapped, stream: ByteTransport) -> None:
    """Have a stream, or the tap on it, pass its bytes to a connection."""
    if isinstance(stream, Tap):
        stream._connection = connection
    else:
        stream.hand_over(connection)
