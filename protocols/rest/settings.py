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
