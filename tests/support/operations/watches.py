"""Watches of topics that are read in tasks of their own."""

import asyncio
from collections.abc import AsyncIterator

from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.clients.messaging import WatchedMessageView
from sluicegate.gateway.views.clients.subscriptions import SmrpQuery


class Watch:
    """A watch that is read in a task of its own."""

    def __init__(self, messages: AsyncIterator[WatchedMessageView]) -> None:
        self.seen: list[WatchedMessageView] = []
        self._task = asyncio.create_task(self._read(messages))

    async def _read(self, messages: AsyncIterator[WatchedMessageView]) -> None:
        async for message in messages:
            self.seen.append(message)

    async def end(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def watchers(view: NodeOperations) -> int:
    return (await view.smrp_subscriptions(SmrpQuery(destination_name="watcher-*"))).total_count


async def watching(view: NodeOperations, topic: str) -> Watch:
    before = await watchers(view)
    watch = Watch(await view.watch_topics(topic))
    while await watchers(view) == before:
        await asyncio.sleep(0)
    return watch
