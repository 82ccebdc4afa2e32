"""What brokers retain, seen inside: when nothing of it is under way, and that all agree then."""

from simulation.judge.targets import Violation
from simulation.network.clients.retaining_clients import TOPICS
from simulation.network.judge.interests import vpn_link
from sluicegate.gateway.node.node import Node


def refuses_retained(node: Node) -> bool:
    """Return whether the store of a node has not taken a retained message, which is tried again."""
    stored = node.default.space.retained.stored
    return stored is not None and stored.has_refused


def retained_at_rest(nodes: list[Node]) -> dict[str, int] | None:
    """Return what all of these retain: the number in each message, by topic. None: something is under way.

    Raises Violation if nothing is, and they differ.
    """
    found: list[dict[str, tuple[int, str]]] = []
    for node in nodes:
        links = [vpn_link(node, other.links.links.broker) for other in nodes if other is not node]
        for link in links:
            if link is None or not link.retained.is_idle or link.vpn.space.retained.unwritten_bytes:
                return None
        assert links[0] is not None
        retained = links[0].vpn.space.retained
        retained.check()
        retained.tombstones.check()
        assert retained.stored is not None
        if retained.stored.has_refused:
            return None
        retained.stored.check()
        messages = [each for each in map(retained.get, TOPICS) if each is not None]
        assert len(messages) == retained.count
        found.append({each.batch.topic_of(0): (int(each.batch.payloads()[0]), repr(each.version)) for each in messages})
        stored = {topic: repr(version) for topic, version in retained.stored.versions.items()}
        known = {topic: version for topic, (_, version) in found[-1].items()}
        if stored != known:
            raise Violation(f"{node.links.links.broker} retains {known}, and its store has {stored}")
    if any(each != found[0] for each in found):
        broken = {node.links.links.broker: each for node, each in zip(nodes, found, strict=True)}
        raise Violation(f"nothing is under way, and brokers retain different messages: {broken}")
    return {topic: number for topic, (number, _) in found[0].items()}
