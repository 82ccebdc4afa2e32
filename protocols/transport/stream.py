"""One open byte stream over an asyncio transport, TCP or TLS: the `ByteTransport` that connections write to.

Streams are accepted in `protocols.transport.listeners`; protocols that replace a stream for a while are in
`protocols.transport.stream_protocols`. A read goes from asyncio's transport to the connection's own `received` with
nothing of ours in between: `data_received` is not a method here but a field that holds it. A write goes to a TCP
transport by a direct call.
"""

import asyncio
from collections.abc import Callable
from typing import Final, cast, final

from sluicegate.protocols.transport.interface import Connection, PeerInfo, ReadTarget
from sluicegate.protocols.transport.loop.tcp import TcpTransport
from sluicegate.protocols.transport.stream_protocols import LingeringClose, ReadIntoProtocol

WRITE_HIGH_BYTES: Final = 256 * 1024  # buffered for one peer at `writing_paused`; asyncio's 64 KiB is one busy tick
WRITE_LOW_BYTES: Final = 64 * 1024  # buffered at `writing_resumed`
LINGER_S: Final = 1.0  # how long a peer may take nothing of our last words, or not close when it has them
FLUSH_S: Final = 10.0  # how long a peer may take to read what was buffered at `close`


@final
class Stream:
    """One peer's stream. Compiled, and so of no class of asyncio's: event loops ask for a protocol's methods only."""

    __slots__ = ("_connection", "_deadline", "_is_open", "_on_closed", "_tcp", "_transport", "data_received")

    def __init__(self, transport: asyncio.Transport, connection: Connection, on_closed: Callable[[], None]) -> None:
        """Take over an open transport. `on_closed` is called once, before the connection's own `closed`."""
        self.data_received: Callable[[bytes], None] = connection.received
        self._transport = transport
        plain: object = transport
        self._tcp = plain if isinstance(plain, TcpTransport) else None  # the same, for `write`; None: TLS, or closing
        self._connection: Connection | None = connection  # until it knows that the transport is gone
        self._on_closed = on_closed
        self._is_open = True  # verbs have an effect
        self._deadline: asyncio.TimerHandle | None = None
        transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES, low=WRITE_LOW_BYTES)
        transport.set_protocol(cast(asyncio.Protocol, self))

    def __repr__(self) -> str:
        return f"Stream({'open' if self._is_open else 'closing'}, {self._transport!r})"

    def begin(self, peer: PeerInfo) -> None:
        """Tell the connection that it has a stream."""
        if self._connection is not None:
            self._connection.opened(self, peer)

    # For the connection: ByteTransport.

    def write(self, data: bytes) -> None:
        """Send one buffer."""
        tcp = self._tcp
        if tcp is not None:
            tcp.write(data)
        elif self._is_open:
            self._transport.write(data)

    def write_all(self, buffers: list[bytes]) -> None:
        """Send buffers together."""
        if self._is_open:
            self._transport.writelines(buffers)

    def close(self) -> None:
        """Send what is buffered and close; a peer that does not take it in `FLUSH_S` is cut off."""
        if self._is_open:
            self._end()
            self._give_up_after(FLUSH_S)
            self._transport.close()

    def close_after_flush(self) -> None:
        """Send what is buffered, shut down our side, and discard input until the peer closes or `LINGER_S` is over.

        That begins anew for a peer that takes what is buffered: a large answer over HTTP has its time.
        """
        transport = self._transport
        if not self._is_open or transport.is_closing():
            return
        self._end()
        self._linger(transport.get_write_buffer_size())
        transport.set_protocol(LingeringClose(cast(asyncio.Protocol, self)))
        transport.resume_reading()
        try:
            transport.write_eof()
        except OSError:  # the peer has reset the connection, which asyncio's loop has yet to see
            transport.abort()

    def abort(self) -> None:
        """Close at once."""
        self._end()
        self._transport.abort()

    def pause_reading(self) -> None:
        """Read no more from the socket for now."""
        if self._is_open and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read from the socket again."""
        if self._is_open and not self._transport.is_closing():
            self._transport.resume_reading()

    def read_into(self, target: ReadTarget) -> None:
        """Read what comes next into a target."""
        transport = self._transport
        if self._is_open and transport.get_protocol() is cast(asyncio.Protocol, self):
            transport.set_protocol(ReadIntoProtocol(cast(asyncio.Protocol, self), transport, target))

    def buffered_bytes(self) -> int:
        """Return how much the socket has not taken yet."""
        return self._transport.get_write_buffer_size()

    # For asyncio: Protocol.

    def pause_writing(self) -> None:
        """More than `WRITE_HIGH_BYTES` are buffered."""
        if self._connection is not None:
            self._connection.writing_paused()

    def resume_writing(self) -> None:
        """Less than `WRITE_LOW_BYTES` are buffered."""
        if self._connection is not None:
            self._connection.writing_resumed()

    def eof_received(self) -> None:
        """The peer sends no more: the transport closes by itself, once it has sent what is buffered.

        That has the time of last words, or a peer that reads nothing would keep its stream for ever.
        """
        self._end()
        buffered = self._transport.get_write_buffer_size()
        if buffered:
            self._linger(buffered)

    def connection_lost(self, exc: Exception | None) -> None:
        """The transport is gone, for whatever reason."""
        self._end()
        if self._deadline is not None:
            self._deadline.cancel()
        connection = self._connection
        # The connection holds us, and we it; without this cut each closed stream would wait for the cycle collector.
        self._connection = None
        self.data_received = _discard
        self._on_closed()
        if connection is not None:
            connection.closed(exc)

    def _end(self) -> None:
        self._is_open = False
        self._tcp = None

    def _give_up_after(self, seconds: float) -> None:
        self._deadline = asyncio.get_running_loop().call_later(seconds, self._give_up)

    def _linger(self, buffered: int) -> None:
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(LINGER_S, self._check_progress, buffered)

    def _check_progress(self, buffered_before: int) -> None:
        buffered = self._transport.get_write_buffer_size()
        if buffered < buffered_before:
            self._linger(buffered)
        else:
            self._give_up()

    def _give_up(self) -> None:
        if self._transport.get_write_buffer_size():
            self._transport.abort()
        else:
            self._transport.close()


def _discard(_: bytes) -> None:
    """Take the place of a connection's `received` once it is gone."""
