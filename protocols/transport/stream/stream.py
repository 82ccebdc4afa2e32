"""One open byte stream: the `ByteTransport` that connections write to.

`TcpStream` is the stream of a client over plain TCP, and its transport at the same time: one object, because there may
be a hundred thousand idle ones. `Stream` is over a transport of another kind, as TLS.

Streams are accepted in `protocols.transport.listeners`; protocols that replace a stream for a while are in
`protocols.transport.stream.protocols`. A read goes straight to the connection's own `received`.
"""

import asyncio
from collections.abc import Callable
from typing import Final, cast, final

from mypy_extensions import i32

from sluicegate.protocols.transport.interface import (
    ByteTransport,
    Connection,
    ConnectionFactory,
    PeerInfo,
    PeerRecord,
    ReadTarget,
)
from sluicegate.protocols.transport.loop.event_loop import running_sockets
from sluicegate.protocols.transport.loop.selector import SocketSelector, report
from sluicegate.protocols.transport.loop.tcp import TcpTransport
from sluicegate.protocols.transport.stream.protocols import LingeringClose, ReadIntoProtocol
from sluicegate.protocols.transport.stream.user import InterpretedUser, StreamUser

WRITE_HIGH_BYTES: Final = 256 * 1024  # buffered for one peer at `writing_paused`; asyncio's 64 KiB is one busy tick
WRITE_LOW_BYTES: Final = 64 * 1024  # buffered at `writing_resumed`
LINGER_S: Final = 1.0  # how long a peer may take nothing of our last words, or not close when it has them
FLUSH_S: Final = 10.0  # how long a peer may take to read what was buffered at `close`


@final
class Origin:
    """What the plain streams of one listener have in common."""

    def __init__(self, listener: str, on_closed: Callable[[], None]) -> None:
        self.listener = listener
        self.on_closed = on_closed  # called once for each stream, before the connection's own `closed`


_UNKNOWN: Final = Origin("", lambda: None)  # of a stream that no listener has taken over


