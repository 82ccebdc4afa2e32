"""Errors that an HTTP client is answered with: a status, a reason, and a detail.

The body is the error document that REST clients of Solace know, or JSON for those that accept it. 4xx: do not send it
again unchanged; 5xx: try again later.
"""

import http
from html import escape
from typing import Final, final

import orjson

from sluicegate.actors.messages.data import PublishFailed

JSON_TYPE: Final = b"application/json"
XML_TYPE: Final = b"application/xml"

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


def error_body(problem: HttpProblem, *, as_json: bool) -> bytes:
    """Return the error document."""
    if as_json:
        return orjson.dumps({"code": problem.status, "reason": problem.reason, "detail": problem.detail})
    return (
        f"<solace-error-response><code>{problem.status}</code><reason>{escape(problem.reason, quote=False)}</reason>"
        f"<detail>{escape(problem.detail, quote=False)}</detail></solace-error-response>"
    ).encode()
