"""Virtual destinations as somebody defines them: virtual topics, and composite queues and topics.

A virtual topic has queues for its consumers, found by their names; a composite forwards what is sent to it to the
targets that it names. Here are the values, each checked by itself; what a set of them does together, and what is wrong
with that, is `messaging.routing.virtual.validation`, and where a message goes `messaging.routing.virtual.resolver`.
"""

from dataclasses import dataclass
from typing import Final, final

from sluicegate.messaging.routing.virtual.names import ConsumerNames, NamePattern

QUEUE: Final = "queue"
TOPIC: Final = "topic"

ATOMIC: Final = "atomic"  # all targets take a message, or none does
BEST_EFFORT: Final = "best-effort"  # a target that refuses goes without
ACTIVEMQ: Final = "activemq"  # one target after another, until one refuses

TARGETS_MAX: Final = 256  # of one definition
DEFINITIONS_MAX: Final = 10_000  # of one kind

Place = tuple[str | int, ...]  # where a definition stands, for messages about it


@final
@dataclass(frozen=True)
class VirtualTopic:
    """Topics of which each message goes into every queue that is called after them.

    `local`: what came over a bridge from another broker is not for these queues. `concurrent_send` and
    `transacted_send` say how a fan-out ends that does not succeed, where it is not atomic anyway.
    """

    place: Place
    name: NamePattern
    consumers: ConsumerNames
    selector_aware: bool = False
    local: bool = False
    concurrent_send: bool = False
    transacted_send: bool = False
    drop_on_resource_limit: bool = False
    set_original_destination: bool = False


@final
@dataclass(frozen=True)
class ForwardTarget:
    """Where a composite forwards to, and which messages."""

    kind: str  # QUEUE or TOPIC
    name: str
    selector: str = ""  # empty: all of them


@final
@dataclass(frozen=True)
class CompositeDestination:
    """A queue or topic, or with wildcards several, whose messages are forwarded."""

    place: Place
    kind: str  # QUEUE or TOPIC
    name: NamePattern
    forward_to: tuple[ForwardTarget, ...]
    forward_only: bool = True
    send_when_not_matched: bool = False
    concurrent_send: bool = False
    drop_on_resource_limit: bool = False
    set_original_destination: bool = False

    def queue_names(self) -> list[str]:
        """Return the queues that it names: its own when it is one, and its targets."""
        own = [self.name.text] if self.kind == QUEUE and self.name.is_literal else []
        return own + [target.name for target in self.forward_to if target.kind == QUEUE]


@final
@dataclass(frozen=True)
class VirtualDestinations:
    """All definitions of a node, in the order in which they stand."""

    virtual_topics: tuple[VirtualTopic, ...] = ()
    composites: tuple[CompositeDestination, ...] = ()
    fan_out: str = ATOMIC
    route_trace: bool = False  # copies say by which destinations they came

    def queue_names(self) -> list[str]:
        """Return every queue that a definition names, once."""
        return list(dict.fromkeys([name for each in self.composites for name in each.queue_names()]))

    def consumes_virtual_topic(self, queue_name: str) -> bool:
        """Return whether a queue of this name consumes a virtual topic, or would."""
        return any(topic_consumed(each, queue_name) is not None for each in self.virtual_topics)


NO_DEFINITIONS: Final = VirtualDestinations()


def topic_consumed(definition: VirtualTopic, queue_name: str) -> NamePattern | None:
    """Return the topics that a queue of this name consumes by a definition; None when it is not called after any."""
    topic = definition.consumers.topic_in(queue_name)
    if not topic:
        return None
    try:
        pattern = NamePattern(topic)
    except ValueError:  # `Consumer.A.VirtualTopic.x>y` is a name like any other
        return None
    return pattern if pattern.overlaps(definition.name) else None
