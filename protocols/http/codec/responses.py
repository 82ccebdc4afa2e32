"""Responses: status codes, heads, and the problems that clients are answered with.

The body of a problem is the error document that REST clients of Solace know; for those that accept JSON, the same as
JSON; for those that accept it, an RFC 9457 problem document. 4xx: do not send it again unchanged; 5xx: try again later.
"""

import http
from email.utils import formatdate
from html import escape
from typing import Final, final

import orjson

from sluicegate.actors.messages.data import PublishFailed

JSON_TYPE: Final = b"application/json"
XML_TYPE: Final = b"application/xml"
PROBLEM_TYPE: Final = b"application/problem+json"

OK: Final = 200
NO_CONTENT: Final = 204
BAD_REQUEST: Final = 400
UNAUTHORIZED: Final = 401
NOT_FOUND: Final = 404
METHOD_NOT_ALLOWED: Final = 405
REQUEST_TIMEOUT: Final = 408
CONFLICT: Final = 409
TOO_LARGE: Final = 413
UNSUPPORTED: Final = 415
HEAD_TOO_LARGE: Final = 431
INTERNAL: Final = 500
NOT_IMPLEMENTED: Final = 501
UNAVAILABLE: Final = 503
REPLY_TIMEOUT: Final = 504
VERSION_NOT_SUPPORTED: Final = 505
ERROR_MIN: Final = 400  # statuses from here on say that a request failed

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
STATUS_LINES: Final = {each.value: f"HTTP/1.1 {each.value} {each.phrase}\r\n".encode() for each in http.HTTPStatus}
CHALLENGES: Final = b'Basic realm="sluicegate", charset="UTF-8", Bearer realm="sluicegate"'  # in WWW-Authenticate


@final
class HttpProblem(Exception):
    """A request that is answered with an error. `reason` is a few words, `detail` says what was wrong and where."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        reason: str = "",
        headers: list[tuple[bytes, bytes]] | None = None,
        ends_connection: bool = False,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.reason = reason or http.HTTPStatus(status).phrase
        self.detail = detail
        self.headers = [] if headers is None else headers  # beside the usual ones
        self.ends_connection = ends_connection


def refusal_problem(text: str, refused_by: str, also_refused: str = "") -> HttpProblem:
    """Return the problem of a message that was not taken; `text` is one of `messaging.message.refusals`."""
    status, _, words = text.partition(" ")
    reason, _, detail = words.partition(": ")
    queue = f" ({refused_by})" if refused_by else ""
    return HttpProblem(int(status), (detail or reason) + queue + also_refused, reason=reason)


def not_stored(refusal: PublishFailed) -> HttpProblem:
    """Return the problem of a message that was taken, and then could not be stored."""
    return refusal_problem(refusal.text(), "")


def error_document(problem: HttpProblem, accept: str) -> tuple[bytes, bytes]:
    """Return media type and body of the error document, in the form that the `Accept` of a request asks for."""
    accept = accept.lower()
    status, reason, detail = problem.status, problem.reason, problem.detail
    if PROBLEM_TYPE.decode() in accept:
        document = {"type": "about:blank", "title": reason, "status": status, "detail": detail}
        return PROBLEM_TYPE, orjson.dumps(document)
    if "json" in accept:
        return JSON_TYPE, orjson.dumps({"code": status, "reason": reason, "detail": detail})
    return XML_TYPE, (
        f"<solace-error-response><code>{problem.status}</code><reason>{escape(problem.reason, quote=False)}</reason>"
        f"<detail>{escape(problem.detail, quote=False)}</detail></solace-error-response>"
    ).encode()


@final
class ResponseHeads:
    """Makes the heads of all responses of a node: status line, Date (RFC 9110 6.6.1), the response's own headers.

    `errors` counts those that say that a request failed, by status.
    """

    def __init__(self) -> None:
        self._date = b""
        self.errors: dict[int, int] = {}
        self.empty_ok = b""  # the whole response to a publish that is safe, on a connection that is kept
        self.tick(0)

    def tick(self, wall_ms: int) -> None:
        """Bring the time of day."""
        self._date = b"date: " + formatdate(wall_ms // 1000, usegmt=True).encode() + b"\r\n"
        self.empty_ok = self.head(OK, [(b"content-length", b"0")], is_last=False)

    def head(self, status: int, fields: list[tuple[bytes, bytes]], *, is_last: bool) -> bytes:
        """Return a head; `fields` are names and values that a head can hold. After the last one the connection ends."""
        if status >= ERROR_MIN:
            self.errors[status] = self.errors.get(status, 0) + 1
        pieces = [STATUS_LINES[status], self._date]
        for name, value in fields:
            pieces += [name, b": ", value, b"\r\n"]
        pieces.append(b"connection: close\r\n\r\n" if is_last else b"\r\n")
        return b"".join(pieces)
