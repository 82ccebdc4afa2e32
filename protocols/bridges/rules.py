"""What the rules of a bridge know of it, and what they count.

A rule is an actor of the bridge: it takes messages from a queue or topics of ours, or publishes what arrives. All rules
of a bridge share one connection.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, final

from sluicegate.actors.publishing.publisher import Publisher
from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.runtime import ActorCell, Runtime
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.observability.events import VPN_BRIDGE_RULE_LOWERED, as_word
from sluicegate.messaging.queues.credit import CreditPool
from sluicegate.protocols.bridges.remote import Line
from sluicegate.protocols.bridges.settings import CLIENT_PREFIX, BridgeSettings

PROTOCOL: Final = "bridge"  # of its flows, as operators see them
RULES_MAX: Final = 256  # of one direction: their index is the last byte of a message's number

# Why a rule drops a message; each is a counter of the rule.
DROPPED_CAME_BACK: Final = "came_back"  # it has left this broker before
DROPPED_TOO_MANY_HOPS: Final = "too_many_hops"
DROPPED_OWN: Final = "own"  # the same bridge has brought it here
DROPPED_UNMAPPED: Final = "unmapped"  # its topic has no image
DROPPED_NOT_CONNECTED: Final = "not_connected"  # of a topic: direct messages wait for nobody
DROPPED_WINDOW_FULL: Final = "window_full"  # of a topic: the foreign broker is slower than the publishers
DROPPED_REFUSED: Final = "refused"  # the side that it goes to never takes it
DROPPED_INVALID: Final = "invalid"  # it has a topic or properties that cannot be published here
DROPS: Final = (
    DROPPED_CAME_BACK,
    DROPPED_TOO_MANY_HOPS,
    DROPPED_OWN,
    DROPPED_UNMAPPED,
    DROPPED_NOT_CONNECTED,
    DROPPED_WINDOW_FULL,
    DROPPED_REFUSED,
    DROPPED_INVALID,
)


@final
@dataclass(slots=True)
class RuleCounters:
    """The totals of one rule, kept while the bridge is paused or changed. They never fall."""

    messages_count: int = 0  # that the other side has confirmed
    payload_bytes: int = 0  # of these
    failures_count: int = 0  # times that the other side did not take a message now, and it is tried again
    dropped: dict[str, int] = field(default_factory=dict)  # by reason
    lowered_count: int = 0  # times that the foreign broker gave it less than it asks for

    def drop(self, reason: str, count: int = 1) -> None:
        """Count messages that go no further."""
        self.dropped[reason] = self.dropped.get(reason, 0) + count


@final
class Shortfalls:
    """What the foreign broker gives one rule less than it asks for, in this connection."""

    def __init__(self, counters: RuleCounters, events: Events, name: str) -> None:
        """`name` is that of the rule in events."""
        self._counters = counters
        self._events = events
        self._name = name
        self._texts: list[str] = []
        self._told: set[str] = set()  # of all connections: each is an event once

    @property
    def text(self) -> str:
        """All of them, for operators; empty: it has what it asks for."""
        return "; ".join(self._texts)

    def note(self, text: str) -> None:
        """Count one, and tell of it unless an earlier connection had it."""
        self._counters.lowered_count += 1
        self._texts.append(text)
        if text not in self._told:
            self._told.add(text)
            self._events.emit(VPN_BRIDGE_RULE_LOWERED, f"bridge rule {self._name}: {text}")

    def clear(self) -> None:
        """Forget them: the connection is gone."""
        self._texts.clear()


@dataclass(frozen=True, slots=True)
class BridgeServices:
    """What every bridge of a message VPN uses."""

    runtime: Runtime
    events: Events
    queues: ActorCell
    router: ActorCell
    credit: CreditPool[Address]  # what all consumers of the node may hold together
    publisher_at: Callable[[Address], Publisher]  # a publisher whose confirmations go to an address
    place: Callable[[], str]  # how paths name this message VPN of this broker: protocols.bridges.path.place_of


class BridgeContext:
    """A bridge as its rules see it."""

    def __init__(self, settings: BridgeSettings, services: BridgeServices, line: Line) -> None:
        self.settings = settings
        self.services = services
        self.line = line
        self.client = CLIENT_PREFIX + settings.name
        self.place = services.place()
        self.is_open = False  # there is a connection

    def shortfalls_of(self, rule: str, counters: RuleCounters) -> Shortfalls:
        """Return the shortfalls of a rule, none yet."""
        return Shortfalls(counters, self.services.events, as_word(f"{self.settings.name}/{rule}"))

    def rule_failed(self, name: str) -> None:
        """A rule has failed by a fault of ours: the connection ends, and everything begins anew."""
        raise AssertionError("rule_failed is abstract")

    def settled(self) -> None:
        """A rule has nothing unconfirmed any more: the bridge may wait for that to stop."""
        raise AssertionError("settled is abstract")
