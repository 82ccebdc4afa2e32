"""The links of a node: which there are, and who is let in.

Both ends decide alike which of two connections stays: the one made by the broker whose name sorts first. A connection
of a neighbor that connects anew replaces its earlier one, which it has given up, although we may not know that yet.
"""

from collections.abc import Callable, Mapping
from typing import Final, final

from sluicegate.actors.network.link_batches import FORMAT
from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.actors.runtime.supervision import OnFailure, RestartPolicy
from sluicegate.messaging.observability.events import (
    SYSTEM_LINK_MISSING,
    SYSTEM_LINK_MISSING_CLEAR,
)
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.frames.link import (
    LINK_VERSION,
    RETAINED,
    TAKES_PACKETS,
    TELLS_CLIENTS,
    TELLS_NEIGHBORS,
    WIDE_WINDOW,
    Link,
)
from sluicegate.protocols.flow.codec.frames.link_flow import (
    ACTS,
    ANSWERS,
    HOLDS_FOR_CLIENTS,
    MOVES,
    SERVES_CONSUMERS,
    SERVES_READERS,
)
from sluicegate.protocols.flow.codec.limits import FRAME_BYTES_MAX
from sluicegate.protocols.flow.links import LinkAcceptor, LinkRefused, LinkWire
from sluicegate.protocols.network.exchange.mesh import VpnMesh
from sluicegate.protocols.network.link.neighbor import Neighbor, NeighborActor
from sluicegate.protocols.network.link.refused import RefusedConnections
from sluicegate.protocols.network.link.settings import LinkSettings
from sluicegate.protocols.network.link.vpn_link import LinkedVpn, VpnLink

ONE_LINK: Final = RestartPolicy(OnFailure.RESTART, restarts_max=1_000_000)  # a failure costs one connection
# Of this broker's links.
FEATURES: Final = (
    *(TELLS_NEIGHBORS, TAKES_PACKETS, RETAINED, SERVES_CONSUMERS, ANSWERS, TELLS_CLIENTS, SERVES_READERS),
    *(ACTS, MOVES, HOLDS_FOR_CLIENTS, WIDE_WINDOW, FORMAT),
)
# Of links within a machine: a client identifier has one home among its brokers (`messaging.clients.homes`).
FEATURES_OF_SIBLINGS: Final = tuple([feature for feature in FEATURES if feature != TELLS_CLIENTS])
CHANGED: Final = "the settings of this link have changed"
REMOVED: Final = "the link was removed"


