"""HTTP/1.1 on the bytes of a connection: uvicorn's protocol, fed by our transports instead of asyncio's.

So keep-alive, pipelining, chunked bodies and 100-continue are uvicorn's, while accepting, TLS and limits are those of
every other protocol here. Interpreted: it inherits from what is.
"""

import asyncio
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from typing import Any, Final, TypeAlias

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from protocols.counters import ProtocolCounters
from protocols.transports import ByteTransport, PeerInfo

HEAD_BYTES_MAX: Final = 32 * 1024  # of a request line and its headers; parsers have no limit of their own

Send: TypeAlias = Callable[[Any], Awaitable[None]]
Receive: TypeAlias = Callable[[], Awaitable[Any]]
Serve: TypeAlias = Callable[[Any, Receive, Send], Awaitable[None]]


class HttpEngine:
    """What uvicorn's protocols of one node share."""

    def __init__(self, *, keep_alive_s: int) -> None:
        """`keep_alive_s` is how long a connection may stay without a request."""
        self._config = uvicorn.Config(
            _nobody, ws="none", lifespan="off", log_config=None, access_log=False, timeout_keep_alive=keep_alive_s
        )
        self._state = ServerState()

    def tick(self, wall_ms: int) -> None:
        """Bring the time of day, for the Date of responses (RFC 9110 6.6.1)."""
        self._state.default_headers = [(b"date", formatdate(wall_ms // 1000, usegmt=True).encode())]

    def begin(self, transport: ByteTransport, peer: PeerInfo, counters: ProtocolCounters, serve: Serve) -> "HttpStream":
        """Return the HTTP of one connection; `serve` is called for each request."""
        stream = HttpStream(self._config, self._state, serve)
        stream.connection_made(_Wire(transport, peer, counters))
        return stream


class HttpStream(HttpToolsProtocol):
    """The HTTP of one connection. `head_bytes` is what has come of a head, 0 between requests; `in_body`: of a body."""

    def __init__(self, config: uvicorn.Config, state: ServerState, serve: Serve) -> None:
        super().__init__(config, state, {})
        self.app = serve
        self.head_bytes = 0
        self.in_body = False

    def feed(self, data: bytes) -> bool:
        """Take bytes of the client. Return False when the head of a request is too large: it is answered already."""
        if not self.in_body:
            self.head_bytes += len(data)
        self.data_received(data)
        if self.head_bytes > HEAD_BYTES_MAX:
            self.refuse(431, "Request Header Fields Too Large")
            return False
        return True

    def refuse(self, status: int, reason: str) -> None:
        """Answer a request that has not come to its end, and close."""
        head = f"HTTP/1.1 {status} {reason}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode())
        self.transport.close()

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        # uvicorn puts names into lower case; those of user properties are the client's own.
        self.scope["state"]["fields"] = []

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        super().on_header(name, value)
        self.scope["state"]["fields"].append((name, value))

    def on_headers_complete(self) -> None:
        """Begin to serve the request; its body follows."""
        self.head_bytes = 0
        self.in_body = True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Note that all of the request is there."""
        self.in_body = False
        super().on_message_complete()


class _Wire(asyncio.Transport):
    """The transport that uvicorn sees."""

    def __init__(self, transport: ByteTransport, peer: PeerInfo, counters: ProtocolCounters) -> None:
        super().__init__({"peername": (peer.host, peer.port), "sslcontext": peer.is_encrypted or None})
        self._transport = transport
        self._counters = counters
        self._is_closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if data and not self._is_closing:  # an answer without a body still writes one
            self._counters.bytes_sent += len(data)
            self._transport.write(bytes(data))

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._transport.close_after_flush()

    def abort(self) -> None:
        self._is_closing = True
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()


async def _nobody(scope: Any, receive: Receive, send: Send) -> None:
    raise RuntimeError("every stream has a server of its own")
