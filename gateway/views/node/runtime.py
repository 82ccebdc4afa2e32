"""Views of a running node: its actors, its events, its health, and the result of a reload."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorView:
    """One actor and what it supervises."""

    name: str  # last part of the path
    path: str  # names from the root, joined by '/'
    kind: str
    state: str
    inbox_depth: int
    handled_count: int  # messages between actors: one of them carries many messages of clients
    batch_count: int  # times that the inbox was emptied
    batch_size_mean: float  # messages each time
    handling_time_us: float  # mean of each time
    restart_count: int
    children: tuple["ActorView", ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EventView:
    """One event."""

    number: int  # ascending by one since the start of the node
    time_ms: int  # wall clock
    level: str  # info, notice, warning or error
    scope: str  # SYSTEM, VPN or CLIENT
    event: str  # its name
    text: str  # as it is logged and published
    vpn: str | None = None
    client: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Liveness and readiness of the node."""

    live: bool
    ready: bool
    reasons: tuple[str, ...] = ()  # why it is not ready, a sentence each
    active: bool = True  # it serves clients when it is ready; a standby does not


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadView:
    """The result of a reload of the configuration."""

    taken_over: tuple[str, ...]  # changed settings that are in force now
    restart_needed: tuple[str, ...]  # changed settings that are not in force yet
    warnings: tuple[str, ...]  # about declared objects: probably unintended, or could not be created
