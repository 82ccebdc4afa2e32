"""A client that browses a queue without a wire protocol, as a protocol's connection does."""

import asyncio

from sluicegate.actors.messages.directory import FindQueue, LocalQueue
from sluicegate.actors.messages.partitions import BrowsedMessage
from sluicegate.actors.messages.queues import (
    BindBrowser,
    Browsed,
    BrowserBound,
    BrowserCredit,
    DeleteBrowsed,
    DrainFlow,
    FlowDrained,
    FlowGone,
    UnbindFlow,
)
from sluicegate.actors.runtime.actor import LoopActor
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.actors.runtime.supervision import ONE_CONNECTION
from support.broker.running_broker import RunningBroker
from support.mqtt.raw_client import DEADLINE_S


class Reader(LoopActor):
    """The actor of a client that browses."""

    def __init__(self, cell: ActorCell) -> None:
        super().__init__(cell)
        self.heard: asyncio.Queue[Browsed | FlowDrained | FlowGone] = asyncio.Queue()

    def on_receive(self, message: Browsed | FlowDrained | FlowGone) -> None:
        self.heard.put_nowait(message)


class Browser:
    """A client that browses."""

    def __init__(self, broker: RunningBroker) -> None:
        self._runtime = broker.node.services.runtime
        self._cell = self._runtime.spawn(Reader, kind="reader", name="reader", policy=ONE_CONNECTION)
        self._queues = broker.node.default.queues
        self._selectors = broker.node.services.selectors
        self.flow_id = self._runtime.next_urn()
        self.queue: LocalQueue | None = None
        self.bound: BrowserBound | None = None
        self._seen: list[BrowsedMessage] = []  # on its way to the tail

    async def bind(
        self,
        *,
        user: str | None = "",
        window: int = 1000,
        partition: int | None = None,
        after: int = 0,
        selector: str = "",
        queue: str = "q",
    ) -> None:
        self.queue = await self._queues.ask(FindQueue(queue))
        assert self.queue is not None
        wanted = self._selectors.compile(selector) if selector else None
        request = BindBrowser(self.flow_id, "looker", "test", user, self._cell.inbox, window, partition, after, wanted)
        self.bound = await self.queue.cell.ask(request)

    async def sees(self, count: int) -> list[BrowsedMessage]:
        found: list[BrowsedMessage] = []
        async with asyncio.timeout(DEADLINE_S):
            while len(found) < count:
                heard = await self._reader().heard.get()
                assert isinstance(heard, Browsed)
                found += heard.messages
        return found

    async def is_told_that_it_ended(self) -> FlowGone:
        async with asyncio.timeout(DEADLINE_S):
            heard = await self._reader().heard.get()
        assert isinstance(heard, FlowGone)
        return heard

    async def comes_to_the_tail(self) -> None:
        assert self.bound is not None
        self.bound.browser.inbox.post(DrainFlow(self.flow_id, 1))
        async with asyncio.timeout(DEADLINE_S):
            while not isinstance(heard := await self._reader().heard.get(), FlowDrained):
                assert isinstance(heard, Browsed)
                self._seen += heard.messages

    def has_seen(self) -> list[BrowsedMessage]:
        """Return what it was shown on its way to the tail."""
        return self._seen

    def has_seen_all(self) -> bool:
        return self._reader().heard.empty()

    def wants(self, count: int) -> None:
        assert self.bound is not None
        self.bound.browser.inbox.post(BrowserCredit(count))

    async def deletes(self, *messages: BrowsedMessage) -> int:
        assert self.bound is not None
        places = [(each.partition_number, each.sequence) for each in messages]
        count: int = await self.bound.browser.ask(DeleteBrowsed(places))
        return count

    def leaves(self) -> None:
        assert self.queue is not None
        self.queue.cell.inbox.post(UnbindFlow(self.flow_id))

    def _reader(self) -> Reader:
        reader = self._cell.actor
        assert isinstance(reader, Reader)
        return reader
