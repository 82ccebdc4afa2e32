"""Queues whose definitions are lost: how each is served, and how it gets a definition again.

Messages, and the partitions that hold them, outlive the row of their queue's definition. Such a queue is shut down
until an operator decides: enables its ingress or egress, declares it in the configuration, or deletes it. A queue of
the broker's own gets its definition back from the component that made it.
"""

from collections.abc import Callable
from dataclasses import replace

from sluicegate.actors.messages.directory import (
    NAMED,
    CreateQueue,
    DefinitionLost,
    LocalQueue,
    PermissionDenied,
    UpdateQueue,
)
from sluicegate.messaging.observability.events import as_word
from sluicegate.messaging.queues.attributes import NON_EXCLUSIVE
from sluicegate.messaging.queues.definition import QueueConfig, QueueDefinition
from sluicegate.storage.catalog.queues import StoredQueue

OwnQueue = Callable[[str, str, int], QueueDefinition | None]  # kind, name, number of partitions


def with_own_definition(lost: StoredQueue, own_queue: OwnQueue) -> StoredQueue:
    """Return the queue with the definition that all queues of its kind have, if there is one: then nothing is lost."""
    made = own_queue(lost.kind, lost.name, lost.definition.config.partition_count)
    return lost if made is None else replace(lost, definition=made, definition_lost=False)


def description_of_lost(handle: LocalQueue) -> str:
    """Return the description of a queue for operators."""
    count = handle.target.gate.usage_count
    return (
        f"The definition of queue {as_word(handle.name)} is lost; it has {count} messages,"
        " and is shut until an operator decides"
    )


def stays_lost(handle: LocalQueue, config: QueueConfig) -> bool:
    """Return whether a queue with these attributes still waits for an operator's decision."""
    return handle.definition_lost and not (config.ingress_enabled or config.egress_enabled)


def restoring_update(found: LocalQueue, asked: CreateQueue) -> UpdateQueue | None:
    """Return an update that restores a queue's definition; None: the asker does not know it, or is another user."""
    same_kind = found.kind == asked.kind and found.durable == asked.durable
    owner = found.definition.config.owner
    if not (asked.gives_back and same_kind and (asked.kind == NAMED or owner == asked.definition.config.owner)):
        return None
    definition, config = asked.definition, asked.definition.config
    if asked.kind != NAMED and config.partition_count == 0 and config.access_type == NON_EXCLUSIVE:
        count = found.definition.config.partition_count  # a client that names no count takes the existing one
        definition = replace(definition, config=replace(config, partition_count=count))
    return UpdateQueue(found.name, lambda _: definition, gives_back=True)


def check_decides(handle: LocalQueue, user: str | None) -> None:
    """Raise PermissionDenied for a client that changes or deletes a queue about which an operator has to decide."""
    if handle.definition_lost and user is not None:
        raise PermissionDenied(f"403 Permission Denied: {DefinitionLost(handle.name)}")
