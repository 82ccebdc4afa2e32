"""One neighbor broker: the state of the link to it, whoever has made the present connection.

While there is no connection and the neighbor's address is known, it is dialled: one attempt at a time, after delays
that double and are drawn at random, so that brokers that start together do not call together.
"""

import logging
from collections.abc import Callable
from typing import Final, final

from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.runtime import ActorCell, Behaviour, TimerHandle
from sluicegate.messaging.network.sequences import is_of_incarnation
from sluicegate.messaging.observability.events import (
    SYSTEM_LINK_DOWN,
    SYSTEM_LINK_REJECTED,
    SYSTEM_LINK_UP,
    SYSTEM_NEIGHBOR_RESTORED,
    EventKind,
)
from sluicegate.protocols.flow.client.session.session import Backoff
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.codes import PeerViolation
from sluicegate.protocols.flow.codec.frames.link import (
    Link,
    LinkFrame,
)
from sluicegate.protocols.flow.links import LinkUser, LinkWire
from sluicegate.protocols.network.link.settings import LinkSettings
from sluicegate.protocols.network.link.vpn_link import VpnLink

log = logging.getLogger("sluicegate.network")

FIRST_DELAY_S: Final = 0.25
DELAY_MAX_S: Final = 15.0
HEARTBEATS_PER_DEAD_TIME: Final = 3

# Codes with which a link ends because the two brokers do not agree.
REFUSALS: Final = frozenset(
    {
        codes.LINK_NOT_CONFIGURED, codes.LINK_NAME_TAKEN, codes.LINK_NAME_DIFFERS, codes.LINK_NETWORK_DIFFERS,
        codes.LINK_VERSION_UNKNOWN, codes.LINK_NO_VPN, codes.LINK_DUPLICATE,
    }
)  # fmt: skip

NEVER_CONNECTED: Final = "there was no connection yet"


@final
class NeighborCounts:
    """What has happened on the link since it was configured."""

    def __init__(self) -> None:
        self.dials = 0
        self.connects = 0
        self.refusals: dict[str, int] = {}  # by the name of the code, of either side
        self.sent = 0  # direct messages, on connections that are gone
        self.dropped = 0  # the same
        self.unsent = 0  # direct messages that waited when a connection ended

    def refused(self, code: int) -> None:
        """Count a refusal."""
        name = codes.NAMES.get(code, f"{code:#06x}").replace(" ", "_")
        self.refusals[name] = self.refusals.get(name, 0) + 1


