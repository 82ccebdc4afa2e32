"""Browse queues wherever they are.

A follower is a browser that shows messages as fast as its client reads them, and ends with the client's connection.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from sluicegate.actors.messages.directory import QueueHandle
from sluicegate.actors.messages.partitions import BrowsedMessage
from sluicegate.actors.messages.queues import (
    BindBrowser,
    BindRefused,
    Browsed,
    BrowserBound,
    BrowserCredit,
    DrainFlow,
    FlowDrained,
    FlowGone,
    UnbindFlow,
)
from sluicegate.actors.runtime.actor import LoopActor
from sluicegate.actors.runtime.runtime import ActorCell, Runtime
from sluicegate.actors.runtime.supervision import ONE_CONNECTION
from sluicegate.gateway.operations.queues.asking import ask_queue
from sluicegate.gateway.views.errors import QueueNotFound, Refused
from sluicegate.messaging.selectors.selector import Selector

WINDOW: Final = 100  # messages on their way to a client that reads slowly
CLIENT: Final = "admin"


class FollowerActor(LoopActor):
    """Receives the messages of a browser. None marks the end, or the tail of the queue for one that asked for it."""

    def __init__(self, cell: ActorCell) -> None:
        super().__init__(cell)
        self.shown: asyncio.Queue[list[BrowsedMessage] | None] = asyncio.Queue()  # bounded by the browser's window
        self.end_reason = ""

    def on_receive(self, message: Browsed | FlowDrained | FlowGone) -> None:
        """Receive messages, or the end of the queue."""
        if isinstance(message, FlowGone):
            self.end_reason = message.reason
        self.shown.put_nowait(message.messages if isinstance(message, Browsed) else None)

    def on_stop(self) -> None:
        """End the stream: the node stops."""
        self.shown.put_nowait(None)


class QueueFollowers:
    """The browsers of a node's HTTP clients."""

    def __init__(self, runtime: Runtime, parent: ActorCell) -> None:
        self._runtime = runtime
        self._parent = parent
        self._cells: set[ActorCell] = set()

    async def messages(
        self, handle: QueueHandle, partition_number: int | None, after: int, selector: Selector | None
    ) -> AsyncGenerator[BrowsedMessage, None]:
        """Yield the messages of a queue, oldest first, and then new ones, until it is deleted or the node stops."""
        flow_id = self._runtime.next_urn()
        cell, follower = self._begin(flow_id)
        try:
            bind = BindBrowser(flow_id, CLIENT, "http", None, cell.inbox, WINDOW, partition_number, after, selector)
            try:
                bound = await _bound(handle, bind)
            except QueueNotFound:
                return
            while (messages := await follower.shown.get()) is not None:
                for message in messages:
                    yield message
                bound.browser.inbox.post(BrowserCredit(len(messages)))
        finally:
            self._end(handle, flow_id, cell)

    async def page(
        self, handle: QueueHandle, partition_number: int | None, after: int, limit: int, selector: Selector | None
    ) -> list[BrowsedMessage]:
        """Return at most `limit` of the messages that there are, oldest first. Raises QueueNotFound, Refused."""
        flow_id = self._runtime.next_urn()
        cell, follower = self._begin(flow_id)
        found: list[BrowsedMessage] = []
        try:
            bind = BindBrowser(flow_id, CLIENT, "http", None, cell.inbox, limit, partition_number, after, selector)
            bound = await _bound(handle, bind)
            bound.browser.inbox.post(DrainFlow(flow_id, 1))
            while len(found) < limit and (messages := await follower.shown.get()) is not None:
                found += messages
        finally:
            self._end(handle, flow_id, cell)
        if follower.end_reason:
            raise Refused(f"browsing {handle.name!r} ended before the page was complete: {follower.end_reason}")
        return found

    def _begin(self, flow_id: int) -> tuple[ActorCell, FollowerActor]:
        cell = self._runtime.spawn(
            FollowerActor, kind="follower", name=f"follower-{flow_id}", policy=ONE_CONNECTION, parent=self._parent
        )
        follower = cell.actor
        assert isinstance(follower, FollowerActor)
        self._cells.add(cell)
        return cell, follower

    def _end(self, handle: QueueHandle, flow_id: int, cell: ActorCell) -> None:
        handle.cell.inbox.post(UnbindFlow(flow_id))
        self._cells.discard(cell)
        cell.stop()

    def end(self) -> None:
        """End all of them: the node stops."""
        for cell in list(self._cells):
            cell.stop()


async def _bound(handle: QueueHandle, bind: BindBrowser) -> BrowserBound:
    """Bind a browser. Raises QueueNotFound when the queue was deleted meanwhile, and Refused."""
    try:
        bound: BrowserBound = await ask_queue(handle, bind)
    except BindRefused as refusal:
        raise Refused(str(refusal)) from None
    return bound
