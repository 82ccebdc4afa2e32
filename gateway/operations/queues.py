"""Ask queues that may be deleted meanwhile, list those of neighbors, and browse queues wherever they are.

A follower is a browser that shows messages as fast as its client reads them, and ends with the client's connection.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from typing import Any, Final

import pykka

from sluicegate.actors.messages.directory import LocalQueue, QueueHandle
from sluicegate.actors.messages.partitions import BrowsedMessage
from sluicegate.actors.messages.queues import (
    BindBrowser,
    BindRefused,
    Browsed,
    BrowserBound,
    BrowserCredit,
    DescribeQueue,
    DrainFlow,
    FlowDrained,
    FlowGone,
    QueueOverview,
    UnbindFlow,
)
from sluicegate.actors.runtime.actor import LoopActor
from sluicegate.actors.runtime.runtime import ActorCell, Runtime
from sluicegate.actors.runtime.supervision import ONE_CONNECTION
from sluicegate.gateway.views.errors import QueueNotFound, Refused
from sluicegate.gateway.views.queues.queues import NetworkQueueView
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.selectors.selector import Selector


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
