"""Scripts of web pages as clients: which pages may read our answers (the Fetch standard's CORS protocol)."""

from typing import Final, final

from protocols.http.requests import Request

ANY: Final = "*"
PREFLIGHT_CACHED_S: Final = 600


@final
class CrossOrigin:
    """The pages that are allowed, by their origins; "*" allows all."""

    def __init__(self, allowed: frozenset[str]) -> None:
        self._allowed = allowed

    def headers(self, request: Request) -> list[tuple[bytes, bytes]]:
        """Return what lets the page of a request read the answer; nothing for other pages and other clients."""
        origin = request.header("origin")
        if not origin or not (origin in self._allowed or ANY in self._allowed):
            return []
        return [
            (b"access-control-allow-origin", origin.encode("latin-1", "replace")),
            (b"access-control-expose-headers", ANY.encode()),  # attributes of messages are headers, and users name them
            (b"vary", b"origin"),
        ]

    def preflight(self, request: Request, methods: bytes) -> list[tuple[bytes, bytes]]:
        """Return what else a page is told that asks what it may send; `methods` are those of the path."""
        if not self.headers(request):
            return []
        asked = request.header("access-control-request-headers").encode("latin-1", "replace")
        return [
            (b"access-control-allow-methods", methods),
            (b"access-control-allow-headers", asked),
            (b"access-control-max-age", str(PREFLIGHT_CACHED_S).encode()),
        ]
