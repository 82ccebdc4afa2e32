"""A relay: a peer's stream whose plain bytes another process of this machine serves, through a pair of sockets.

For streams that cannot be passed themselves: what TLS and WebSocket have in memory stays here.

Invariants: nothing is read of one side while the other has too much unread. What one side sent before its end goes to
the other one before that is closed.
"""

from collections.abc import Callable
from typing import Final, final

from sluicegate.protocols.transport.interface import ByteTransport, PeerInfo
from sluicegate.protocols.transport.stream.stream import Origin, TcpStream
from sluicegate.protocols.transport.stream.user import StreamUser

_ORIGIN: Final = Origin("relay", lambda: None)  # of the pairs, which no listener counts


@final
class Relay:
    """One stream that is relayed, until both of its sides are closed."""

    def __init__(self, peer: ByteTransport, process: TcpStream, on_ended: Callable[["Relay"], None]) -> None:
        """Take over the peer's stream, and this end of a pair of sockets, of which the other process has the other."""
        self._on_ended = on_ended
        self._peer_side = RelaySide(self)
        self._process_side = RelaySide(self)
        self._peer_side.other = self._process_side
        self._process_side.other = self._peer_side
        process.open(self._process_side, _ORIGIN, "", 0)
        process.begin(self._process_side)
        self._peer_side.transport = peer
        peer.hand_over(self._peer_side)
        process.resume_reading()

    def received(self, data: bytes) -> None:
        """Send the other process what the peer has sent before the relay began."""
        self._peer_side.received(data)

    def end(self) -> None:
        """Close both sides: this process stops."""
        for side in (self._peer_side, self._process_side):
            if side.transport is not None:
                side.transport.close_after_flush()

    def side_closed(self) -> None:
        """One side is closed."""
        if self._peer_side.transport is None and self._process_side.transport is None:
            self._on_ended(self)


@final
class RelaySide(StreamUser):
    """The connection of one side."""

    def __init__(self, relay: Relay) -> None:
        self._relay: Relay | None = relay
        self.transport: ByteTransport | None = None  # None: closed
        self.other: RelaySide | None = None

    def opened(self, transport: ByteTransport, peer: PeerInfo) -> None:
        """Begin: the stream of this side is ready."""
        self.transport = transport

    def received(self, data: bytes) -> None:
        """Send it to the other side."""
        if self.other is not None and self.other.transport is not None:
            self.other.transport.write(data)

    def closed(self, error: Exception | None) -> None:
        """Close the other side, once it has what was sent before."""
        relay, other = self._relay, self.other
        self.transport = self._relay = self.other = None  # else they would hold each other
        if other is not None and other.transport is not None:
            other.transport.close_after_flush()
        if relay is not None:
            relay.side_closed()

    def writing_paused(self) -> None:
        """Hold the other side back."""
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def writing_resumed(self) -> None:
        """Let the other side go on."""
        if self.other is not None and self.other.transport is not None:
            self.other.transport.resume_reading()
