"""The heads of responses: status line, Date, the response's own headers, and the length of its body."""

import http
from email.utils import formatdate
from typing import Final, final

OK: Final = 200
NO_CONTENT: Final = 204
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
STATUS_LINES: Final = {each.value: f"HTTP/1.1 {each.value} {each.phrase}\r\n".encode() for each in http.HTTPStatus}


@final
class ResponseHeads:
    """Makes the heads of all responses of a node, with the time of day in them (RFC 9110 6.6.1)."""

    def __init__(self) -> None:
        self._date = b""
        self.empty_ok = b""  # the whole response to a publish that is safe, on a connection that is kept
        self.tick(0)

    def tick(self, wall_ms: int) -> None:
        """Bring the time of day."""
        self._date = b"date: " + formatdate(wall_ms // 1000, usegmt=True).encode() + b"\r\n"
        self.empty_ok = self.head(OK, [(b"content-length", b"0")], is_last=False)

    def head(self, status: int, fields: list[tuple[bytes, bytes]], *, is_last: bool) -> bytes:
        """Return a head; `fields` are names and values that a head can hold. After the last one the connection ends."""
        pieces = [STATUS_LINES[status], self._date]
        for name, value in fields:
            pieces += [name, b": ", value, b"\r\n"]
        pieces.append(b"connection: close\r\n\r\n" if is_last else b"\r\n")
        return b"".join(pieces)
