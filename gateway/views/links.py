"""Views of links to neighbor brokers: their state, why they are down, and what crosses them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluicegate.gateway.config.sections.links import NamedLink

if TYPE_CHECKING:
    from sluicegate.protocols.network.exchange.mesh import VpnMesh
    from sluicegate.protocols.network.link.neighbor import Neighbor
    from sluicegate.protocols.network.link.vpn_link import VpnLink


@dataclass(frozen=True, slots=True)
class VpnLinkView:
    """A message VPN of a link."""

    vpn_name: str
    neighbor_vpn_name: str
    linked: bool  # at both ends, and the link is up
    complete: bool  # the neighbor has told all that it wants, since it connected
    exported_count: int  # topics, groups and priorities that this broker wants of the neighbor, and its queues
    imported_count: int  # the same, that the neighbor wants of this broker
    messages_received: int
    # Guaranteed messages.
    queue_name: str
    queued_count: int  # that wait for the neighbor, or for its answer
    queued_bytes: int  # usage of the queue
    queue_quota_bytes: int
    in_flight_count: int  # of those: sent, and not answered
    guaranteed_sent: int  # that the neighbor has stored
    guaranteed_received: int  # with those that came again
    guaranteed_repeated: int  # that came again, and were stored already
    waiting_for_room: int  # that came, and for which the message VPN, the node or the disk has no room
    # Retained messages, and deletions of such.
    retained_sent: int
    retained_received: int  # and taken
    retained_rejected: int  # and not taken, or too large to be sent; metrics say why


@dataclass(frozen=True, slots=True)
class LinkView:
    """A link to one neighbor broker."""

    name: str  # of the neighbor
    origin: str  # one of gateway.provisioning.store
    enabled: bool
    up: bool
    reason: str  # why it is not up
    since_ms: int  # wall clock: when it came up, or went down
    remote_address: str  # of the present connection
    encrypted: bool
    initiator: str  # who has made the present connection: `local`, `remote`, or empty
    dials: int
    connects: int
    refusals: dict[str, int]  # by the reason
    messages_sent: int
    messages_dropped: int  # they waited too long for a slow neighbor, or had no connection, expired, or were too large
    waiting_bytes: int  # of messages that wait for the neighbor
    message_vpns: Sequence[VpnLinkView]
    definition: NamedLink


@dataclass(frozen=True, slots=True)
class MissingLinkView:
    """A broker that neighbors are linked to, and this broker is not."""

    name: str  # of that broker
    vpn_name: str
    linked_neighbors: Sequence[str]
    since_ms: int  # wall clock


@dataclass(frozen=True, slots=True)
class LinksView:
    """The broker, and its links by name."""

    broker: str
    network: str
    refusals: dict[str, int]  # of brokers that this one has no link to, by the reason
    links: Sequence[LinkView]
    missing_links: Sequence[MissingLinkView]  # that should be there: every broker is to be linked to every other


def missing_links(meshes: "Iterable[VpnMesh]") -> list[MissingLinkView]:
    """Return the view of the links that are missing."""
    return [
        MissingLinkView(each.broker, mesh.vpn, each.linked_neighbors, each.since_wall_ms)
        for mesh in meshes
        for each in mesh.missing()
    ]


def link_view(definition: NamedLink, running: "Neighbor | None", *, origin: str, reason: str) -> LinkView:
    """Return the view of a link; one that does not run has no figures."""
    if running is None:
        return LinkView(
            name=definition.name,
            origin=origin,
            enabled=definition.enabled,
            up=False,
            reason=reason,
            since_ms=0,
            remote_address="",
            encrypted=False,
            initiator="",
            dials=0,
            connects=0,
            refusals={},
            messages_sent=0,
            messages_dropped=0,
            waiting_bytes=0,
            message_vpns=[],
            definition=definition,
        )
    wire = running.wire
    return LinkView(
        name=definition.name,
        origin=origin,
        enabled=definition.enabled,
        up=running.is_up,
        reason=running.reason,
        since_ms=running.since_ms,
        remote_address="" if wire is None else wire.address,
        encrypted=wire is not None and wire.is_encrypted,
        initiator="" if wire is None else "local" if running.is_dialed else "remote",
        dials=running.counts.dials,
        connects=running.counts.connects,
        refusals=dict(running.counts.refusals),
        messages_sent=running.sent_count,
        messages_dropped=sum(running.lost_counts().values()),
        waiting_bytes=0 if wire is None else wire.waiting_bytes,
        message_vpns=[_vpn_view(each) for each in running.vpns],
        definition=definition,
    )


def _vpn_view(vpn: "VpnLink") -> VpnLinkView:
    sender = vpn.queue_sender
    gate = sender.queue.target.gate
    return VpnLinkView(
        vpn_name=vpn.vpn.name,
        neighbor_vpn_name=vpn.there,
        linked=vpn.is_up,
        complete=vpn.is_up and vpn.interests.receiver.is_complete,
        exported_count=vpn.interests.sender.interests.count,
        imported_count=vpn.interests.receiver.interests.count,
        messages_received=vpn.received_count,
        queue_name=sender.queue.name,
        queued_count=int(gate.usage_count),
        queued_bytes=int(gate.usage_bytes),
        queue_quota_bytes=int(gate.usage_bytes_max),
        in_flight_count=sender.unanswered_count,
        guaranteed_sent=sender.stored_count,
        guaranteed_received=vpn.arrivals.received_count,
        guaranteed_repeated=vpn.arrivals.repeated_count,
        waiting_for_room=vpn.arrivals.waiting_count,
        retained_sent=vpn.retained.sent_count,
        retained_received=vpn.retained.received_count,
        retained_rejected=sum(vpn.retained.rejected_counts().values()),
    )
