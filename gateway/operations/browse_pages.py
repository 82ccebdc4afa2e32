"""One page of a browse: messages of a queue oldest first, all of them or those that a selector selects."""

from typing import Final

from sluicegate.actors.messages.directory import QueueHandle
from sluicegate.actors.messages.queues import BrowsedMessage, BrowseQueue
from sluicegate.gateway.operations.queue_questions import ask_queue
from sluicegate.messaging.selectors.selector import Selector

LOOKED_AT_ONCE: Final = 500  # messages of one ask: a millisecond or two in which the node does nothing else


async def browse_page(
    handle: QueueHandle, *, partition: int | None, after: int, limit: int, selector: Selector | None
) -> list[BrowsedMessage]:
    """Return at most `limit` messages with sequences above `after`, partition by partition.

    With a selector everything is looked at until so many are found, a part at a time.
    """
    if selector is None:
        found: list[BrowsedMessage] = await ask_queue(handle, BrowseQueue(partition, after, limit))
        return found
    numbers = range(len(handle.target.partitions)) if partition is None else (partition,)
    selected: list[BrowsedMessage] = []
    for number in numbers:
        looked_to = after
        while len(selected) < limit:
            part: list[BrowsedMessage] = await ask_queue(handle, BrowseQueue(number, looked_to, LOOKED_AT_ONCE))
            if not part:
                break
            selected += [each for each in part if selector.matches(each.batch, each.row)]
            looked_to = part[-1].sequence
    return selected[:limit]
