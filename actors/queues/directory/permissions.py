"""What clients may do to queues: see, make, change and delete them. Operators, and the broker itself, are not asked.

Levels and owners are `messaging.queues.permissions`; what a client's profiles permit is `messaging.clients.rights`.
"""

from dataclasses import replace

from sluicegate.actors.messages.directory import PermissionDenied, QueueHandle
from sluicegate.actors.queues.assembly import FOR_CLIENTS
from sluicegate.messaging.clients.rights import ClientRights
from sluicegate.messaging.queues.attributes import DEAD_MESSAGE_QUEUE, DELETE, MODIFY_TOPIC
from sluicegate.messaging.queues.definition import QueueDefinition, QueueInvalid
from sluicegate.messaging.queues.permissions import denial, permits
from sluicegate.messaging.queues.queue_topics import topics_added, topics_of
from sluicegate.messaging.topics.syntax import TopicFilter, queue_topic


def is_there_for(rights: ClientRights | None, handle: QueueHandle) -> bool:
    """Return whether who names a queue finds it; None: who is no client. What sessions keep is for their clients."""
    return rights is None or handle.kind in FOR_CLIENTS


def check_made(
    rights: ClientRights, definition: QueueDefinition, topics: list[TopicFilter], asked: dict[str, object]
) -> None:
    """Raise QueueInvalid or ClientDenied unless a client may make a queue, which would collect these topics.

    What it has not asked for itself a template says, which is an operator's.
    """
    if definition.config.partitioned():
        raise QueueInvalid("partition_count", "a client cannot create a partitioned queue", "0; administrators can")
    rights.check_collecting(topics, len(topics))
    if "dead_msg_queue" in asked:
        _check_dead_msg_queue(rights, definition)


def check_changed(rights: ClientRights, handle: QueueHandle, definition: QueueDefinition) -> None:
    """Raise PermissionDenied, QueueInvalid or ClientDenied unless a client may give a queue another definition."""
    others_change = replace(definition, subscriptions=handle.definition.subscriptions)
    check_permission(handle, rights.user, MODIFY_TOPIC if others_change == handle.definition else DELETE)
    config, present = definition.config, handle.definition.config
    if config.partitioned() and not present.partitioned():
        raise QueueInvalid("partition_count", "a client cannot partition a queue", "0; administrators can")
    if config.owner != present.owner:
        raise QueueInvalid("owner", "a client cannot make a queue somebody else's", f"{present.owner!r}")
    more_count = len(topics_of(definition)[0]) - len(topics_of(handle.definition)[0])
    rights.check_collecting(topics_added(handle.definition, definition), more_count)
    if config.dead_msg_queue != present.dead_msg_queue:
        _check_dead_msg_queue(rights, definition)


def _check_dead_msg_queue(rights: ClientRights, definition: QueueDefinition) -> None:
    """Raise ClientDenied for a queue that the client may not publish to: what it rejects would be there."""
    name = definition.config.dead_msg_queue
    if name not in ("", DEAD_MESSAGE_QUEUE):
        rights.check_publish(queue_topic(name), guaranteed=True)


def check_permission(handle: QueueHandle, user: str, needed: str) -> None:
    """Raise PermissionDenied unless a user has the rights of a level on a queue."""
    config = handle.definition.config
    if not permits(config, user, needed):
        raise PermissionDenied(denial(config, user, needed))
