"""The mesh of links: every broker of a network is to be linked to every other, for a message crosses one link only.

Neighbors tell each other who their neighbors are. A broker that a neighbor is linked to, and this one is not, does not
get what is published here. While brokers start, links come up one after the other, so a link is missing only when it
has not come for a while.
"""

from collections.abc import Callable
from typing import Final, final

from sluicegate.actors.runtime.clock import Clock

MISSING_AFTER_MS: Final = 10_000
LINKED_NEIGHBORS_SHOWN_MAX: Final = 5  # in an event

Tell = Callable[[list[str]], None]


@final
class MissingLink:
    """A link that is missing, or may be."""

    def __init__(self, broker: str, since_ms: int, since_wall_ms: int) -> None:
        self.broker: Final = broker
        self.since_ms: Final = since_ms
        self.since_wall_ms: Final = since_wall_ms
        self.linked_neighbors: list[str] = []  # by name
        self.is_raised = False

    def described(self, vpn: str) -> str:
        """Return what is missing, for an event."""
        named = ", ".join(self.linked_neighbors[:LINKED_NEIGHBORS_SHOWN_MAX])
        more = len(self.linked_neighbors) - LINKED_NEIGHBORS_SHOWN_MAX
        others = f" and {more} more" if more > 0 else ""
        return f"no link to broker {self.broker} in message VPN {vpn}, which is linked to {named}{others}"


@final
class VpnMesh:
    """The links of one message VPN, this broker's and those of its neighbors."""

    def __init__(self, vpn: str, broker: str, clock: Clock) -> None:
        self.vpn: Final = vpn
        self._broker: Final = broker
        self._clock: Final = clock
        self._members: dict[str, Tell | None] = {}  # this broker's links that are up, by neighbor
        self._told: dict[str, tuple[str, ...]] = {}  # by neighbor
        self._missing: dict[str, MissingLink] = {}  # by broker
        self._cleared: list[MissingLink] = []  # that have been raised

    def joined(self, neighbor: str, tell: Tell | None) -> None:
        """A link is up. `tell` tells its neighbor which brokers this one has links to; None: it does not know how."""
        self._members[neighbor] = tell
        self._told.pop(neighbor, None)
        self._tell()
        self._compare()

    def left(self, neighbor: str) -> None:
        """A link is down."""
        self._members.pop(neighbor, None)
        self._told.pop(neighbor, None)
        self._tell()
        self._compare()

    def told(self, neighbor: str, names: tuple[str, ...]) -> None:
        """A neighbor says which brokers it is linked to."""
        self._told[neighbor] = names
        self._compare()

    def missing(self) -> list[MissingLink]:
        """Return the links that are missing, by the broker's name."""
        now_ms = self._clock.now_ms()
        found = [each for each in self._missing.values() if now_ms - each.since_ms >= MISSING_AFTER_MS]
        return sorted(found, key=_name_of)

    def raised(self, now_ms: int) -> list[MissingLink]:
        """Return the links that have become missing since the last call."""
        found: list[MissingLink] = []
        for each in self._missing.values():
            if not each.is_raised and now_ms - each.since_ms >= MISSING_AFTER_MS:
                each.is_raised = True
                found.append(each)
        return found

    def cleared(self) -> list[MissingLink]:
        """Return the links that were raised, and have ceased to be missing since the last call."""
        found, self._cleared = self._cleared, []
        return found

    def _tell(self) -> None:
        names = sorted(self._members)
        for tell in self._members.values():
            if tell is not None:
                tell(names)

    def _compare(self) -> None:
        """Find out what is missing, from what the neighbors say."""
        linked: dict[str, list[str]] = {}
        for neighbor in sorted(self._told):
            for name in self._told[neighbor]:
                if name != self._broker and name not in self._members:
                    linked.setdefault(name, []).append(neighbor)
        for broker in list(self._missing):
            if broker not in linked:
                missing = self._missing.pop(broker)
                if missing.is_raised:
                    self._cleared.append(missing)
        for broker, neighbors in linked.items():
            if broker not in self._missing:
                self._missing[broker] = MissingLink(broker, self._clock.now_ms(), self._clock.wall_ms())
            self._missing[broker].linked_neighbors = neighbors


def _name_of(missing: MissingLink) -> str:
    return missing.broker