@final
class TcpStream(TcpTransport):
    """One client's stream over plain TCP: its transport, what its connection writes to, and its `PeerInfo`.

    Until `open` it is a transport alone. From then on it is its own protocol, unless another replaces it for a while.
    """

    __slots__ = ("_host", "_origin", "_port", "_user")

    def __init__(self, sockets: SocketSelector, fd: int) -> None:
        """Take over an open socket that never blocks. Nothing is read before `resume_reading`."""
        # Before the transport shows itself to others: so none of these has to be looked for in compiled code.
        self._user: StreamUser | None = None  # until it knows that the stream is gone
        self._origin = _UNKNOWN
        self._host = ""
        self._port: i32 = 0
        super().__init__(sockets, fd)

    def open(self, connection: Connection, origin: Origin, host: str, port: int) -> None:
        """Begin to be the stream of a connection."""
        self._user = _user_of(connection)
        self._origin = origin
        self._host = host
        self._port = port
        self.set_write_buffer_limits(WRITE_HIGH_BYTES, WRITE_LOW_BYTES)
        self.set_protocol(self)

    def begin(self, connection: Connection, peer: PeerInfo | None = None) -> None:
        """Tell the connection that it has a stream, of another peer than its own if one is given."""
        connection.opened(self, self if peer is None else peer)

    # For the connection: PeerInfo.

    @property
    def listener(self) -> str:
        """The name of the listener that accepted it."""
        return self._origin.listener

    @property
    def host(self) -> str:
        """The peer's address."""
        return self._host

    @property
    def port(self) -> int:
        """The peer's port."""
        return self._port

    @property
    def is_encrypted(self) -> bool:
        """No: it is plain TCP."""
        return False

    @property
    def alpn(self) -> str | None:
        """None: it is not in TLS."""
        return None

    @property
    def certificate_name(self) -> str | None:
        """None: it is not in TLS."""
        return None

    @property
    def subprotocol(self) -> str | None:
        """None: of a WebSocket, the connection inside has another `PeerInfo`."""
        return None

    # For the connection: ByteTransport. `write` and `abort` are the transport's.

    def write_all(self, buffers: list[bytes]) -> None:
        """Send buffers together."""
        self.writelines(buffers)

    def close(self) -> None:
        """Send what is buffered and close; a peer that does not take it in `FLUSH_S` is cut off."""
        if self._takes_verbs():
            if self._unsent is not None:
                self._replace_with_end().deadline = asyncio.get_running_loop().call_later(FLUSH_S, self._give_up)
            self._close()

    def close_after_flush(self) -> None:
        """Send what is buffered, shut down our side, and discard input until the peer closes or `LINGER_S` is over.

        That begins anew for a peer that takes what is buffered: a large answer over HTTP has its time.
        """
        if self._takes_verbs():
            self._linger(self._unsent_bytes)
            self.resume_reading()
            try:
                self.write_eof()
            except OSError:  # the peer has reset the connection
                self.abort()

    def pause_reading(self) -> None:
        """Read no more from the socket for now."""
        if not self._ends:  # then input is discarded until the end
            super().pause_reading()

    def read_into(self, target: ReadTarget) -> None:
        """Read what comes next into a target."""
        if self._takes_verbs() and self._protocol is self:
            protocol, transport = cast(asyncio.Protocol, self), cast(asyncio.Transport, self)
            self.set_protocol(ReadIntoProtocol(protocol, transport, target))

    def buffered_bytes(self) -> int:
        """Return how much the socket has not taken yet."""
        return self._unsent_bytes

    def direct(self) -> ByteTransport:
        """Return the stream."""
        return self

    def hand_over(self, connection: Connection) -> None:
        """Have another connection go on."""
        if self._user is not None:
            self._user = _user_of(connection)

    def detach(self) -> int:
        """Give up the socket, which leaves the listener's count as well; -1 when the stream is closing.

        The connection is told nothing any more, not even its end.
        """
        fd = super().detach()
        if fd >= 0:
            self._user = None
            self._origin.on_closed()
        return fd

    # For the transport, which it is itself: Protocol.

    def _deliver(self, data: bytes) -> None:
        """Give the connection what was read."""
        user = self._user
        if user is not None and self._protocol is self:
            user.received(data)
        else:
            self._protocol.data_received(data)

    def data_received(self, data: bytes) -> None:
        """Give the connection what a protocol has read that was in this one's place."""
        if self._user is not None:
            self._user.received(data)

    def pause_writing(self) -> None:
        """More than `WRITE_HIGH_BYTES` are buffered."""
        if self._user is not None:
            self._user.writing_paused()

    def resume_writing(self) -> None:
        """Less than `WRITE_LOW_BYTES` are buffered."""
        if self._user is not None:
            self._user.writing_resumed()

    def eof_received(self) -> None:
        """The peer sends no more: the transport closes by itself, once it has sent what is buffered.

        That has the time of last words, or a peer that reads nothing would keep its stream for ever.
        """
        if self._unsent is not None:
            self._linger(self._unsent_bytes)

    def connection_lost(self, exc: Exception | None) -> None:
        """The stream is gone, for whatever reason."""
        user, self._user = self._user, None  # the connection holds us, and we it
        self._origin.on_closed()
        if user is not None:
            user.closed(exc)

    # The end.

    def _takes_verbs(self) -> bool:
        """Return whether verbs have an effect."""
        return not (self._is_closing or self._ends)

    def _replace_with_end(self) -> LingeringClose:
        """Have input discarded; what does that keeps the deadline, which an open stream does not need."""
        ending = self._protocol
        if not isinstance(ending, LingeringClose):
            ending = LingeringClose(cast(asyncio.Protocol, self))
            self.set_protocol(ending)
        return ending

    def _linger(self, buffered: int) -> None:
        loop = asyncio.get_running_loop()
        self._replace_with_end().deadline = loop.call_later(LINGER_S, self._check_progress, buffered)

    def _check_progress(self, buffered_before: int) -> None:
        buffered = self._unsent_bytes
        if buffered < buffered_before:
            self._linger(buffered)
        else:
            self._give_up()

    def _give_up(self) -> None:
        if self._unsent is not None:
            self.abort()
        else:
            self._close()


