"""What operators ask of a queue's actor, which may be deleted before it has answered."""

from collections.abc import Iterable
from typing import Any

import pykka

from sluicegate.actors.messages.directory import QueueHandle
from sluicegate.actors.messages.queues import DescribeQueue, QueueOverview
from sluicegate.gateway.views.errors import QueueNotFound


async def ask_queue(handle: QueueHandle, message: object) -> Any:
    """Ask a queue. Raises QueueNotFound when it was deleted before it answered, and what the queue raises."""
    try:
        return await handle.cell.ask(message)
    except pykka.ActorDeadError:
        raise QueueNotFound(handle.name) from None


async def overview_of(handle: QueueHandle) -> QueueOverview:
    """Return what can be seen of a queue. Raises QueueNotFound when it is deleted meanwhile."""
    overview: QueueOverview = await ask_queue(handle, DescribeQueue())
    return overview


async def overviews_of(handles: Iterable[QueueHandle]) -> list[tuple[QueueHandle, QueueOverview]]:
    """Return what can be seen of each queue, without those that are deleted meanwhile: sessions' queues come and go."""
    found = []
    for handle in handles:
        try:
            found.append((handle, await overview_of(handle)))
        except QueueNotFound:
            continue
    return found
