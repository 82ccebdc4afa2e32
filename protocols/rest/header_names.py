"""Which headers of a request operators may not set: those that say where it ends, whose it is, or what the connection
is for.

They are the gateway's to write. One set beside its own would have a web server, or a proxy before it, read another
request than the one that was meant: `Transfer-Encoding` beside `Content-Length` is how requests are smuggled (RFC 9112
11.2). The rest are hop-by-hop (RFC 9110 7.6.1), or wait for an answer that settles nothing (`Expect`).
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
