"""Sockets in memory: the node's end is an asyncio transport under the real `Stream`, the other end is a client.

Bytes take some time in both directions and arrive in order, divided anywhere. The buffer of a client that does not read
fills up; a client whose connection breaks loses the bytes on the way.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Protocol

from sluicegate.protocols.network.dialing.dialed import DialedConnection
from sluicegate.protocols.network.dialing.dialing import Dialing
from sluicegate.protocols.transport.interface import PeerRecord
from sluicegate.protocols.transport.listeners import Listener

LATENCY_US = 2_000
SOCKET_BUFFER_BYTES = 64 * 1024  # what the kernel takes before the transport has to buffer


class Peer(Protocol):
    """The client at the other end."""

    def received(self, data: bytes) -> None:
        """Bytes of the node have arrived."""

    def disconnected(self) -> None:
        """The connection is gone."""


class MemoryListener(Listener):
    """A listener without a socket: streams come from the simulation, by `admit` and `open`."""

    async def start(self, bound: Sequence[socket.socket] = ()) -> None:
        self._bound_port = 1883

    async def stop(self) -> None:
        self._bound_port = 0


class Wire(asyncio.Transport):
    """One connection of a client. The node writes to it as to a socket; the client calls `send`, `hang_up`, `vanish`.

    `written` is told what the node writes, and `read` what it reads, at the moment it does; `ended`, that it is over.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        peer: Peer,
        rng: Random,
        *,
        written: Callable[[bytes], None],
        read: Callable[[bytes], None],
        ended: Callable[[], None],
    ) -> None:
        super().__init__()
        self._loop = loop
        self._peer: Peer | None = peer
        self._rng = rng
        self._written = written
        self._read = read
        self._ended = ended
        self._protocol: Any = None
        self._to_client: list[bytes] = []  # written by the node and not taken by the network
        self._to_node: list[bytes] = []
        self._buffered_bytes = 0
        self._high = self._low = 0
        self._writing_paused = False
        self._reading_paused = False
        self._client_stalls = False
        self._closing = False
        self._lost = False
        self._is_cut = False
        self._moving_out = False
        self._moving_in = False

    # --- the node's side ---

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high, self._low = high or 0, low or 0

    def get_write_buffer_size(self) -> int:
        return max(0, self._buffered_bytes - SOCKET_BUFFER_BYTES)

    def is_closing(self) -> bool:
        return self._closing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing:
            return
        piece = bytes(data)
        self._written(piece)
        self._to_client.append(piece)
        self._buffered_bytes += len(piece)
        if not self._writing_paused and self.get_write_buffer_size() > self._high:
            self._writing_paused = True
            self._protocol.pause_writing()
        self._move_out()

    def write_eof(self) -> None:
        self._to_client.append(b"")
        self._move_out()

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._ended()
            self._to_client.append(b"")
            self._move_out()

    def abort(self) -> None:
        self._closing = True
        self._end(ConnectionAbortedError("aborted"))

    def pause_reading(self) -> None:
        self._reading_paused = True

    def resume_reading(self) -> None:
        self._reading_paused = False
        self._move_in()

    # --- the client's side ---

    def send(self, data: bytes) -> None:
        """Send bytes to the node. Nothing follows what was lost on the way."""
        if not (self._lost or self._is_cut):
            self._to_node.append(data)
            self._move_in()

    def stall(self, stalls: bool) -> None:
        """Stop reading from the node, or continue."""
        self._client_stalls = stalls
        self._move_out()

    def hang_up(self) -> None:
        """Be cut off: what is on the way is lost, in both directions."""
        self._peer = None
        self._is_cut = True
        self._to_node.clear()
        self._loop.call_later(self._delay_s(), self._end, ConnectionResetError("reset by the client"))

    def finish(self) -> None:
        """Close in good order: what was sent arrives first."""
        self._peer = None
        self._to_node.append(b"")
        self._client_stalls = False
        self._move_in()

    def vanish(self) -> None:
        """Disappear silently: the node gets no sign of it, and the bytes that it writes are never read."""
        self._peer = None
        self._is_cut = True
        self._to_node.clear()
        self._client_stalls = True

    # --- the network ---

    def _delay_s(self) -> float:
        return self._rng.randrange(LATENCY_US) / 1_000_000

    def _move_out(self) -> None:
        if not self._moving_out and self._to_client and not self._client_stalls and not self._lost:
            self._moving_out = True
            self._loop.call_later(self._delay_s(), self._arrive_out)

    def _arrive_out(self) -> None:
        self._moving_out = False
        if self._lost or self._client_stalls or not self._to_client:
            return
        data = self._to_client.pop(0)
        if not data:  # the node has closed its side
            peer, self._peer = self._peer, None
            if peer is not None:
                peer.disconnected()
            self._end(None)
            return
        self._buffered_bytes -= len(data)
        if self._peer is not None:
            self._peer.received(data)
        if self._writing_paused and self.get_write_buffer_size() <= self._low:
            self._writing_paused = False
            self._protocol.resume_writing()
        self._move_out()

    def _move_in(self) -> None:
        if not self._moving_in and self._to_node and not self._reading_paused and not self._lost:
            self._moving_in = True
            self._loop.call_later(self._delay_s(), self._arrive_in)

    def _arrive_in(self) -> None:
        self._moving_in = False
        if self._lost or self._reading_paused or not self._to_node:
            return
        data = self._to_node.pop(0)
        if not data:  # the client has closed
            self._closing = True
            self._end(None)
            return
        if len(data) > 1 and self._rng.random() < 0.2:  # cut anywhere, or joined with what follows
            cut = self._rng.randrange(1, len(data))
            self._to_node.insert(0, data[cut:])
            data = data[:cut]
        elif self._to_node and self._to_node[0] and self._rng.random() < 0.7:
            data += self._to_node.pop(0)
        self._read(data)
        self._protocol.data_received(data)
        self._move_in()

    def _end(self, error: Exception | None) -> None:
        if self._lost:
            return
        self._lost = self._closing = True
        self._ended()
        self._to_client.clear()
        self._to_node.clear()
        peer, self._peer = self._peer, None
        if peer is not None:
            peer.disconnected()
        self._loop.call_soon(self._protocol.connection_lost, error)


async def dialed(connection: DialedConnection, connected: socket.socket, peer: PeerRecord) -> None:
    """Give a connection to a neighbor broker its stream, over a transport of the loop's."""
    loop = asyncio.get_running_loop()
    await loop.create_connection(lambda: Dialing(connection, peer.host, peer.port), sock=connected)


class OutgoingWire(Wire):
    """A connection that the node has opened; its peer is a server. What the node closes is gone at once, for it."""

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        peer, rest, stalls = self._peer, b"".join(self._to_client), self._client_stalls
        self._peer = None
        self._end(None)
        if peer is not None and not stalls:
            self._loop.call_later(self._delay_s(), _gets_the_rest, peer, rest)

    def _arrive_in(self) -> None:
        if not self._closing:  # else nobody reads
            super()._arrive_in()


def _gets_the_rest(peer: Peer, rest: bytes) -> None:
    if rest:
        peer.received(rest)
    peer.disconnected()
