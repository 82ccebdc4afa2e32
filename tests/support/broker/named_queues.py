"""Operations on named queues for tests of a whole broker, through the interface of the admin port."""

import asyncio
from collections.abc import Callable

from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.queues.queues import QueueView
from support.broker.running_broker import RunningBroker
from support.mqtt.raw_client import DEADLINE_S


async def create(broker: RunningBroker, name: str = "q", **attributes: object) -> QueueView:
    """Create a durable queue."""
    return await NodeOperations(broker.node).create_queue({"name": name, **attributes})


async def change(broker: RunningBroker, name: str = "q", **attributes: object) -> QueueView:
    """Change attributes of a queue."""
    return await NodeOperations(broker.node).update_queue(name, attributes)


async def shown(broker: RunningBroker, name: str = "q") -> QueueView:
    """Return a queue as operators see it."""
    return await NodeOperations(broker.node).show_queue(name)


async def shows(broker: RunningBroker, condition: Callable[[QueueView], bool], name: str = "q") -> QueueView:
    """Wait until a queue looks as it should."""
    async with asyncio.timeout(2 * DEADLINE_S):
        while not condition(view := await shown(broker, name)):
            await asyncio.sleep(0.01)
    return view
