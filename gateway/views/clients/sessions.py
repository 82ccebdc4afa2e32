"""MQTT sessions as operators see them: they outlive the connections of their clients."""

from dataclasses import dataclass
from typing import Final

from sluicegate.gateway.views.clients.connections import WillView

SESSIONS_MAX: Final = 10_000  # of one answer
SESSIONS_DEFAULT: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MqttSessionView:
    """The session of one MQTT client."""

    client_id: str
    broker: str = ""  # of a machine with several
    client_username: str  # who may resume it; empty: anybody
    connected: bool
    expiry_s: int | None  # from the end of its connection to its own; None: it never expires
    disconnected_ms: int | None  # wall clock: since when its client is away
    expires_ms: int | None  # wall clock; None: its client is connected, or it never expires
    subscriptions_count: int
    queue: str | None  # of its messages of QoS 1 and 2; None: it has asked for none so far
    ready_count: int  # messages that wait for the client
    unacked_count: int  # messages that it was sent and has not acknowledged
    spooled_bytes: int
    unreleased_count: int  # messages of QoS 2 that the client has sent and not released
    will: WillView | None  # that waits, while the client is away


@dataclass(frozen=True, slots=True, kw_only=True)
class MqttSessionsView:
    """One page of sessions."""

    total_count: int  # of those that were asked for, on this page or not
    sessions: tuple[MqttSessionView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionQuery:
    """Which sessions to return. `*` stands for any characters, `?` for one; an empty pattern is for all."""

    client_id: str = ""  # pattern
    connected: bool | None = None  # None: whether their clients are connected or not
    after: int = 0  # sessions to pass over
    limit: int = SESSIONS_DEFAULT
