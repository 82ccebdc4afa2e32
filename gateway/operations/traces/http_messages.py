"""Words for requests and responses of HTTP/1.1 (RFC 9112). It reads what it can, and refuses nothing: the engine does.

Credentials and cookies are never shown, bodies only as far as they are asked for. A message is shown when its body has
come, or the beginning of a long one; of a chunked body each chunk is shown as it passes. A connection may be a proxy's,
whose next request is for another message VPN: of such requests and their responses, the sizes are shown alone.
"""

import re
import zlib
from collections.abc import Callable
from enum import Enum, auto
from typing import Final

from sluicegate.gateway.operations.traces.exchanges import Exchange, Exchanges, Fields
from sluicegate.gateway.operations.traces.words import BODY_BYTES_MAX, PacketWords, Value, hidden
from sluicegate.protocols.http.connection import HttpConnection

LINE_BYTES_MAX: Final = 4096  # of a chunk's size with its extensions
VERSION_BYTES: Final = b"HTTP/1."  # what a response begins with
NOT_HERE: Final = "it is for another message VPN"
BODILESS: Final = (204, 304)
CONTINUE: Final = "100-continue"
SPACE: Final = " \t"
GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS  # zlib's number for gzip with its largest window

SCHEMES: Final = ("basic", "bearer", "digest", "negotiate")  # any other first word may itself be a secret
CREDENTIALS: Final = ("authorization", "proxy-authorization")
SECRETS: Final = (*CREDENTIALS, "authentication-info", "proxy-authentication-info", "cookie", "set-cookie")
_SECRET_WORDS: Final = re.compile(r"api[-_]?key|(?:auth|access)[-_]?token|secret|passw|credential", re.IGNORECASE)
_QUERY_PART: Final = re.compile(r"(?<=[?&])([^=&]*)=([^&]*)")
_USER_OF_URL: Final = re.compile(r"(?<=://)[^/@?]*@")


class State(Enum):
    """What comes next in one direction of a connection."""

    HEAD = auto()
    BODY = auto()  # of a known length
    CHUNK_SIZE = auto()
    CHUNK = auto()
    TRAILERS = auto()
    OPEN_BODY = auto()  # until the connection ends, or a piece is the beginning of another response
    LOST = auto()  # what comes cannot be read