@final
class Neighbor(LinkUser):
    """One neighbor broker and the link to it."""

    def __init__(
        self,
        cell: ActorCell,
        settings: LinkSettings,
        events: Events,
        vpns: list[VpnLink],
        *,
        dial: Callable[["Neighbor"], None],
    ) -> None:
        self.settings: Final = settings
        self.name: Final = settings.name
        self.vpns: Final = vpns
        self.counts: Final = NeighborCounts()
        self.cell: Final = cell
        self.wire: LinkWire | None = None  # of the present connection
        self.is_dialed = False  # by us
        self.is_dialing = False
        self.incarnation = 0  # of the neighbor, on the present connection
        self.linked: dict[int, VpnLink] = {}  # by flow id, on the present connection
        self.reason = NEVER_CONNECTED  # why there is no connection
        self.since_ms = cell.runtime.clock.wall_ms()  # wall clock: connected, or without connection
        self._events = events
        self._dial = dial
        self._backoff = Backoff(first_s=FIRST_DELAY_S, max_s=DELAY_MAX_S)
        self._opened_ms = 0
        self._timer: TimerHandle | None = None
        self._is_stopped = False

    @property
    def is_up(self) -> bool:
        """Whether there is a connection."""
        return self.wire is not None

    @property
    def sent_count(self) -> int:
        """Direct messages that were written to the neighbor."""
        return self.counts.sent + (0 if self.wire is None else self.wire.sent_count)

    def lost_counts(self) -> dict[str, int]:
        """Return the direct messages for the neighbor that were lost, by the reason."""
        return {
            "slow": self.counts.dropped + (0 if self.wire is None else self.wire.dropped_count),
            "away": self.counts.unsent + sum([each.away_count for each in self.vpns]),
            "too_large": sum([each.too_large_count for each in self.vpns]),
            "expired": sum([each.expired_count for each in self.vpns]),
            "unwritable": sum([each.unwritable_count for each in self.vpns]),
        }

    # --- dialling ---

    def start(self) -> None:
        """Connect, if the neighbor's address is known."""
        self._dial_after(0)

    def stop(self, code: int, reason: str) -> None:
        """End for good."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
        wire = self.wire
        if wire is not None:
            wire.end(code, reason)
        for vpn in self.vpns:
            vpn.stop()

    def dial_ended(self, reason: str, code: int = codes.NONE) -> None:
        """An attempt of ours has failed before it was a link, or was refused."""
        self.is_dialing = False
        if code != codes.NONE:
            self.refused(code, reason)
        elif not self.is_up:
            self._set_reason(reason)
        self._dial_again(0)

    def refused(self, code: int, reason: str) -> None:
        """This broker or the neighbor has refused a connection."""
        self.counts.refused(code)
        if code == codes.LINK_DUPLICATE:
            log.info("link to %s: %s", self.name, reason)
            return
        is_new = self._set_reason(reason) if not self.is_up else True
        if is_new:
            self._tell(SYSTEM_LINK_REJECTED, f"rejected: {reason}")

    def _set_reason(self, reason: str) -> bool:
        """Note why there is no connection; return whether that was not known."""
        is_new = self.reason != reason
        self.reason = reason
        if is_new:
            log.info("no link to %s: %s", self.name, reason)
        return is_new

    def _dial_again(self, lasted_ms: int) -> None:
        self._dial_after(self._backoff.next_ms(lasted_ms, self.cell.runtime.rng.random()))

    def _dial_after(self, delay_ms: int) -> None:
        if not self.settings.dials or self._is_stopped:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.cell.after(delay_ms, self._dial_now)

    def _dial_now(self) -> None:
        self._timer = None
        if not (self.is_up or self.is_dialing or self._is_stopped):
            self.is_dialing = True
            self.counts.dials += 1
            self._dial(self)

    # --- the connection ---

    def connected(
        self, wire: LinkWire, link: Link, linked: dict[int, VpnLink], *, is_dialed: bool, frame_bytes_max: int
    ) -> None:
        """Begin with a connection. One that there is has been found to be the worse one, and ends."""
        before = self.wire
        if before is not None:
            before.end(codes.LINK_DUPLICATE, "another connection of this link takes its place")
        if is_dialed:
            self.is_dialing = False
        self.wire = wire
        self.is_dialed = is_dialed
        begins_anew = self._begins_anew(link.incarnation)
        self.incarnation = link.incarnation
        self.linked = linked
        self.counts.connects += 1
        self.reason = ""
        self._opened_ms = self.cell.runtime.clock.now_ms()
        self.since_ms = self.cell.runtime.clock.wall_ms()
        dead_time_ms = self.settings.dead_time_ms
        heartbeat_ms = min(dead_time_ms, link.dead_time_ms) // HEARTBEATS_PER_DEAD_TIME
        wire.user = self
        wire.direct_bytes_max = self.settings.direct_bytes_max
        wire.expect_life(heartbeat_ms=heartbeat_ms, dead_time_ms=dead_time_ms)
        for flow_id, vpn in linked.items():
            vpn.connected(wire, flow_id, frame_bytes_max, link)
        names = ", ".join(vpn.vpn.name for vpn in linked.values())
        how = f"this broker connected to {wire.address}" if is_dialed else f"it connected from {wire.address}"
        self._tell(SYSTEM_LINK_UP, f"is up: {how}, message VPNs: {names}")
        if begins_anew:
            text = f"it has begun anew as {link.incarnation:016x}: it was restored from a backup, or has lost its data"
            self._tell(SYSTEM_NEIGHBOR_RESTORED, f"is up: {text}")

    def _begins_anew(self, incarnation: int) -> bool:
        """Return whether the neighbor is known, and known as another incarnation only."""
        if self.incarnation:
            return incarnation != self.incarnation
        known = [lineage for vpn in self.vpns for lineage in vpn.kept.sequences]
        return bool(known) and not any(is_of_incarnation(lineage, incarnation) for lineage in known)

    def received(self, frame: LinkFrame) -> None:
        """Handle a frame of the neighbor. Raises PeerViolation."""
        if not isinstance(frame, Link):
            vpn = self.linked.get(frame.flow_id)
            if vpn is None:
                text = f"message VPN number {frame.flow_id} of a link with {len(self.linked)}"
                raise PeerViolation(codes.FLOW_ID_UNUSABLE, text)
            vpn.received(frame)

    def take(self, message: object) -> None:
        """Take a message to the link's actor."""
        for vpn in self.vpns:
            vpn.take(message)

    def resumed(self) -> None:
        """The socket takes more."""
        for vpn in self.linked.values():
            vpn.resumed()

    def ended(self, reason: str) -> None:
        """The connection is gone."""
        wire = self.wire
        if wire is None:
            return
        self.counts.sent += wire.sent_count
        self.counts.dropped += wire.dropped_count
        self.counts.unsent += wire.unsent_count
        if wire.code in REFUSALS:
            self.counts.refused(wire.code)
        self.wire = None
        for vpn in self.linked.values():
            vpn.disconnected()
        self.linked = {}
        self.reason = reason
        now_ms = self.cell.runtime.clock.now_ms()
        self.since_ms = self.cell.runtime.clock.wall_ms()
        self._tell(SYSTEM_LINK_DOWN, f"is down: {reason}")
        self._dial_again(now_ms - self._opened_ms)

    def _tell(self, kind: EventKind, what: str) -> None:
        self._events.emit(kind, f"link to neighbor {self.name} {what}")


@final
class NeighborActor(Behaviour):
    """The link's place among the actors. A failure of ours costs the connection, and the link begins anew."""

    def __init__(self) -> None:
        self.neighbor: Neighbor | None = None  # None while it is made

    def receive(self, message: object) -> None:
        """Pass it on."""
        if self.neighbor is not None:
            self.neighbor.take(message)

    def turn_ended(self) -> None:
        """Do nothing."""

    def fail(self) -> None:
        """End the connection."""
        neighbor = self.neighbor
        if neighbor is not None and neighbor.wire is not None:
            neighbor.wire.end(codes.INTERNAL, "a fault of the neighbor; its log says more")
