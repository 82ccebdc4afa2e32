"""The permissions of clients on queues: see, create, change and delete. Operators and the broker are not checked.

`messaging.queues.definition` has levels and owners; `messaging.clients.rights` has the rights of a client's profiles.
"""

from dataclasses import replace
from typing import final

from sluicegate.actors.messages.directory import FOR_CLIENTS, LocalQueue, PermissionDenied, UpdateQueue, UpdateRefused
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.clients.rights import ClientRights
from sluicegate.messaging.queues.attributes import DELETE, MODIFY_TOPIC
from sluicegate.messaging.queues.definition import (
    QueueConfig,
    QueueDefinition,
    QueueInvalid,
    denial,
    permits,
    topics_added,
    topics_of,
)
from sluicegate.messaging.topics.syntax import DEAD_MESSAGE_QUEUE, TopicFilter, queue_topic


def is_there_for(rights: ClientRights | None, handle: LocalQueue) -> bool:
    """Return whether a client can find a queue; None: not a client. Queues of sessions are for their clients."""
    return rights is None or handle.kind in FOR_CLIENTS


def check_made(
    rights: ClientRights, definition: QueueDefinition, topics: list[TopicFilter], asked: dict[str, object]
) -> None:
    """Raise QueueInvalid or ClientDenied unless a client may create a queue that would collect these topics.

    What the client has not asked for comes from a template, which an operator wrote.
    """
    if definition.config.partitioned():
        raise QueueInvalid("partition_count", "a client cannot create a partitioned queue", "0; administrators can")
    rights.check_collecting(topics, len(topics))
    if "dead_msg_queue" in asked:
        _check_dead_msg_queue(rights, definition)


def check_changed(rights: ClientRights, handle: LocalQueue, definition: QueueDefinition) -> None:
    """Raise PermissionDenied, QueueInvalid or ClientDenied unless a client may change a queue's definition."""
    others_change = replace(definition, subscriptions=handle.definition.subscriptions)
    check_permission(handle, rights.username, MODIFY_TOPIC if others_change == handle.definition else DELETE)
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
    """Raise ClientDenied for a dead message queue that the client may not publish to: its rejects would go there."""
    name = definition.config.dead_msg_queue
    if name not in ("", DEAD_MESSAGE_QUEUE):
        rights.check_publish(queue_topic(name), guaranteed=True)


def check_permission(handle: LocalQueue, user: str, needed: str) -> None:
    """Raise PermissionDenied unless a user has a level of permission on a queue."""
    config = handle.definition.config
    if not permits(config, user, needed):
        raise PermissionDenied(denial(config, user, needed))


InLine = tuple[UpdateQueue, LoopFuture[QueueDefinition]]


@final
class QueueUpdates:
    """The changes of definitions that are being stored. A queue has at most one.

    Further changes wait, for they are made from the result of that one.
    """

    def __init__(self, directory: ActorCell) -> None:
        self._directory = directory
        self._waiting: dict[str, list[InLine]] = {}  # by queue: waiting behind its change

    def is_under_way(self, name: str) -> bool:
        """Return whether a change of a queue is being stored."""
        return name in self._waiting

    def begin(self, name: str) -> None:
        """Record the one change of a queue."""
        assert name not in self._waiting, "other changes wait"
        self._waiting[name] = []

    def wait(self, message: UpdateQueue) -> LoopFuture[QueueDefinition]:
        """Repeat a change when the one in progress has ended."""
        answer: LoopFuture[QueueDefinition] = LoopFuture()
        self._waiting[message.name].append((message, answer))
        return answer

    def ended(self, name: str) -> None:
        """Continue the waiting changes, in their order: the change is in force, or was refused."""
        for message, answer in self._waiting.pop(name):
            self._directory.ask(message).pass_on(answer)


def check_update(queue: LocalQueue, config: QueueConfig) -> None:
    """Raise UpdateRefused for attributes that cannot change while the egress of a queue is enabled."""
    before = queue.definition.config
    if not before.egress_enabled:
        return
    then = "while egress is on; set egress_enabled to false first"
    if config.access_type != before.access_type:
        raise UpdateRefused(f"access_type cannot change {then}")
    if config.group_buckets != before.group_buckets:
        raise UpdateRefused(f"group_buckets cannot change {then}")
    if config.partitioned() != before.partitioned():
        change = "from 0" if config.partitioned() else "to 0"
        raise UpdateRefused(f"partition_count cannot change {change} {then}")
