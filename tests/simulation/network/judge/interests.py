"""What brokers know of each other's wants, seen inside: when a broker may rely on it, and that all agree at rest."""

from simulation.judge.targets import Violation
from simulation.machine.image import Image
from sluicegate.gateway.node.node import Node
from sluicegate.protocols.network.guaranteed.kept import INTEREST_PREFIX
from sluicegate.protocols.network.link.vpn_link import VpnLink
from sluicegate.storage.interface import Table


def vpn_link(node: Node, neighbor: str) -> VpnLink | None:
    """Return the message VPN of the link to a neighbor, if there is a connection."""
    found = node.links.links.neighbors.get(neighbor)
    return found.vpns[0] if found is not None and found.is_up and found.linked else None


def knows_all(node: Node, neighbor: str) -> bool:
    """Return whether a neighbor has acknowledged all that this node wants."""
    link = vpn_link(node, neighbor)
    if link is None:
        return False
    sender = link.interests.sender
    is_told = not (sender._differing or sender._parts or sender._added or sender._removed or sender._has_to_finish)
    return is_told and sender.acknowledged_number == sender.sent_number > 0


def interests_agree(node: Node, other: Node, image: Image) -> bool:
    """Return whether another node, with this image, knows of the node what it wants, and the rows of its store agree.

    Both have to be at rest: nothing is on its way between them.
    """
    here, there = vpn_link(node, other.links.links.broker), vpn_link(other, node.links.links.broker)
    if here is None or there is None or not knows_all(node, other.links.links.broker):
        return False
    told, heard = here.interests.sender, there.interests.receiver
    if not heard.is_complete or there.interests._changes:
        return False
    if told.interests.digests != heard.interests.digests:
        raise Violation(f"{here.neighbor} has acknowledged other interests than {there.neighbor} has told")
    known = {each for each in heard.interests.all() if each.is_guaranteed}
    kept = set(there.kept.interests)
    if known != kept:
        raise Violation(f"interests known and kept differ: {known ^ kept}")
    stem = INTEREST_PREFIX + node.links.links.broker.encode() + b"/"
    rows = [key for key in image.keys(Table.SESSIONS) if stem in key]
    if len(rows) != len(kept):
        raise Violation(f"{len(kept)} interests are kept, and the store has {len(rows)} rows of them")
    return True
