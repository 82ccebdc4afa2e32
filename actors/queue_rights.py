"""What clients may do to queues: see, make, change and delete them. Operators, and the broker itself, are not asked.

Levels and owners are `messaging.permissions`; what a client's profiles permit is `messaging.client_rights`.
"""

from dataclasses import replace

from actors.directory_messages import PermissionDenied, QueueHandle
from actors.queue_assembly import FOR_CLIENTS
from messaging.client_rights import ClientRights
from messaging.permissions import denial, permits
from messaging.queue_attributes import DELETE, MODIFY_TOPIC
from messaging.queue_config import QueueDefinition, QueueInvalid
from messaging.queue_topics import topics_added
from messaging.topics import TopicFilter


def is_there_for(rights: ClientRights | None, handle: QueueHandle) -> bool:
    """Return whether who names a queue finds it; None: who is no client. What sessions keep is for their clients."""
    return rights is None or handle.kind in FOR_CLIENTS


def check_made(rights: ClientRights, definition: QueueDefinition, topics: list[TopicFilter]) -> None:
    """Raise QueueInvalid or ClientDenied unless a client may make a queue, which would collect these topics."""
    if definition.config.partitioned():
        raise QueueInvalid("partition_count", "a client cannot create a partitioned queue", "0; administrators can")
    rights.check_collecting(topics)


def check_changed(rights: ClientRights, handle: QueueHandle, definition: QueueDefinition) -> None:
    """Raise PermissionDenied or ClientDenied unless a client may give a queue another definition."""
    others_change = replace(definition, subscriptions=handle.definition.subscriptions)
    check_permission(handle, rights.user, MODIFY_TOPIC if others_change == handle.definition else DELETE)
    rights.check_collecting(topics_added(handle.definition, definition))


def check_permission(handle: QueueHandle, user: str, needed: str) -> None:
    """Raise PermissionDenied unless a user has the rights of a level on a queue."""
    config = handle.definition.config
    if not permits(config, user, needed):
        raise PermissionDenied(denial(config, user, needed))
