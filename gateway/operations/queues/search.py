"""Search a queue: a request examines a bounded number of messages, and says where the next one goes on."""

from collections.abc import Sequence
from dataclasses import dataclass

from sluicegate.actors.messages.directory import LocalQueue, QueueHandle
from sluicegate.actors.messages.partitions import BrowsedMessage
from sluicegate.actors.messages.queues import BrowseQueue
from sluicegate.gateway.operations.queues.asking import ask_queue
from sluicegate.gateway.operations.queues.followers import QueueFollowers
from sluicegate.gateway.operations.queues.messages import LOOKED_AT_ONCE
from sluicegate.messaging.queues.message_filter import MessageFilter, MessageId


@dataclass(frozen=True, slots=True)
class Found:
    """What one request found."""

    messages: list[BrowsedMessage]
    scanned_count: int
    position: MessageId | None  # of the last message that was examined; None: all were


async def search(
    handle: QueueHandle,
    followers: QueueFollowers,
    wanted: MessageFilter,
    *,
    partition_count: int,
    partition: int | None,
    position: MessageId,
    limit: int,
    scan: int,
) -> Found:
    """Return at most `limit` messages that a filter matches, behind a position, of at most `scan` that are examined.

    Partitions are searched in the order of their numbers, each oldest first. Raises QueueNotFound, Refused.
    """
    numbers = range(position.partition, partition_count)
    if partition is not None:
        numbers = range(partition, partition + 1)
    found: list[BrowsedMessage] = []
    scanned = 0
    for number in numbers:
        after = position.sequence if number == position.partition else 0
        while True:
            part = await _part(handle, followers, number, after, min(LOOKED_AT_ONCE, scan - scanned))
            if not part:
                break
            for each in part:
                after = each.sequence
                scanned += 1
                if wanted.matches(each.batch, each.row):
                    found.append(each)
                    if len(found) == limit:
                        return Found(found, scanned, MessageId(number, after))
            if scanned >= scan:
                return Found(found, scanned, MessageId(number, after))
    return Found(found, scanned, None)


async def _part(
    handle: QueueHandle, followers: QueueFollowers, number: int, after: int, limit: int
) -> Sequence[BrowsedMessage]:
    if isinstance(handle, LocalQueue):
        part: list[BrowsedMessage] = await ask_queue(handle, BrowseQueue(number, after, limit))
        return part
    return await followers.page(handle, number, after, limit, None)
