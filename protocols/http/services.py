"""What every HTTP connection of a node uses."""

from dataclasses import dataclass

from actors.cell import ActorCell
from actors.runtime import Runtime
from messaging.address import Address
from messaging.routing import TopicSpace
from protocols.authentication import Authenticator
from protocols.counters import ProtocolCounters
from protocols.http.engine import HttpEngine


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """What one client may ask of us."""

    body_bytes_max: int  # of a request, as it is sent and after gzip is undone
    message_bytes_max: int  # of each message in it
    batch_messages_max: int
    head_timeout_ms: int  # from the first byte of a request to the end of its headers, and from accept to the first
    body_timeout_ms: int  # of silence within a body
    allowed_origins: frozenset[str]  # of pages whose scripts may read our answers; "*": of all


@dataclass(frozen=True, slots=True)
class HttpServices:
    """Shared by the connections of all HTTP listeners."""

    runtime: Runtime
    space: TopicSpace
    router: ActorCell
    spool: Address
    authenticator: Authenticator
    limits: HttpLimits
    counters: ProtocolCounters
    engine: HttpEngine
