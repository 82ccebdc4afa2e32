"""TLS over a TCP stream: the transport of the protocol inside it, and the protocol of the transport beneath.

OpenSSL implements TLS (`ssl.SSLObject`, on buffers in memory); the code here carries bytes between it and the two
sides. TLS transports of event loops go on reading from the socket when they are told to pause, and throw away what they
have read when they then meet the peer's end; see docs/decisions/0034.

See also: certificates (`protocols.transport.tls.context`), and who is let in (`protocols.transport.listeners`).

Invariants: nothing is read from the socket while reading is paused, but what a single read brought may wait here. The
peer's end, sent in TLS or by TCP, is reported behind everything that it sent.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import Enum
from functools import partial
from typing import Any, Final, cast

from sluicegate.protocols.transport.deadlines import Deadlines

_PLAIN: Final = memoryview(bytearray(256 * 1024))  # where a read is decrypted to, and copied from: as much as it brings
_PIECE_BYTES: Final = 64 * 1024  # given to OpenSSL in one go: its buffers of a stream grow, and never shrink again
_NO_PROTOCOL: Final = asyncio.Protocol()  # the protocol, until the handshake is over and when all is over

OnRefused = Callable[["TlsTransport", str], None]  # is told why


class _Phase(Enum):
    SHAKING = "shaking hands"
    OPEN = "open"
    CLOSING = "closing"  # our end is said, or there was a failure: what still comes is discarded


_OPEN: Final = _Phase.OPEN  # looked at with each read and write, and slow to look up in its class


class TlsTransport(asyncio.Transport, asyncio.Protocol):
    """The server's end of one stream in TLS. Slotted, and without a dict, like the streams on it."""

    __slots__ = (
        "_beneath",
        "_deadline",
        "_deliver",
        "_error",
        "_has_ended",
        "_incoming",
        "_is_reading",
        "_loop",
        "_on_refused",
        "_on_secured",
        "_outgoing",
        "_phase",
        "_placing",
        "_protocol",
        "_tls",
    )

    def __init__(
        self,
        beneath: asyncio.Transport,
        context: ssl.SSLContext,
        *,
        deadlines: Deadlines,
        on_secured: Callable[["TlsTransport"], None],
        on_refused: OnRefused,
    ) -> None:
        """Take over an open transport, and wait for the client's first bytes. `deadlines` are those of handshakes.

        Then either `on_secured` is called, which sets the protocol, or `on_refused`, or neither after `abort`.
        """
        self._beneath = beneath
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._loop = asyncio.get_running_loop()
        self._on_secured = on_secured
        self._on_refused = on_refused
        self.set_protocol(_NO_PROTOCOL)
        self._phase = _Phase.SHAKING
        self._is_reading = True  # the protocol takes what comes
        self._has_ended = False  # the peer has said its end in TLS, which may not be told yet
        self._error: Exception | None = None  # why we gave up
        self._deadline = deadlines.begin(partial(self._time_out, deadlines.limit_s))
        beneath.set_protocol(self)

    def __repr__(self) -> str:
        return f"TlsTransport({self._phase.value}, {self._beneath!r})"

    # For the protocol inside TLS: Transport.

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what is known: `ssl_object` and `sslcontext`, or something about the socket."""
        if name == "ssl_object":
            return self._tls
        if name == "sslcontext":
            return self._tls.context
        return self._beneath.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Set the protocol that gets the input; a buffered protocol gets it decrypted in its own buffers."""
        self._protocol = protocol
        self._placing = protocol if isinstance(protocol, asyncio.BufferedProtocol) else None
        if self._placing is None:
            self._deliver = cast(asyncio.Protocol, protocol).data_received

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol."""
        return self._protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the limits, which count encrypted bytes."""
        self._beneath.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """Return how many encrypted bytes the socket has not taken yet."""
        return self._beneath.get_write_buffer_size()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send. With renegotiation off, which `protocols.transport.tls.context` sees to, writing never waits for the
        peer.
        """
        self.writelines((data,))

    def writelines(self, list_of_data: Any) -> None:
        """Send all, one behind the other."""
        for data in list_of_data:
            if self._phase is not _OPEN:
                break
            for piece in _pieces(data) if data else ():
                self._tls.write(piece)
                if self._outgoing.pending >= _PIECE_BYTES:
                    self._send()
        self._send()

    def write_eof(self) -> None:
        """Send our end; what still comes is discarded."""
        self._send_close_notify()
        self._beneath.write_eof()

    def pause_reading(self) -> None:
        """Deliver nothing, and read no more from the socket."""
        self._is_reading = False
        self._beneath.pause_reading()

    def resume_reading(self) -> None:
        """Go on, soon, with what waits here, then with the socket."""
        if not self._is_reading:
            self._is_reading = True
            self._loop.call_soon(self._go_on)

    def is_closing(self) -> bool:
        """Return whether the stream is closing or closed."""
        return self._beneath.is_closing()

    def close(self) -> None:
        """Send what is buffered and our end, then close; the peer's end is not waited for."""
        self._send_close_notify()
        self._beneath.close()

    def abort(self) -> None:
        """Close at once."""
        self._phase = _Phase.CLOSING
        self._beneath.abort()

    # What the transport beneath tells: Protocol.

    def data_received(self, data: bytes) -> None:
        """Encrypted bytes have come."""
        for piece in _pieces(data):
            if self._phase is _OPEN:
                self._incoming.write(piece)
                self._take()
            elif self._phase is _Phase.SHAKING:
                self._incoming.write(piece)
                self._shake()

    def eof_received(self) -> None:
        """The peer sends no more, with a close_notify or without: protocols have a close of their own."""
        if self._phase is _Phase.SHAKING:
            self._refuse("the client closed the connection")
        elif self._phase is _OPEN:
            self._end()

    def pause_writing(self) -> None:
        """Pass it on."""
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        if self._phase is _Phase.SHAKING:
            self._refuse(f"the connection broke: {exc}")
        self._phase = _Phase.CLOSING
        self._deadline.cancel()
        protocol = self._protocol
        self.set_protocol(_NO_PROTOCOL)  # else each would hold the other
        protocol.connection_lost(self._error or exc)

    # The handshake.

    def _shake(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send()
            return
        except ssl.SSLError as error:
            self._send()  # the alert says why
            self._refuse(str(error))
            return
        self._send()
        self._deadline.cancel()
        self._phase = _OPEN
        self._on_secured(self)
        self._take()

    def _refuse(self, reason: str) -> None:
        self._phase = _Phase.CLOSING
        self._on_refused(self, reason)
        self._beneath.close()  # by the deadline at the latest

    def _time_out(self, handshake_s: float) -> None:
        if self._phase is _Phase.SHAKING:
            self._refuse(f"no TLS handshake within {handshake_s:g} seconds")
        self._beneath.abort()

    # The stream.

    def _take(self) -> None:
        """Deliver what has come, as long as the protocol takes it."""
        count = size = 0
        while count == size and self._is_reading and not self._has_ended and self._phase is _OPEN:
            placing = self._placing
            room = _PLAIN if placing is None else memoryview(placing.get_buffer(-1))
            size, count = len(room), self._decrypt(room)
            if count == 0:
                break
            if placing is None:
                self._deliver(bytes(room[:count]))
            else:
                placing.buffer_updated(count)
        if self._outgoing.pending:
            self._send()  # what OpenSSL has to answer by itself
        if self._has_ended:
            # In a turn of its own, as TCP's end: the protocol may pause reading after the last bytes.
            self._loop.call_soon(self._go_on)

    def _decrypt(self, room: memoryview) -> int:
        """Fill the room with what has come; return how much that is."""
        count = 0
        try:
            while count < len(room) and (count == 0 or self._incoming.pending):  # an exception is dearer
                size: int = self._tls.read(len(room) - count, room[count:])  # type: ignore[assignment]  # into the room
                if size == 0:
                    self._has_ended = True
                    break
                count += size
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self._fail(error)
        return count

    def _go_on(self) -> None:
        """Deliver what waits here, or else the end; then read from the socket again."""
        if not self._is_reading:
            return
        try:
            if self._has_ended:
                self._end()
            else:
                self._take()
        except Exception as error:  # as the transport beneath does with what fails as it reads
            self._fail(error)
            self._loop.call_exception_handler(
                {"message": "a connection failed as it went on", "exception": error, "transport": self}
            )
        if self._is_reading:
            self._beneath.resume_reading()

    def _end(self) -> None:
        if self._phase is _OPEN:
            cast(asyncio.Protocol, self._protocol).eof_received()
            self.close()

    def _send_close_notify(self) -> None:
        if self._phase is _OPEN:
            self._phase = _Phase.CLOSING
            with suppress(ssl.SSLError):  # the peer has not said its own
                self._tls.unwrap()
            self._send()

    def _send(self) -> None:
        if self._outgoing.pending:
            self._beneath.write(self._outgoing.read())

    def _fail(self, error: Exception) -> None:
        self._error = error
        self.abort()


def _pieces(data: bytes | bytearray | memoryview) -> Iterable[bytes | bytearray | memoryview]:
    if len(data) <= _PIECE_BYTES:
        return (data,)
    view = memoryview(data)
    return [view[start : start + _PIECE_BYTES] for start in range(0, len(data), _PIECE_BYTES)]
