"""CORS (the Fetch standard): which web pages may read the broker's responses.

Whether a request of a page is answered at all is decided in `protocols.transport.origins`.
"""

from typing import Final, final

from sluicegate.protocols.http.codec.requests import Request
from sluicegate.protocols.transport.origins import ForeignRequest, WebPages

ANY_HEADER: Final = b"*"
PREFLIGHT_CACHED_S: Final = 600


@final
class CrossOrigin:
    """What the pages that may use the port of a connection are told, and what the others are."""

    def __init__(self, pages: WebPages) -> None:
        self._pages = pages

    def refusal(self, request: Request) -> ForeignRequest | None:
        """Return why a request is refused, None if it is not. The page may read the answer if its origin is allowed."""
        origin = request.header("origin")
        if origin:
            request.answer_headers = self._headers(origin)
            origin = ", ".join(request.values("origin"))
        return self._pages.refusal(request.host, origin, request.header("sec-fetch-site"))

    def preflight(self, request: Request, methods: bytes) -> list[tuple[bytes, bytes]]:
        """Return what else a page is told that asks what it may send; `methods` are those of the path."""
        if not self._headers(request.header("origin")):
            return []
        asked = request.header("access-control-request-headers").encode("latin-1", "replace")
        fields = [
            (b"access-control-allow-methods", methods),
            (b"access-control-allow-headers", asked),
            (b"access-control-max-age", str(PREFLIGHT_CACHED_S).encode()),
        ]
        # Chromium asks for a page of the Internet before it goes to a machine that others there cannot reach.
        if request.header("access-control-request-private-network"):
            fields.append((b"access-control-allow-private-network", b"true"))
        return fields

    def _headers(self, origin: str) -> list[tuple[bytes, bytes]]:
        """Return what lets a page read an answer; nothing for pages that may not, and for other clients."""
        if not origin or not self._pages.allows(origin):
            return []
        return [
            (b"access-control-allow-origin", origin.encode("latin-1", "replace")),
            (b"access-control-expose-headers", ANY_HEADER),  # attributes of messages are headers, and users name them
            (b"vary", b"origin"),
        ]
