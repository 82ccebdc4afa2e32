"""Changes of the definitions of queues: whose turn it is, and what cannot be changed as things stand."""

from typing import final

from sluicegate.actors.messages.directory import QueueHandle, UpdateQueue, UpdateRefused
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.cell import ActorCell
from sluicegate.messaging.queues.definition import QueueConfig, QueueDefinition

InLine = tuple[UpdateQueue, LoopFuture[QueueDefinition]]


@final
class QueueUpdates:
    """The changes that are on their way to the store. A queue has one at most.

    What is asked for meanwhile waits, for it is to be made from what that one leaves.
    """

    def __init__(self, directory: ActorCell) -> None:
        self._directory = directory
        self._waiting: dict[str, list[InLine]] = {}  # behind the change of each such queue

    def is_under_way(self, name: str) -> bool:
        """Return whether a change of a queue is on its way to the store."""
        return name in self._waiting

    def begin(self, name: str) -> None:
        """Note the one change that a queue has."""
        assert name not in self._waiting, "others wait"
        self._waiting[name] = []

    def wait(self, message: UpdateQueue) -> LoopFuture[QueueDefinition]:
        """Have a change asked for again when the one that is under way has ended."""
        answer: LoopFuture[QueueDefinition] = LoopFuture()
        self._waiting[message.name].append((message, answer))
        return answer

    def ended(self, name: str) -> None:
        """Let those go on that waited, in their order: the change is in force, or was refused."""
        for message, answer in self._waiting.pop(name):
            self._directory.ask(message).pass_on(answer)


def check_update(queue: QueueHandle, config: QueueConfig) -> None:
    """Raise UpdateRefused for what stays as it is while the egress of a queue is on."""
    before = queue.definition.config
    if not before.egress_enabled:
        return
    then = "while egress is on; set egress_enabled to false first"
    if config.access_type != before.access_type:
        raise UpdateRefused(f"access_type stays {before.access_type!r} {then}")
    if config.group_buckets != before.group_buckets:
        raise UpdateRefused(f"group_buckets stays {before.group_buckets} {then}")
    if config.partitioned() != before.partitioned():
        raise UpdateRefused(f"partition_count stays 0, or above 0, {then}")
