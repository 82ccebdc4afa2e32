"""The settings of a REST delivery point. Names are Solace's; files have been read, and texts checked."""

import ssl
from dataclasses import dataclass, field
from typing import Final

from sluicegate.protocols.rest.allowed_targets import AllowedTargets
from sluicegate.protocols.rest.targets import Target

RETRY_DELAY_MS_MAX: Final = 60_000  # what delays are doubled up to


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """A REST consumer: a web server that messages are pushed to. Two are equal when nothing was changed."""

    name: str
    enabled: bool
    remote_host: str
    remote_port: int
    targets: AllowedTargets  # what addresses it may have
    http_method: str  # POST or PUT
    outgoing_connection_count: int  # and as many requests at once
    max_post_wait_ms: int  # for an answer
    retry_delay_ms: int  # after a failure; each one after the other doubles it
    tls: ssl.SSLContext | None = field(compare=False)  # None: none
    tls_digests: tuple[bytes, ...]  # of what `tls` was made of
    headers: tuple[tuple[str, str], ...] = field(repr=False)  # that show who we are
    rejected_status_codes: frozenset[int]

    def url(self) -> str:
        """Return the URL up to the path."""
        host = f"[{self.remote_host}]" if ":" in self.remote_host else self.remote_host
        return f"{'http' if self.tls is None else 'https'}://{host}:{self.remote_port}"


@dataclass(frozen=True, slots=True)
class BindingSettings:
    """A queue binding: a queue of which messages are taken, and where in the web server they go."""

    queue: str
    post_request_target: Target
    request_headers: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class PointSettings:
    """A REST delivery point: every message of its queues goes to one of its consumers."""

    name: str
    queue_bindings: tuple[BindingSettings, ...]
    rest_consumers: tuple[ConsumerSettings, ...]


# Headers of a request that operators may not set: those that frame it, name its host, or concern the connection. The
# gateway writes them. A second one would make a web server, or a proxy before it, read another request than the one
# that was meant: `Transfer-Encoding` beside `Content-Length` is how requests are smuggled (RFC 9112 11.2). The rest are
# hop-by-hop (RFC 9110 7.6.1), or wait for a response that settles nothing (`Expect`).
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
    """Return whether a header is reserved. Some servers take an underscore for a hyphen (RFC 3875 4.1.18)."""
    plain = name.lower().replace("_", "-")
    return plain in RESERVED or plain.startswith(RESERVED_PREFIX)
