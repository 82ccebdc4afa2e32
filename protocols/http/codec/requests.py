"""One request and its response: the rules for its head, the body within its limits with gzip undone, and the answer.

Requests are cut out of the stream of bytes in `engine`; the order in which they are begun is in `connection`.
"""

import base64
import binascii
import re
import zlib
from typing import Final, final

from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.messaging.clients.rights import ClientRights
from sluicegate.protocols.http.codec.responses import (
    BAD_REQUEST,
    CONTINUE,
    NO_CONTENT,
    NOT_IMPLEMENTED,
    OK,
    TOO_LARGE,
    UNSUPPORTED,
    VERSION_NOT_SUPPORTED,
    HttpProblem,
    ResponseHeads,
    error_document,
)
from sluicegate.protocols.transport.interface import append_piece

AHEAD_BYTES_MAX: Final = 64 * 1024  # of a body that is not read yet; a smaller one is waited for, and read at once
_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS  # zlib's number for gzip with its largest window
VERSIONS: Final = ("1.0", "1.1")  # the parser takes others for one of them
# RFC 3986 3.2.2 and 3.2.3: a name, an address of IPv4, or one of another family in brackets; and a port.
_HOST: Final = re.compile(
    r"(?:[A-Za-z0-9\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{2})*(?::[0-9]*)?|\[[0-9A-Za-z:.%~_-]+\](?::[0-9]*)?"
)


@final
class ClientLeft(Exception):
    """The client waits for no answer: the connection ended within the request, or its rest was refused."""


