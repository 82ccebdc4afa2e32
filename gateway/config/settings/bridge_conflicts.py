"""What a bridge is refused for beside other bridges and the queues of its VPN, though each alone is in order."""

from collections.abc import Iterable, Iterator
from typing import Final

from sluicegate.gateway.config.findings import Finding
from sluicegate.gateway.config.sections.message_vpns.bridges import Bridge, IncomingRule, OutgoingRule
from sluicegate.gateway.config.settings.bridges import client_id_of, image_of, incoming_filter
from sluicegate.messaging.queues.attributes import CONSUME
from sluicegate.messaging.queues.definition import QueueConfig, permits
from sluicegate.messaging.topics.relations import overlap
from sluicegate.messaging.topics.syntax import TopicError
from sluicegate.protocols.bridges.settings import CLIENT_PREFIX

DISJOINT: Final = "topics that have none in common, or mqtt_version '5' for both bridges"
ANOTHER_ID: Final = "one that no other bridge to this foreign broker has"


def conflicts(
    bridge: Bridge, others: Iterable[Bridge], queues: Iterable[QueueConfig], *, node: str, vpn: str
) -> Iterator[Finding]:
    """Yield what a bridge cannot have beside other bridges, and beside the queues that are declared.

    `node` and `vpn` are the names that its client identifier is made of.
    """
    if not bridge.enabled:
        return
    yield from _closed_queues(bridge, queues)
    for other in others:
        if other.name == bridge.name or not other.enabled or _address(other) != _address(bridge):
            continue
        if _client_id(bridge, node, vpn) == _client_id(other, node, vpn):
            text = (
                f"{_client_id(bridge, node, vpn)!r} is the client identifier of bridge {other.name!r} at the same "
                "foreign broker: each would end the other's connection"
            )
            yield Finding(("client_id",), text, ANOTHER_ID)
        if "3.1.1" in (bridge.mqtt_version, other.mqtt_version) and bridge.address()[0].startswith("mqtt"):
            yield from _circles(bridge, other)


def _address(bridge: Bridge) -> tuple[str, int]:
    _, host, port, _ = bridge.address()
    return host.lower(), port


def _client_id(bridge: Bridge, node: str, vpn: str) -> str:
    return bridge.client_id or client_id_of(node, vpn, bridge.name)


def _closed_queues(bridge: Bridge, queues: Iterable[QueueConfig]) -> Iterator[Finding]:
    """Find queues that the bridge may not consume from."""
    declared = {queue.name: queue for queue in queues}
    user = CLIENT_PREFIX + bridge.name
    for index, rule in enumerate(bridge.outgoing):
        queue = declared.get(rule.queue)
        if queue is not None and not permits(queue, user, CONSUME):
            text = f"queue {queue.name!r} has permission {queue.permission!r}, so the bridge cannot consume from it"
            yield Finding(("outgoing", index, "queue"), text, f"a queue with owner {user!r}, or permission {CONSUME!r}")


def _circles(bridge: Bridge, other: Bridge) -> Iterator[Finding]:
    """Find messages that come back by another bridge. MQTT 3.1.1, in one of the two, does not carry their path."""
    for index, outgoing in enumerate(bridge.outgoing):
        for incoming in other.incoming:
            if _comes_back(outgoing, incoming):
                text = _text("its messages would come back by", "incoming", incoming.label(), other)
                yield Finding(("outgoing", index), text, DISJOINT)
    for index, incoming in enumerate(bridge.incoming):
        for outgoing in other.outgoing:
            if _comes_back(outgoing, incoming):
                text = _text("it would bring back the messages of", "outgoing", outgoing.label(), other)
                yield Finding(("incoming", index), text, DISJOINT)


def _text(what: str, direction: str, rule: str, other: Bridge) -> str:
    return (
        f"{what} the {direction} rule {rule!r} of bridge {other.name!r}, to the same foreign broker: MQTT 3.1.1 has no "
        "user properties that say so"
    )


def _comes_back(outgoing: OutgoingRule, incoming: IncomingRule) -> bool:
    try:
        return overlap(image_of(outgoing), incoming_filter(incoming))
    except TopicError:  # it is refused for that
        return False
