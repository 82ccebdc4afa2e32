"""Ask queues that may be deleted meanwhile, and list those of neighbors."""

from collections.abc import Iterable
from typing import Any

import pykka

from sluicegate.actors.messages.directory import LocalQueue, QueueHandle
from sluicegate.actors.messages.queues import (
    DescribeQueue,
    QueueOverview,
)
from sluicegate.gateway.views.errors import QueueNotFound
from sluicegate.gateway.views.queues.queues import NetworkQueueView
from sluicegate.messaging.routing.routes import TopicSpace


async def ask_queue(handle: QueueHandle, message: object) -> Any:
    """Ask a queue. Raises QueueNotFound when it was deleted before it answered, and what the queue raises."""
    try:
        return await handle.cell.ask(message)
    except pykka.ActorDeadError:
        raise QueueNotFound(handle.name) from None


async def overview_of(handle: LocalQueue) -> QueueOverview:
    """Return the overview of a queue. Raises QueueNotFound if it is deleted meanwhile."""
    overview: QueueOverview = await ask_queue(handle, DescribeQueue())
    return overview


async def overviews_of(handles: Iterable[LocalQueue]) -> list[tuple[LocalQueue, QueueOverview]]:
    """Return the overviews of queues, without those that are deleted meanwhile: queues of sessions come and go."""
    found = []
    for handle in handles:
        try:
            found.append((handle, await overview_of(handle)))
        except QueueNotFound:
            continue
    return found


def not_found(space: TopicSpace, name: str) -> QueueNotFound:
    """Return the error for a queue that this broker does not have: it says which broker has it."""
    home = space.queue_home(name)
    if home is None:
        return QueueNotFound(name)
    return QueueNotFound(name, f"queue {name!r} is at broker {home.output.neighbor}: ask there")


def network_queues(space: TopicSpace) -> list[NetworkQueueView]:
    """Return the queues of neighbor brokers, by name and broker."""
    if space.neighbors is None:
        return []
    names = space.neighbors.queues
    return [
        NetworkQueueView(
            name=name,
            broker=home.output.neighbor,
            access_type=home.facts.access_type,
            partition_count=home.facts.partition_count,
            max_msg_size=home.facts.message_bytes_max,
            ingress_enabled=home.facts.ingress_enabled,
            egress_enabled=home.facts.egress_enabled,
            full=home.facts.is_full,
            reachable=home.output.is_up,
            conflict=tuple(space.conflict(name)),
        )
        for name in names.names()
        for home in sorted(names.homes(name), key=lambda each: each.output.neighbor)
    ]
