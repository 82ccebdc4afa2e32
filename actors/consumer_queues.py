"""Queues that definitions of virtual destinations call for: which are made when somebody wants one, and as what.

Whoever consumes from the queue of a virtual topic need not create it: that it is there is the subscription, and that it
is deleted ends it. Queues that a definition names exist from when it is loaded on.
"""

import logging

from actors.queue_templates import QueueTemplates
from messaging.queue_attributes import NON_EXCLUSIVE
from messaging.queue_config import QueueDefinition, QueueInvalid, check_queue_name, definition_from_dict
from messaging.virtual_destinations import NO_DEFINITIONS, VirtualDestinations
from messaging.virtual_names import ANY, REST

log = logging.getLogger("sluicegate.queues")


class ConsumerQueues:
    """What is made for consumers."""

    def __init__(self, templates: QueueTemplates) -> None:
        self._templates = templates
        self._definitions = NO_DEFINITIONS
        self._named: frozenset[str] = frozenset()
        self._are_made = False

    def define(self, definitions: VirtualDestinations, *, are_made: bool) -> None:
        """Take over definitions; with `are_made`, consumers get queues of virtual topics made."""
        self._definitions = definitions
        self._named = frozenset(definitions.queue_names())
        self._are_made = are_made

    def definition(self, name: str, owner: str) -> tuple[QueueDefinition, bool] | None:
        """Return what a queue that somebody wants is to be, and whether durable; None when it is not made for them.

        A template says what it is; without one it takes many consumers, for so do those of a virtual topic.
        """
        if name not in self._named and not (self._are_made and self._definitions.consumes_virtual_topic(name)):
            return None
        values, durable = self._templates.fill_in({"name": name}, None)
        values.setdefault("access_type", NON_EXCLUSIVE)
        values.setdefault("owner", owner)
        try:
            # Who consumes a pattern of topics has its wildcards in the queue's name; all else is as for any queue.
            check_queue_name(name.replace(ANY, "-").replace(REST, "-"), durable=durable)
            return definition_from_dict(values, reserved_name=True, durable=durable), durable
        except QueueInvalid as problem:
            log.warning("queue %r was not made for its consumer: %s", name, problem)
            return None