class HttpMessages:
    """The messages of one direction of a connection. It keeps no more than `BODY_BYTES_MAX` bytes and one read."""

    def __init__(self, kind: str, framing: Callable[[list[str], Fields, PacketWords], tuple[Exchange, bool]]) -> None:
        """`framing` reads the first line, and returns the exchange, and whether there may be a body."""
        self.state = State.HEAD
        self.exchange = Exchange("", is_shown=True)  # that the message at hand belongs to
        self._kind = kind
        self._framing = framing
        self._rest = bytearray()
        self._to_skip = 0  # bytes of a body whose beginning is cut off already
        self._length = 0  # of the body, or of the chunk
        self._head_bytes = 0
        self._waiting: PacketWords | None = None  # for its body
        self._is_gzip = False

    def read(self, data: bytes) -> list[tuple[PacketWords, int]]:
        """Return the messages and chunks that are known by now."""
        if self.state is State.OPEN_BODY and data.startswith(VERSION_BYTES):
            self.state = State.HEAD
        skipped = min(self._to_skip, len(data))
        self._to_skip -= skipped
        self._rest += data[skipped:]
        found: list[tuple[PacketWords, int]] = []
        while self._rest and self._step(found):
            pass
        return found

    def _step(self, found: list[tuple[PacketWords, int]]) -> bool:
        """Read one part of a message; return whether it is there, and another one may be."""
        match self.state:
            case State.HEAD:
                return self._read_head(found)
            case State.BODY:
                return self._read_body(found)
            case State.CHUNK_SIZE:
                return self._read_chunk_size(found)
            case State.CHUNK:
                return self._read_chunk(found)
            case State.TRAILERS:
                return self._read_trailer(found)
            case State.OPEN_BODY:
                self._add(found, PacketWords("body", payload=bytes(self._rest)), len(self._rest))
                self._rest.clear()
            case State.LOST:
                self._rest.clear()
        return False

    def _read_head(self, found: list[tuple[PacketWords, int]]) -> bool:
        while self._rest.startswith(b"\r\n"):  # RFC 9112 2.2
            del self._rest[:2]
        end = self._rest.find(b"\r\n\r\n")
        if end < 0:
            if len(self._rest) > BODY_BYTES_MAX:
                self._lose(found, f"its head has more than {BODY_BYTES_MAX} bytes")
            return False
        head = _text(bytes(self._rest[:end])).split("\r\n")
        self._head_bytes = end + 4
        del self._rest[: self._head_bytes]
        fields = _fields(head[1:])
        words = PacketWords(self._kind)
        try:
            exchange, may_have_body = self._framing(head[0].split(" ", 2), fields, words)
            self._begin(found, words, fields, exchange, may_have_body=may_have_body)
        except ValueError:  # its text may be anything, and is not shown
            self._lose(found, f"it is not the head of a {self._kind}")
        return True

    def _begin(
        self,
        found: list[tuple[PacketWords, int]],
        words: PacketWords,
        fields: Fields,
        exchange: Exchange,
        *,
        may_have_body: bool,
    ) -> None:
        by_name = {name.lower(): value for name, value in fields}
        self.exchange = exchange
        if exchange.is_shown:
            words.properties += [(name, _shown(name, value)) for name, value in fields]
        self._is_gzip = by_name.get("content-encoding", "").lower() in ("gzip", "x-gzip")
        length = by_name.get("content-length")
        if may_have_body and "transfer-encoding" in by_name:
            self.state = State.CHUNK_SIZE
        elif may_have_body and length is None and self._kind == "response":
            self.state = State.OPEN_BODY
        else:
            self._length = _size(length, 10) if length and may_have_body else 0
            if self._length:
                words.fields["body_bytes"] = self._length
                self.state = State.BODY
                if by_name.get("expect", "").lower() != CONTINUE:
                    self._waiting = words
                    return
        self._add(found, words, self._head_bytes)

    def _read_body(self, found: list[tuple[PacketWords, int]]) -> bool:
        body = self._beginning()
        if body is None:
            return False
        self._drop(self._length)
        words, self._waiting = self._waiting, None
        head_bytes = self._head_bytes
        if words is None:  # the client has waited for 100 Continue, and its head was shown
            words, head_bytes = PacketWords("body"), 0
        words.payload = _plain(body) if self._is_gzip else body
        self.state = State.HEAD
        self._add(found, words, head_bytes + self._length)
        return True

    def _read_chunk_size(self, found: list[tuple[PacketWords, int]]) -> bool:
        line = self._line(found)
        if line is None:
            return False
        try:
            self._length = _size(_text(line.partition(b";")[0]), 16)
        except ValueError:
            self._lose(found, "it is not the size of a chunk")
            return True
        self.state = State.CHUNK if self._length else State.TRAILERS
        return True

    def _read_chunk(self, found: list[tuple[PacketWords, int]]) -> bool:
        chunk = self._beginning()
        if chunk is None:
            return False
        self._drop(self._length + 2)
        self.state = State.CHUNK_SIZE
        self._add(found, PacketWords("chunk", payload=chunk), self._length)
        return True

    def _read_trailer(self, found: list[tuple[PacketWords, int]]) -> bool:
        line = self._line(found)
        if line is None:
            return False
        if not line:
            self._add(found, PacketWords("last-chunk"), 0)
            self.state = State.HEAD
        return True

    def _line(self, found: list[tuple[PacketWords, int]]) -> bytes | None:
        end = self._rest.find(b"\r\n")
        if end < 0:
            if len(self._rest) > LINE_BYTES_MAX:
                self._lose(found, f"a line in its body has more than {LINE_BYTES_MAX} bytes")
            return None
        line = bytes(self._rest[:end])
        del self._rest[: end + 2]
        return line

    def _beginning(self) -> bytes | None:
        """Return the body, or the beginning of a long one; None: it is not there yet."""
        kept = min(self._length, BODY_BYTES_MAX)
        return bytes(self._rest[:kept]) if len(self._rest) >= kept else None

    def _drop(self, count: int) -> None:
        there = min(count, len(self._rest))
        del self._rest[:there]
        self._to_skip = count - there

    def _lose(self, found: list[tuple[PacketWords, int]], problem: str) -> None:
        """Show nothing more of this direction: where its next message begins is not known."""
        self.state = State.LOST
        found.append((PacketWords(self._kind, {"unreadable": problem}), len(self._rest)))
        self._rest.clear()

    def _add(self, found: list[tuple[PacketWords, int]], words: PacketWords, size: int) -> None:
        shown = words if self.exchange.is_shown else PacketWords(words.kind, {"not_shown": NOT_HERE})
        shown.exchange = self.exchange
        found.append((shown, size))


