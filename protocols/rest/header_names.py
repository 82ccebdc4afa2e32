"""Headers of a request that operators may not set: those that frame it, name its host, or concern the connection.

The gateway writes them. A second one would make a web server, or a proxy before it, read another request than the one
that was meant: `Transfer-Encoding` beside `Content-Length` is how requests are smuggled (RFC 9112 11.2). The rest are
hop-by-hop (RFC 9110 7.6.1), or wait for a response that settles nothing (`Expect`).
"""

from typing import Final

RESERVED: Final = frozenset(
    (
        "connection",
        "content-length",
        "expect",
        "host",
        "http2-settings",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)
RESERVED_PREFIX: Final = "proxy-"
HEADERS_ALLOWED: Final = (
    "headers other than Connection, Content-Length, Expect, Host, HTTP2-Settings, Keep-Alive, Proxy-..., TE, Trailer, "
    "Transfer-Encoding, Upgrade"
)


def is_reserved(name: str) -> bool:
    """Tell whether a header is one of those. Some servers take an underscore for a hyphen (RFC 3875 4.1.18)."""
    plain = name.lower().replace("_", "-")
    return plain in RESERVED or plain.startswith(RESERVED_PREFIX)
