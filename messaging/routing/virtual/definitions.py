"""The definitions of virtual topics and of composite queues and topics.

A virtual topic feeds the queues of its consumers, which are found by name; a composite forwards its messages to the
targets that it lists. Each value here is checked by itself. Sets of definitions are checked by
`messaging.routing.virtual.validation`, and resolved by `messaging.routing.virtual.resolver`.
"""

from dataclasses import dataclass
from typing import Final, final

from sluicegate.messaging.routing.virtual.names import ConsumerNames, NamePattern

QUEUE: Final = "queue"
TOPIC: Final = "topic"

ATOMIC: Final = "atomic"  # all targets take a message, or none does
BEST_EFFORT: Final = "best-effort"  # a target that refuses is skipped
ACTIVEMQ: Final = "activemq"  # one target after another, until one refuses

TARGETS_MAX: Final = 256  # of one definition
DEFINITIONS_MAX: Final = 10_000  # of one kind

Place = tuple[str | int, ...]  # position of a definition, for messages about it


@final
@dataclass(frozen=True)
class VirtualTopic:
    """Topics whose messages go into every queue that is named after them.

    `local`: messages that came over a bridge from another broker do not go into these queues. `concurrent_send` and
    `transacted_send` say how a fan-out that fails ends, where it is not atomic anyway.
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
    """A target of a composite, and which messages it gets."""

    kind: str  # QUEUE or TOPIC
    name: str
    selector: str = ""  # empty: all of them


@final
@dataclass(frozen=True)
class CompositeDestination:
    """A queue or topic, or a pattern of several, whose messages are forwarded."""

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
        """Return the queues that the definition names: its own if it is a queue, and its targets."""
        own = [self.name.text] if self.kind == QUEUE and self.name.is_literal else []
        return own + [target.name for target in self.forward_to if target.kind == QUEUE]


@final
@dataclass(frozen=True)
class VirtualDestinations:
    """All definitions of a node, in order."""

    virtual_topics: tuple[VirtualTopic, ...] = ()
    composites: tuple[CompositeDestination, ...] = ()
    fan_out: str = ATOMIC
    route_trace: bool = False  # copies name the destinations on their way

    def queue_names(self) -> list[str]:
        """Return the names of all queues in the definitions, without repetition."""
        return list(dict.fromkeys([name for each in self.composites for name in each.queue_names()]))

    def consumes_virtual_topic(self, queue_name: str) -> bool:
        """Return whether a queue of this name consumes a virtual topic, or would if it existed."""
        return any(topic_consumed(each, queue_name) is not None for each in self.virtual_topics)


NO_DEFINITIONS: Final = VirtualDestinations()


def topic_consumed(definition: VirtualTopic, queue_name: str) -> NamePattern | None:
    """Return the topics that a queue of this name consumes by a definition; None when the name does not fit."""
    topic = definition.consumers.topic_in(queue_name)
    if not topic:
        return None
    try:
        pattern = NamePattern(topic)
    except ValueError:  # `Consumer.A.VirtualTopic.x>y` is an ordinary name
        return None
    return pattern if pattern.overlaps(definition.name) else None
