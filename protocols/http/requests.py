"""One request and its answer: the body within its limits, gzip undone, and a response written in one piece."""

import zlib
from typing import Any, Final, final

from protocols.http.engine import Receive, Send
from protocols.http.problems import (
    BAD_REQUEST,
    JSON_TYPE,
    TOO_LARGE,
    UNSUPPORTED,
    XML_TYPE,
    HttpProblem,
    error_body,
)

OK: Final = 200
NO_CONTENT: Final = 204
_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS  # zlib's number for gzip with its largest window


@final
class ClientLeft(Exception):
    """The connection ended within a request; nobody waits for an answer."""


@final
class Request:
    """A request as far as it has come. Headers are by their names in lower case; the last of a name counts."""

    def __init__(self, scope: Any, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.raw_path: bytes = scope["raw_path"]
        self.raw_query: bytes = scope["query_string"]
        sent: list[tuple[bytes, bytes]] = scope["state"]["fields"]
        self.fields = [(name.decode("latin-1"), _text(value)) for name, value in sent]  # as they were sent
        self._by_name: dict[str, str] = {name.lower(): value for name, value in self.fields}
        self._receive = receive
        self._send = send

    def header(self, name: str) -> str:
        """Return a header's value, empty when it is not there. The name is in lower case."""
        return self._by_name.get(name, "")

    async def body(self, bytes_max: int) -> bytes:
        """Return the body, gzip undone. Raises HttpProblem when it is too large or not what it says it is."""
        length = self.header("content-length")
        if length.isdigit() and int(length) > bytes_max:
            raise _too_large(bytes_max)
        pieces: list[bytes] = []
        size = 0
        more = True
        while more:
            message = await self._receive()
            if message["type"] != "http.request":
                raise ClientLeft
            piece: bytes = message["body"]
            more = message["more_body"]
            size += len(piece)
            if size > bytes_max:
                raise _too_large(bytes_max)
            pieces.append(piece)
        return self._decoded(pieces[0] if len(pieces) == 1 else b"".join(pieces), bytes_max)

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
            raise HttpProblem(BAD_REQUEST, f"the body is no gzip: {error}") from None
        if len(plain) > bytes_max:
            raise _too_large(bytes_max)
        if not inflater.eof or inflater.unused_data:
            raise HttpProblem(BAD_REQUEST, "the body is no whole gzip member")
        return plain

    async def answer(self, status: int, body: bytes = b"", headers: list[tuple[bytes, bytes]] | None = None) -> None:
        """Send the response. Nothing happens when the client has left."""
        fields = [] if status == NO_CONTENT else [(b"content-length", str(len(body)).encode())]
        if headers:
            fields += headers
        await self._send({"type": "http.response.start", "status": status, "headers": fields})
        await self._send({"type": "http.response.body", "body": body})

    async def begin_stream(self, headers: list[tuple[bytes, bytes]]) -> None:
        """Begin a response that lasts."""
        await self._send({"type": "http.response.start", "status": OK, "headers": headers})

    async def stream(self, data: bytes) -> None:
        """Send more of it; return when the client's socket takes more again."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end_stream(self) -> None:
        """End it."""
        await self._send({"type": "http.response.body", "body": b""})

    async def answer_problem(self, problem: HttpProblem, headers: list[tuple[bytes, bytes]]) -> None:
        """Send the error document, as JSON to those who accept that."""
        as_json = "json" in self.header("accept")
        kind = JSON_TYPE if as_json else XML_TYPE
        await self.answer(
            problem.status,
            error_body(problem, as_json=as_json),
            [(b"content-type", kind), *problem.headers, *headers],
        )


def _text(value: bytes) -> str:
    """Return a header's value: UTF-8 as clients send it, or the bytes one by one where it is not."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _too_large(bytes_max: int) -> HttpProblem:
    # The rest of such a body is not read: the connection ends with the answer.
    detail = f"the body is larger than the {bytes_max} bytes that are taken here"
    return HttpProblem(TOO_LARGE, detail, headers=[(b"connection", b"close")])