def adopt(fd: int, peer: PeerRecord, connect: ConnectionFactory, data: bytes, origin: Origin) -> None:
    """Give an open socket of plain bytes a connection: who the peer is, and its first bytes, are known already.

    The socket never blocks, in whichever process it was made. It need not be the peer's own: what that sends may be
    passed on through a pair of sockets.
    """
    stream = TcpStream(running_sockets(), fd)
    is_plain = not (peer.is_encrypted or peer.alpn or peer.certificate_name or peer.subprotocol)
    try:
        connection = connect()
        stream.open(connection, origin, peer.host, peer.port)
    except Exception as error:
        origin.on_closed()
        report("a connection could not be made", error, transport=stream)
        stream.abort()
        return
    try:
        stream.begin(connection, None if is_plain else peer)
    except Exception as error:
        report("a connection failed as it opened", error, transport=stream)
        stream.abort()
        return
    stream.resume_reading()
    if data:
        stream.deliver_first(data)


@final
class Stream:
    """One peer's stream over a transport, as TLS. Of no class of asyncio's: transports call a protocol's methods only.

    `data_received` is not a method here but a field that holds the connection's `received`.
    """

    __slots__ = ("_connection", "_deadline", "_is_open", "_on_closed", "_transport", "data_received")

    def __init__(self, transport: asyncio.Transport, connection: Connection, on_closed: Callable[[], None]) -> None:
        """Take over an open transport. `on_closed` is called once, before the connection's own `closed`."""
        self.data_received: Callable[[bytes], None] = connection.received
        self._transport = transport
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
        if self._is_open:
            self._transport.write(data)

    def write_all(self, buffers: list[bytes]) -> None:
        """Send buffers together."""
        if self._is_open:
            self._transport.writelines(buffers)

    def close(self) -> None:
        """Send what is buffered and close; a peer that does not take it in `FLUSH_S` is cut off."""
        if self._is_open:
            self._is_open = False
            self._give_up_after(FLUSH_S)
            self._transport.close()

    def close_after_flush(self) -> None:
        """Send what is buffered, shut down our side, and discard input until the peer closes or `LINGER_S` is over.

        That begins anew for a peer that takes what is buffered: a large answer over HTTP has its time.
        """
        transport = self._transport
        if not self._is_open or transport.is_closing():
            return
        self._is_open = False
        self._linger(transport.get_write_buffer_size())
        transport.set_protocol(LingeringClose(cast(asyncio.Protocol, self)))
        transport.resume_reading()
        try:
            transport.write_eof()
        except OSError:  # the peer has reset the connection, which asyncio's loop has yet to see
            transport.abort()

    def abort(self) -> None:
        """Close at once."""
        self._is_open = False
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

    def direct(self) -> ByteTransport:
        """Return the stream."""
        return self

    def hand_over(self, connection: Connection) -> None:
        """Have another connection go on."""
        if self._connection is not None:
            self._connection = connection
            self.data_received = connection.received
            transport, protocol = self._transport, cast(asyncio.Protocol, self)
            if transport.get_protocol() is protocol:
                transport.set_protocol(protocol)  # which holds what data goes to

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
        self._is_open = False
        buffered = self._transport.get_write_buffer_size()
        if buffered:
            self._linger(buffered)

    def connection_lost(self, exc: Exception | None) -> None:
        """The transport is gone, for whatever reason."""
        self._is_open = False
        if self._deadline is not None:
            self._deadline.cancel()
        connection = self._connection
        # The connection holds us, and we it; without this cut each closed stream would wait for the cycle collector.
        self._connection = None
        self.data_received = _discard
        self._on_closed()
        if connection is not None:
            connection.closed(exc)

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


def _user_of(connection: Connection) -> StreamUser:
    user: object = connection
    return user if isinstance(user, StreamUser) else InterpretedUser(connection)


def _discard(_: bytes) -> None:
    """Take the place of a connection's `received` once it is gone."""
