"""Outgoing rules of bridges that bring a message of a virtual topic to the foreign broker twice.

The messages of a virtual topic are in the queue of each of its consumers as well. A bridge carries the topic or one of
these queues. If it carries both, the foreign broker gets each message twice; and if it has virtual topics itself, it
puts the topic's messages into the same-named queue that the bridge brings too.
"""

from collections.abc import Iterator

from sluicegate.gateway.config.sections.message_vpns.bridges import OutgoingRule
from sluicegate.gateway.config.sections.message_vpns.message_vpns import MessageVpn
from sluicegate.gateway.config.settings.bridges import image_of
from sluicegate.messaging.routing.virtual.definitions import VirtualTopic, topic_consumed
from sluicegate.messaging.topics.relations import overlap
from sluicegate.messaging.topics.syntax import TopicFilter


def doubled_messages(vpn: MessageVpn) -> Iterator[tuple[str, str]]:
    """Yield the outgoing rules that repeat what an earlier rule of their bridge brings, and what to do about them."""
    definitions = vpn.virtual_destinations.definitions().virtual_topics
    for bridge in vpn.bridges:
        for index, rule in enumerate(bridge.outgoing):
            for earlier in bridge.outgoing[:index]:
                text = _doubled_by(earlier, rule, definitions)
                if text:
                    yield f"bridges: {bridge.name}: outgoing: {rule.label()}", text


def _doubled_by(one: OutgoingRule, other: OutgoingRule, definitions: tuple[VirtualTopic, ...]) -> str:
    """Return what two rules double, and what to do; empty: nothing."""
    if not (one.queue or other.queue):
        return ""
    consumed, others = _topics(one, definitions), _topics(other, definitions)
    if not any(overlap(ours, theirs) for ours in consumed for theirs in others):
        return ""
    if one.queue and other.queue:
        if one.remote_queue or other.remote_queue or one.remote_topic or other.remote_topic:
            return ""  # each goes to a place of its own
        return (
            f"the queues {one.queue!r} and {other.queue!r} have the messages of one virtual topic, so the foreign"
            " broker gets these twice; keep one of the rules, or give each a remote_queue"
        )
    by_queue, by_topic = (one, other) if one.queue else (other, one)
    if by_topic.remote_topic or by_topic.remote_queue or by_queue.remote_topic:
        return ""
    if by_queue.remote_queue:
        images = _consumed_by(by_queue.remote_queue, definitions)
        if not any(overlap(image_of(by_topic), each) for each in images):
            return ""
        return (
            f"the foreign broker puts the messages of {by_topic.topic!r} into its queue {by_queue.remote_queue!r} if"
            f" the topic is virtual there, and the rule for the queue {by_queue.queue!r} brings them there too; keep"
            " one of the rules"
        )
    return (
        f"the queue {by_queue.queue!r} has the messages of {by_topic.topic!r}, a virtual topic, so the foreign broker"
        " gets these twice; keep one of the rules"
    )


def _topics(rule: OutgoingRule, definitions: tuple[VirtualTopic, ...]) -> list[TopicFilter]:
    """Return the topics of a rule's messages, as far as its queue's name says."""
    return _consumed_by(rule.queue, definitions) if rule.queue else [rule.topic_filter()]


def _consumed_by(queue: str, definitions: tuple[VirtualTopic, ...]) -> list[TopicFilter]:
    """Return the virtual topics that a queue of this name consumes."""
    found = [topic_consumed(definition, queue) for definition in definitions]
    return [each for topics in found if topics is not None for each in topics.exported_filters()]