@final
class Request:
    """A request, perhaps unfinished. Headers are by their names in lower case; the last of a name counts."""

    def __init__(self, heads: ResponseHeads) -> None:
        self.method = ""
        self.raw_path = b""
        self.raw_query = b""
        self.host = ""  # that it is for: of a whole URL, or the header's; empty: it does not say
        self.fields: list[tuple[str, str]] = []  # as they were sent
        self.is_http_1_0 = False
        self.is_last = False  # the connection ends with its answer
        self.is_whole = False  # all of its body is there
        self.is_answered = False
        self.has_begun = False  # to be answered, with more to come
        self.is_chunked = False  # the answer
        self.rights: ClientRights | None = None  # of the client that it was admitted as; None: it was not
        self.vpn = ""  # the message VPN that it was admitted to
        self.body_bytes = 0  # that have come
        self.output: list[bytes] = []  # of the answer, to be written in its turn
        self.answer_headers: list[tuple[bytes, bytes]] = []  # that every answer to it has
        self._by_name: dict[str, str] = {}
        self._heads = heads
        self._pieces: list[bytes] = []
        self._expects_continue = False
        self._is_read = False  # the body is read as it comes
        self._came: LoopFuture[None] | None = None  # a task waits for more of the body

    # --- what comes ---

    def field(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        text = name.decode("latin-1")
        said = _text(value)
        self.fields.append((text, said))
        self._by_name[text.lower()] = said

    def headers_complete(self) -> None:
        """Note that the body follows, if there is any."""
        self._expects_continue = self.header("expect").lower() == "100-continue"

    def came(self, piece: bytes) -> None:
        """Take a piece of the body. It is dropped when the answer is there already."""
        self.body_bytes += len(piece)
        if not self.is_answered:
            append_piece(self._pieces, piece)
            self._wake()

    def complete(self) -> None:
        """Note that the body is complete."""
        self.is_whole = True
        self._wake()

    def client_left(self) -> None:
        """Note that the client is gone."""
        self._end()

    # --- what is asked of it ---

    def header(self, name: str) -> str:
        """Return a header's value, empty when it is not there. The name is in lower case."""
        return self._by_name.get(name, "")

    def values(self, name: str) -> list[str]:
        """Return all values of a header, as they came. The name is in lower case."""
        if name not in self._by_name:
            return []
        if len(self._by_name) == len(self.fields):  # nearly always: no name stands there twice
            return [self._by_name[name]]
        return [value for each, value in self.fields if each.lower() == name]

    @property
    def content_length(self) -> int:
        """The announced length of the body; 0 without one."""
        length = self.header("content-length")
        return int(length) if length.isascii() and length.isdigit() else 0

    @property
    def is_awaited(self) -> bool:
        """Whether the client waits for 100 Continue."""
        return self._expects_continue

    @property
    def is_large(self) -> bool:
        """Whether the body is too large to wait for all of it before the request is begun."""
        return max(self.content_length, self.body_bytes) > AHEAD_BYTES_MAX

    @property
    def is_ahead(self) -> bool:
        """Whether more of the body has come than is taken before it is read."""
        return self.body_bytes > AHEAD_BYTES_MAX and not self._is_read and not self.is_answered

    def body(self, bytes_max: int) -> bytes:
        """Return the body, which is whole, gzip undone.

        Raises HttpProblem: it is too large or not what it says. Raises ClientLeft: the client has left.
        """
        if self.is_answered:
            raise ClientLeft
        self.check_size(bytes_max)
        pieces = self._pieces
        return self._decoded(pieces[0] if len(pieces) == 1 else b"".join(pieces), bytes_max)

    def check_size(self, bytes_max: int) -> None:
        """Raise HttpProblem when the body is, or is going to be, too large as it is sent."""
        if self.body_bytes > bytes_max or self.content_length > bytes_max:
            raise _too_large(bytes_max)

    async def more(self) -> None:
        """Wait for more of the body, or for its end."""
        if not self.is_whole and not self.is_answered:
            self._came = LoopFuture()
            await self._came

    def _wake(self) -> None:
        came, self._came = self._came, None
        if came is not None:
            came.set()

    def _decoded(self, body: bytes, bytes_max: int) -> bytes:
        encoding = self.header("content-encoding").strip().lower()
        if encoding in ("", "identity"):
            return body
        if encoding not in ("gzip", "x-gzip"):
            raise HttpProblem(
                UNSUPPORTED,
                f"Content-Encoding: {encoding!r:.80} is neither gzip nor identity",
                headers=[(b"accept-encoding", b"gzip")],
            )
        inflater = zlib.decompressobj(_GZIP_WINDOW)
        try:
            plain = inflater.decompress(body, bytes_max + 1)
        except zlib.error as error:
            raise HttpProblem(BAD_REQUEST, f"the body is not gzip: {error}") from None
        if len(plain) > bytes_max:
            raise _too_large(bytes_max)
        if not inflater.eof or inflater.unused_data:
            raise HttpProblem(BAD_REQUEST, "the body is not a whole gzip member")
        return plain

    # --- its answer ---

    def read(self) -> None:
        """Read the body as it comes; a client that waits for 100 Continue gets it (RFC 9110 10.1.1)."""
        self._is_read = True
        if self._expects_continue:
            self._expects_continue = False
            self.output.append(CONTINUE)

    def answer(self, status: int, body: bytes = b"", headers: list[tuple[bytes, bytes]] | None = None) -> None:
        """Answer the request. Nothing happens when the client has left."""
        if self.is_answered:
            return
        fields = [] if status == NO_CONTENT else [(b"content-length", str(len(body)).encode())]
        if headers:
            fields += headers
        fields += self.answer_headers
        self.output.append(self._heads.head(status, fields, is_last=self.is_last))
        if body and self.method != "HEAD":
            self.output.append(body)
        self._end()

    def answer_ok(self) -> None:
        """Answer with an empty 200, the most frequent response."""
        if self.is_last or self.answer_headers:
            self.answer(OK)
        elif not self.is_answered:
            self.output.append(self._heads.empty_ok)
            self._end()

    def answer_problem(self, problem: HttpProblem) -> None:
        """Answer with the error document, in the form that the client accepts; abort a response that has begun."""
        self.is_last = self.is_last or problem.ends_connection or self.has_begun
        if self.has_begun:
            self._end()
            return
        kind, body = error_document(problem, self.header("accept"))
        self.answer(problem.status, body, [(b"content-type", kind), *problem.headers])

    def begin_stream(self, headers: list[tuple[bytes, bytes]]) -> None:
        """Begin a streamed response."""
        if self.is_answered:
            return
        self.has_begun = True
        self.is_chunked = not self.is_http_1_0  # else the end of the connection is that of the answer
        fields = [*headers, *self.answer_headers]
        if self.is_chunked:
            fields.append((b"transfer-encoding", b"chunked"))
        self.output.append(self._heads.head(OK, fields, is_last=self.is_last))

    def stream(self, data: bytes) -> None:
        """Give more of it."""
        if data and not self.is_answered:
            self.output.append(b"%x\r\n%b\r\n" % (len(data), data) if self.is_chunked else data)

    def end_stream(self) -> None:
        """End it."""
        if not self.is_answered:
            if self.is_chunked:
                self.output.append(b"0\r\n\r\n")
            self._end()

    def pass_on(self, data: bytes) -> None:
        """Give bytes of an answer that another broker has written, head and all."""
        if not self.is_answered:
            self.has_begun = True
            self.output.append(data)

    def end_passing(self, *, is_last: bool) -> None:
        """End such an answer; its head may say that the connection ends with it."""
        self.is_last = self.is_last or is_last
        if not self.is_answered:
            self._end()

    def _end(self) -> None:
        self.is_answered = True
        self._pieces.clear()
        self._wake()


def _text(value: bytes) -> str:
    """Return a header's value: UTF-8 as clients send it, or the bytes one by one where it is not."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _too_large(bytes_max: int) -> HttpProblem:
    # The rest of such a body is not read: the connection ends with the answer.
    detail = f"the body is larger than the {bytes_max} bytes that are taken here"
    return HttpProblem(TOO_LARGE, detail, ends_connection=True)


def basic_credentials(value: str) -> tuple[str, bytes]:
    """Return user name and password of an Authorization header of the scheme Basic (RFC 7617). Raises ValueError.

    Whom they authenticate is decided in `protocols.security.authentication`.
    """
    try:
        name, colon, password = base64.b64decode(value, validate=True).partition(b":")
        if colon:
            return name.decode("utf-8"), password
    except (binascii.Error, ValueError):
        pass
    raise ValueError("Authorization: Basic is not the base64 of name:password in UTF-8")


def problem_of(request: Request, target: bytes, version: str) -> HttpProblem | None:
    """Return what a request is refused with for its head alone, None if it is not. The grammar is the parser's.

    One Host, or none in 1.0, of a valid form (RFC 9112 3.2); no transfer coding but chunked, which would have to be
    undone (6.1); a target without a fragment, which nobody sends (3.2); a version that this is (RFC 9110 15.6.6).
    """
    if version not in VERSIONS:
        return HttpProblem(VERSION_NOT_SUPPORTED, f"HTTP/{version} is not supported; use HTTP/1.1")
    hosts = request.values("host")
    if len(hosts) > 1 or (version != "1.0" and not hosts):
        return HttpProblem(BAD_REQUEST, f"{len(hosts)} Host headers; allowed: one")
    if hosts and _HOST.fullmatch(hosts[0]) is None:
        return HttpProblem(BAD_REQUEST, f"Host: {hosts[0]!r:.80} is not a name or address of a host")
    if b"#" in target:
        return HttpProblem(BAD_REQUEST, "the target of the request has a fragment")
    codings = request.values("transfer-encoding")
    if codings and [each.lower() for each in codings] != ["chunked"]:
        detail = f"Transfer-Encoding: {', '.join(codings)!r:.80} is not undone here; allowed: chunked"
        return HttpProblem(NOT_IMPLEMENTED, detail)
    return None