@final
class Links(LinkAcceptor):
    """The links of a node, by the name of the neighbor."""

    def __init__(
        self,
        cell: ActorCell,
        events: Events,
        *,
        broker: str,
        network: str,
        incarnation: int,
        vpn: Callable[[str, str], LinkedVpn | None],
        dial: Callable[[Neighbor, Link], None],
    ) -> None:
        """Begin without links.

        `vpn` returns a message VPN by its name if it is up, for a neighbor by its name; `dial` makes one connection,
        and reports how it went.
        """
        self.broker: Final = broker
        self.network: Final = network
        self.incarnation: Final = incarnation
        self.neighbors: dict[str, Neighbor] = {}
        self.meshes: dict[str, VpnMesh] = {}  # by message VPN
        self._settings: dict[str, LinkSettings] = {}
        self._cell = cell  # the parent of the links' actors
        self._events = events
        self._vpn = vpn
        self._dial = dial
        self.refused: Final = RefusedConnections(events, cell.runtime.clock)  # of no neighbor

    def configure(self, wanted: Mapping[str, LinkSettings]) -> None:
        """Have these links and no others. One whose settings or message VPNs have changed begins anew."""
        for name in list(self.neighbors):
            settings = wanted.get(name)
            if settings is None:
                self._end(name, REMOVED)
            elif not settings.runs_as(self._settings[name]) or self._has_other_vpns(name):
                self._end(name, CHANGED)
        for name, settings in wanted.items():
            if name not in self.neighbors:
                self._begin(name, settings)

    def stop(self, reason: str) -> None:
        """End all links: the node stops."""
        for name in list(self.neighbors):
            self._end(name, reason, codes.SHUTTING_DOWN)

    def greeting(self, neighbor: Neighbor) -> Link:
        """Return how this broker presents itself to a neighbor that it has connected to."""
        pairs = [(each.vpn.name, each.there) for each in neighbor.vpns]
        return self._link(neighbor, (LINK_VERSION,), tuple(pairs), 1, is_response=False)

    def greeted(self, wire: LinkWire, link: Link, *, user: str, refusal: str) -> Link:
        """Make a connection a link; return the answer. Raises LinkRefused."""
        try:
            return self._greeted(wire, link, user, refusal)
        except LinkRefused as refused:
            self._count_refusal(wire, link.broker, refused)
            raise

    def _greeted(self, wire: LinkWire, link: Link, user: str, refusal: str) -> Link:
        if refusal:
            raise LinkRefused(codes.PERMISSION_DENIED, refusal)
        settings = self._settings.get(link.broker)
        if settings is not None and settings.peer_username not in ("", user):
            shown = repr(user) if user else "(anonymous)"
            text = f"the link to {link.broker!r} does not allow user {shown}: it has another peer_username"
            raise LinkRefused(codes.PERMISSION_DENIED, text)
        self._check(link)
        neighbor = self.neighbors.get(link.broker)
        if neighbor is None:
            known = ", ".join(sorted(self.neighbors)) or "no broker"
            text = f"broker {self.broker!r} has no link to {link.broker!r}; it has links to {known}"
            raise LinkRefused(codes.LINK_NOT_CONFIGURED, text)
        both = self._linked(neighbor, [(here, there) for there, here in link.vpns])
        linked = dict(enumerate(both.values(), 1))  # numbered anew: the answer has these only
        if neighbor.is_up:
            if neighbor.incarnation != link.incarnation:
                text = f"another broker of the name {link.broker!r} is linked to {self.broker!r} already"
                raise LinkRefused(codes.LINK_NAME_TAKEN, text)
            if neighbor.is_dialed and self.broker < link.broker:
                text = f"{self.broker!r} has connected to {link.broker!r}, and that connection stays"
                raise LinkRefused(codes.LINK_DUPLICATE, text)
        neighbor.connected(wire, link, linked, is_dialed=False, frame_bytes_max=FRAME_BYTES_MAX)
        pairs = tuple([(each.vpn.name, each.there) for each in linked.values()])
        return self._link(neighbor, (LINK_VERSION,), pairs, link.request_id, is_response=True)

    def answered(self, neighbor: Neighbor, wire: LinkWire, link: Link, frame_bytes_max: int) -> None:
        """Make a connection of ours, whose greeting was answered, the link's. Raises LinkRefused."""
        if self.neighbors.get(neighbor.name) is not neighbor:
            raise LinkRefused(codes.LINK_REMOVED, REMOVED)  # while it was dialled
        self._check(link)
        if link.broker != neighbor.name:
            text = f"the broker at {wire.address} has the name {link.broker!r}, not {neighbor.name!r}"
            raise LinkRefused(codes.LINK_NAME_DIFFERS, text)
        linked = self._linked(neighbor, [(here, there) for there, here in link.vpns])
        if neighbor.is_up and neighbor.incarnation == link.incarnation and not self.broker < link.broker:
            text = f"{link.broker!r} has connected to {self.broker!r} meanwhile, and that connection stays"
            raise LinkRefused(codes.LINK_DUPLICATE, text)
        neighbor.connected(wire, link, linked, is_dialed=True, frame_bytes_max=frame_bytes_max)

    def _check(self, link: Link) -> None:
        """Check that a broker belongs into a link with this one, whichever it is. Raises LinkRefused."""
        if LINK_VERSION not in link.versions:
            spoken = ", ".join(str(each) for each in link.versions) or "none"
            text = f"{link.broker!r} speaks version {spoken} of links, and {self.broker!r} version {LINK_VERSION}"
            raise LinkRefused(codes.LINK_VERSION_UNKNOWN, text)
        formats = [each for each in link.features if each.startswith(FORMAT.rstrip("0123456789"))]
        if formats and FORMAT not in formats:
            spoken = ", ".join(formats)
            text = f"{link.broker!r} writes messages as {spoken}, and {self.broker!r} as {FORMAT}: update one of them"
            raise LinkRefused(codes.LINK_VERSION_UNKNOWN, text)
        if link.network != self.network:
            text = f"{link.broker!r} is in network {link.network!r}, and {self.broker!r} in {self.network!r}"
            raise LinkRefused(codes.LINK_NETWORK_DIFFERS, text)
        if link.broker == self.broker:
            itself = link.incarnation == self.incarnation
            text = "it is linked to itself" if itself else f"both brokers have the name {self.broker!r}"
            raise LinkRefused(codes.LINK_NAME_TAKEN, text)

    def _linked(self, neighbor: Neighbor, offered: list[tuple[str, str]]) -> dict[int, VpnLink]:
        """Return the message VPNs that both ends link, by their place, from 1 on. Raises LinkRefused for none."""
        ours = {(each.vpn.name, each.there): each for each in neighbor.vpns}
        found = {number: ours.pop(pair) for number, pair in enumerate(offered, 1) if pair in ours}
        if not found:
            here = ", ".join(f"{vpn}:{there}" for vpn, there in neighbor.settings.vpns)
            other = ", ".join(f"{vpn}:{there}" for vpn, there in offered) or "none that is up"
            text = f"no message VPN is linked at both ends: {self.broker!r} links {here}, {neighbor.name!r} {other}"
            raise LinkRefused(codes.LINK_NO_VPN, f"{text} (name at {self.broker!r}:name at {neighbor.name!r})")
        return found

    def _link(
        self,
        neighbor: Neighbor,
        versions: tuple[int, ...],
        pairs: tuple[tuple[str, str], ...],
        request_id: int,
        *,
        is_response: bool,
    ) -> Link:
        return Link(
            request_id,
            self.broker,
            self.incarnation,
            self.network,
            versions,
            neighbor.settings.dead_time_ms,
            FEATURES_OF_SIBLINGS if neighbor.settings.export.to_sibling else FEATURES,
            pairs,
            is_response,
        )

    def _count_refusal(self, wire: LinkWire, broker: str, refused: LinkRefused) -> None:
        neighbor = self.neighbors.get(broker)
        if neighbor is not None and refused.code != codes.PERMISSION_DENIED:  # else it may be anybody
            neighbor.refused(refused.code, refused.text)
            return
        text = f"link of {broker!r:.80} at {wire.address} rejected: {refused.text}"
        self.refused.refused(refused.code, wire.address, text)

    def _begin(self, name: str, settings: LinkSettings) -> None:
        actor = NeighborActor()
        cell = self._cell.runtime.spawn(lambda cell: actor, kind="link", name=name, policy=ONE_LINK, parent=self._cell)
        vpns: list[VpnLink] = []
        for here, there in settings.vpns:
            vpn = self._vpn(here, name)
            if vpn is not None:
                wait_ms = settings.subscribe_wait_ms
                mesh = self._mesh(here)
                link = VpnLink(
                    cell,
                    name,
                    vpn,
                    mesh,
                    there=there,
                    rules=settings.export,
                    subscribe_wait_ms=wait_ms,
                    events=self._events,
                )
                vpns.append(link)
        neighbor = Neighbor(cell, settings, self._events, vpns, dial=self._dial_to)
        actor.neighbor = self.neighbors[name] = neighbor
        self._settings[name] = settings
        neighbor.start()

    def check_mesh(self, now_ms: int) -> None:
        """Report links that are missing in the network, and those that are no longer. Called from time to time."""
        for mesh in self.meshes.values():
            for missing in mesh.raised(now_ms):
                self._events.emit(SYSTEM_LINK_MISSING, f"there is {missing.described(mesh.vpn)}")
            for missing in mesh.cleared():
                self._events.emit(SYSTEM_LINK_MISSING_CLEAR, f"there is no longer {missing.described(mesh.vpn)}")

    def _mesh(self, vpn: str) -> VpnMesh:
        found = self.meshes.get(vpn)
        if found is None:
            found = self.meshes[vpn] = VpnMesh(vpn, self.broker, self._cell.runtime.clock)
        return found

    def _dial_to(self, neighbor: Neighbor) -> None:
        self._dial(neighbor, self.greeting(neighbor))

    def _end(self, name: str, reason: str, code: int = codes.LINK_REMOVED) -> None:
        neighbor = self.neighbors.pop(name)
        del self._settings[name]
        neighbor.stop(code, reason)
        neighbor.cell.stop()

    def _has_other_vpns(self, name: str) -> bool:
        """Return whether message VPNs of a link have been created or deleted, shut down or enabled."""
        neighbor = self.neighbors[name]
        there_are = [vpn for vpn in [self._vpn(here, name) for here, _ in neighbor.settings.vpns] if vpn is not None]
        return there_are != [each.vpn for each in neighbor.vpns]
