"""LINK: make the connection of a broker a link, and pass on its frames."""

from typing import Final

from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.codes import PeerViolation
from sluicegate.protocols.flow.codec.frame import SESSION
from sluicegate.protocols.flow.codec.frames.link import (
    Link,
    LinkFrame,
)
from sluicegate.protocols.flow.links import LinkRefused
from sluicegate.protocols.flow.peer import FlowPeer

NOT_PERMITTED: Final = (
    "the client profile of user {user} does not allow links: allow_bridge_connections_enabled is false"
)


def become_link(peer: FlowPeer, link: Link) -> None:
    """Answer LINK."""
    if peer.link is not None:
        raise PeerViolation(codes.OUT_OF_TURN, "LINK on a connection that is a link")
    may_link = peer.is_sibling or peer.identity.rights.profile.allow_bridge_connections_enabled
    user = repr(peer.identity.user) if peer.identity.user else "(anonymous)"
    wire = peer.make_wire()
    peer.link = wire
    try:
        refusal = "" if may_link else NOT_PERMITTED.format(user=user)
        answer = peer.services.links.greeted(wire, link, user=peer.identity.user, refusal=refusal)
    except LinkRefused as refused:
        peer.link = None
        peer.refuse_request(SESSION, link.request_id, refused.code, refused.text, None)
        peer.leave(refused.code, refused.text)
        return
    peer.send(answer.encode())
    peer.flush()  # before what the link has to say


def take_link_frame(peer: FlowPeer, frame: LinkFrame) -> None:
    """Pass on a frame of a link. Raises PeerViolation."""
    wire = peer.link
    if wire is None:
        raise PeerViolation(codes.OUT_OF_TURN, f"{type(frame).__name__} before LINK was answered")
    if wire.user is not None:
        wire.user.received(frame)