def http_messages(connection: HttpConnection, vpn: str) -> tuple[HttpMessages, HttpMessages]:
    """Return what reads the requests of a connection, and its responses, as far as they are of a message VPN."""
    exchanges = Exchanges(connection, vpn)

    def of_request(line: list[str], fields: Fields, words: PacketWords) -> tuple[Exchange, bool]:
        method, target, version = line
        words.fields |= {"method": method, "target": _shown_target(target), "version": version}
        return exchanges.requested(method, fields), True

    def of_response(line: list[str], fields: Fields, words: PacketWords) -> tuple[Exchange, bool]:
        version, status, reason = line
        shown: dict[str, Value] = {"status": int(status), "reason": reason, "version": version}
        words.fields |= shown
        exchange = exchanges.responded(int(status))
        return exchange, int(status) >= 200 and int(status) not in BODILESS and exchange.method != "HEAD"

    requests, responses = HttpMessages("request", of_request), HttpMessages("response", of_response)
    first = next(iter(connection.unanswered_requests()), None)
    if first is not None and first.has_begun:  # its response passes in part before the trace
        responses.state = State.CHUNK_SIZE if first.is_chunked else State.OPEN_BODY
        responses.exchange = exchanges.responded(200)
    return requests, responses


def _fields(lines: list[str]) -> Fields:
    """Return the headers in the lines of a head; a value may go on in further lines (RFC 9112 5.2)."""
    fields: Fields = []
    for line in lines:
        if fields and line[:1] in (" ", "\t"):
            name, value = fields[-1]
            fields[-1] = name, f"{value} {line.strip(SPACE)}".strip(SPACE)
        else:
            name, _, value = line.partition(":")
            fields.append((name, value.strip(SPACE)))
    return fields


def _size(text: str, base: int) -> int:
    """Return a size. Raises ValueError."""
    size = int(text, base)
    if size < 0:
        raise ValueError(text)
    return size


def _shown(name: str, value: str) -> str:
    """Return the value of a header, or what stands in the place of a secret one."""
    lower = name.lower()
    if lower not in SECRETS and not _SECRET_WORDS.search(name):
        return value
    scheme, _, rest = value.partition(" ")
    if lower in CREDENTIALS and scheme.lower() in SCHEMES:
        return f"{scheme} {hidden(rest.encode())}"
    return hidden(value.encode())


def _shown_target(target: str) -> str:
    """Return the target of a request, without a user in it and without parameters that hold a secret."""

    def part(found: re.Match[str]) -> str:
        name, value = found.groups()
        return f"{name}={hidden(value.encode())}" if _SECRET_WORDS.search(name) else found.group()

    return _QUERY_PART.sub(part, _USER_OF_URL.sub("", target))


def _plain(body: bytes) -> bytes:
    """Return the beginning of a body with gzip undone, or the body as it is where that cannot be done."""
    try:
        return zlib.decompressobj(GZIP_WINDOW).decompress(body, BODY_BYTES_MAX)
    except zlib.error:
        return body


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")
