"""Queues that definitions of virtual destinations require: which are created on demand, and with which attributes.

The consumer of a virtual topic's queue need not create it: its existence is the subscription, and its deletion ends it.
Queues that a definition names exist from when it is loaded.
"""

import logging
from collections.abc import Callable

from sluicegate.actors.messages.directory import NAMED, TEMPORARY, CreateQueue, LocalQueue
from sluicegate.actors.runtime.asks import LoopFuture, gather
from sluicegate.messaging.queues.attributes import NON_EXCLUSIVE
from sluicegate.messaging.queues.definition import QueueDefinition, QueueInvalid, definition_from_dict, topics_of
from sluicegate.messaging.queues.template import QueueTemplates
from sluicegate.messaging.routing.virtual.definitions import NO_DEFINITIONS, VirtualDestinations, topic_consumed
from sluicegate.messaging.topics.syntax import TopicFilter

log = logging.getLogger("sluicegate.queues")


class ConsumerQueues:
    """The queues that are created for consumers."""

    def __init__(self, templates: QueueTemplates) -> None:
        self._templates = templates
        self._definitions = NO_DEFINITIONS
        self._named: list[str] = []  # by a definition
        self._is_home: Callable[[str], bool] = _is_always_home
        self._are_made = False

    def define(self, definitions: VirtualDestinations, *, are_made: bool, is_home: Callable[[str], bool]) -> None:
        """Apply definitions; with `are_made`, the queues of virtual topics are created for their consumers.

        `is_home` returns whether a queue that a definition names is to be at this broker.
        """
        self._definitions = definitions
        self._named = definitions.queue_names()
        self._are_made = are_made
        self._is_home = is_home

    def named_here(self) -> list[str]:
        """Return the queues that definitions name, and that are to be at this broker."""
        return [name for name in self._named if self._is_home(name)]

    def calls_for(self, name: str) -> bool:
        """Return whether a queue of this name is created for a client that wants to consume from it."""
        return (name in self._named and self._is_home(name)) or (
            self._are_made and self._definitions.consumes_virtual_topic(name)
        )

    def may_have_wildcards(self, name: object) -> bool:
        """Return whether a queue's name may be a pattern of topics, all of which it would collect."""
        return isinstance(name, str) and self._definitions.consumes_virtual_topic(name)

    def topics_of(self, name: str) -> list[TopicFilter]:
        """Return the topics that a queue of this name would collect."""
        topics = [topic_consumed(each, name) for each in self._definitions.virtual_topics]
        return [topic_filter for each in topics if each is not None for topic_filter in each.index_filters()]

    def topics_of_queue(self, definition: QueueDefinition) -> list[TopicFilter]:
        """Return the topics that a queue would collect, by its subscriptions and by its name. Raises QueueInvalid."""
        return [*topics_of(definition)[0], *self.topics_of(definition.config.name)]

    def definition(self, name: str, owner: str) -> CreateQueue | None:
        """Return the definition of a queue to create; None, with a log line, when it is not possible.

        A template sets its attributes; without one it is non-exclusive, like the queues of virtual topics.
        """
        values, durable = self._templates.fill_in({"name": name}, None)
        values.setdefault("access_type", NON_EXCLUSIVE)
        values.setdefault("owner", owner)
        try:
            definition = definition_from_dict(values, wildcards=True, durable=durable)
        except QueueInvalid as problem:
            log.warning("queue %r was not made for its consumer: %s", name, problem)
            return None
        return CreateQueue(definition, NAMED if durable else TEMPORARY, durable=durable, must_be_new=False)


def _is_always_home(_: str) -> bool:
    """Return that a queue is to be here: nobody says otherwise."""
    return True


def found_later(name: str, created: LoopFuture[LocalQueue]) -> LoopFuture[LocalQueue | None]:
    """Return the outcome of a queue that is being created: None, with a log line, when it cannot be stored."""
    answer: LoopFuture[LocalQueue | None] = LoopFuture()

    def done(made: LoopFuture[LocalQueue]) -> None:
        try:
            answer.set(made.get())
        except Exception as refusal:  # the catalog could not be written
            log.warning("queue %r was not made: %s", name, refusal)
            answer.set(None)

    created.then(done)
    return answer


def all_done(waiting: list[LoopFuture[LocalQueue | None]]) -> LoopFuture[None]:
    """Return when all of these are answered."""
    answer: LoopFuture[None] = LoopFuture()
    gather(waiting, lambda _: answer.set(None), answer)
    return answer
