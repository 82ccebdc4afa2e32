"""Sockets of the load generator: plain, with TLS, and in WebSocket frames; first blocking, then on an epoll object.

During its setup a client waits for each answer: `send` and `read_exactly`. `join` makes it non-blocking: `write` and
`flush` never wait, and `read_into` returns the bytes that are there. The protocols interpret the bytes.
"""

import select
import socket
import ssl
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, final

CONNECT_TIMEOUT_S: Final = 30.0
RECEIVE_BYTES: Final = 256 * 1024
_TLS_RECORD_BYTES_MAX: Final = 1 << 15  # of ciphertext that was read earlier, and is no whole record yet

Address = tuple[str, int]
Data = bytes | bytearray | memoryview


class Connection:
    """A socket with a buffer for bytes that the kernel does not take yet."""

    def __init__(self, address: Address) -> None:
        self.socket = socket.create_connection(address, timeout=CONNECT_TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.unsent = b""
        self._poll: select.epoll | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket without a message to the broker."""
        self.socket.close()

    # --- while it is set up ---

    def send(self, data: Data) -> None:
        """Send all bytes, and wait until the kernel has them."""
        self.socket.sendall(self._enclosed(data))

    def read_exactly(self, count: int) -> bytes:
        """Read exactly `count` bytes. Raises ConnectionError when the broker closes."""
        data = b""
        while len(data) < count:
            data += self._read_some(count - len(data))
        return data

    def _read_some(self, count_max: int) -> bytes:
        return _not_ended(self.socket.recv(count_max))

    # --- on an epoll object ---

    def join(self, poll: select.epoll) -> None:
        """Switch to non-blocking: `poll` reports data to read, and room for unsent bytes."""
        self.socket.setblocking(False)
        self._poll = poll
        poll.register(self.socket.fileno(), select.EPOLLIN)

    def write(self, data: Data) -> None:
        """Send, and keep the rest for `flush`. The caller stops writing while bytes are unsent."""
        self._write(self._enclosed(data))

    def flush(self) -> None:
        """Send the kept bytes: the socket is writable again."""
        data, self.unsent = self.unsent, b""
        self._listen(select.EPOLLIN)
        self._write(data)

    def read_into(self, view: memoryview) -> int:
        """Return the number of bytes read, 0 when there are none. Raises ConnectionError at the end."""
        try:
            count = self.socket.recv_into(view)
        except BlockingIOError:
            return 0
        if count == 0:
            raise ConnectionError("the broker closed a connection")
        return count

    def _enclosed(self, data: Data) -> Data:
        """Return the bytes on the wire for these bytes."""
        return data

    def _write(self, data: Data) -> None:
        if self.unsent:
            self.unsent += data
            return
        try:
            sent = self.socket.send(data)
        except BlockingIOError:
            sent = 0
        if sent < len(data):
            self.unsent = bytes(data[sent:])
            self._listen(select.EPOLLIN | select.EPOLLOUT)

    def _listen(self, events: int) -> None:
        assert self._poll is not None, "a connection that has not joined"
        self._poll.modify(self.socket.fileno(), events)


@final
class TlsConnection(Connection):
    """TLS over memory buffers: one read takes all data, so none waits where epoll does not see it."""

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context()
        context.check_hostname = False  # a load, not a client that has to know whom it talks to
        context.verify_mode = ssl.CERT_NONE
        self._tls = context.wrap_bio(self._incoming, self._outgoing)
        self._ciphertext = memoryview(bytearray(RECEIVE_BYTES))
        while not self._shaken():
            self.socket.sendall(self._outgoing.read())
            self._incoming.write(_not_ended(self.socket.recv(RECEIVE_BYTES)))
        self.socket.sendall(self._outgoing.read())

    def _shaken(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def _read_some(self, count_max: int) -> bytes:
        try:
            return self._tls.read(count_max)
        except ssl.SSLWantReadError:
            self._incoming.write(_not_ended(self.socket.recv(RECEIVE_BYTES)))
            return b""

    def read_into(self, view: memoryview) -> int:
        """Return the number of bytes read, 0 when no record is complete. Raises ConnectionError at the end."""
        room = min(len(view), RECEIVE_BYTES) - self._incoming.pending - _TLS_RECORD_BYTES_MAX
        self._incoming.write(self._ciphertext[: super().read_into(self._ciphertext[:room])])
        done = 0
        while done < len(view):
            try:
                record = self._tls.read(len(view) - done)
            except ssl.SSLWantReadError:
                break
            view[done : done + len(record)] = record
            done += len(record)
        return done

    def _enclosed(self, data: Data) -> bytes:
        self._tls.write(data)
        return self._outgoing.read()


@final
class WebSocketConnection(Connection):
    """MQTT in binary frames [RFC 6455]; a write is a frame, whose mask is of zeros, as a client may choose."""

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._raw = b""  # the start of a frame
        self._early = b""  # payload that came while the client was set up
        host, port = address
        request = (
            f"GET /mqtt HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: c2x1aWNlZ2F0ZS1iZW5jaA==\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Protocol: mqtt\r\n\r\n"
        )
        self.socket.sendall(request.encode())
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            answer += _not_ended(self.socket.recv(1))
        if b" 101 " not in answer.split(b"\r\n", 1)[0]:
            raise ConnectionError(f"no WebSocket: {answer[:200]!r}")

    def _read_some(self, count_max: int) -> bytes:
        if not self._early:
            self._early = self._payload(_not_ended(self.socket.recv(RECEIVE_BYTES)))
        data, self._early = self._early[:count_max], self._early[count_max:]
        return data

    def read_into(self, view: memoryview) -> int:
        """Return the number of bytes of payload. Raises ConnectionError at the end."""
        room = len(view) - len(self._early) - len(self._raw)
        try:
            received = _not_ended(self.socket.recv(room))
        except BlockingIOError:
            received = b""
        payload = self._early + self._payload(received)
        self._early = b""
        view[: len(payload)] = payload
        return len(payload)

    def _payload(self, received: bytes) -> bytes:
        """Return the payload of all complete frames."""
        data = self._raw + received
        found: list[bytes] = []
        at = 0
        while at + 2 <= len(data):
            head, size = 2, data[at + 1] & 0x7F
            if size >= 126:
                head = 4 if size == 126 else 10
                if at + head > len(data):
                    break
                size = int.from_bytes(data[at + 2 : at + head], "big")
            if at + head + size > len(data):
                break
            if data[at] & 0x0F in (0, 2):  # continuation, binary
                found.append(data[at + head : at + head + size])
            elif data[at] & 0x0F == 8:
                raise ConnectionError("the broker closed a WebSocket")
            at += head + size
        self._raw = data[at:]
        return b"".join(found)

    def _enclosed(self, data: Data) -> bytes:
        size = len(data)
        if size < 126:
            length = bytes((0x80 | size,))
        elif size < 1 << 16:
            length = b"\xfe" + size.to_bytes(2, "big")
        else:
            length = b"\xff" + size.to_bytes(8, "big")
        return b"".join((b"\x82", length, b"\x00\x00\x00\x00", data))


Opener = Callable[[Address], Connection]


def _not_ended(data: bytes) -> bytes:
    if not data:
        raise ConnectionError("the broker closed a connection while it was set up")
    return data
