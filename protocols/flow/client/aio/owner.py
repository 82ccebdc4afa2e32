"""The common parts of publishers, consumers, browsers and readers on asyncio: open, wait, receive, close."""

import asyncio
from types import TracebackType
from typing import Generic, Self, TypeVar

from sluicegate.protocols.flow.client.aio.base import ClientBase, Listener, WaitQueue
from sluicegate.protocols.flow.client.errors import ClientClosed
from sluicegate.protocols.flow.client.messages import Received
from sluicegate.protocols.flow.client.session.flow import ENDED, ClientFlow


class FlowOwner(Listener):
    """Has one flow of a client, within `async with`."""

    def __init__(self, client: ClientBase, flow: ClientFlow) -> None:
        self._client = client
        self._flow = flow
        self._changed = WaitQueue()

    async def __aenter__(self) -> Self:
        """Open it. Raises RequestRefused, or the error that ended the client."""
        self._client.add(self._flow, self)
        try:
            while not self._flow.was_open:
                self._flow.check_running()
                await self._changed.wait()
        except BaseException:
            self._client.remove(self._flow)
            self._client.forget(self._flow)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        await self.close()

    async def close(self) -> None:
        """Close it, which takes `close_timeout_s` at most. Unanswered and unsettled messages are left open then."""
        flow = self._flow
        if flow.phase != ENDED:
            self._client.remove(flow)
            try:
                async with asyncio.timeout(self._client.close_timeout_s):
                    while flow.phase != ENDED:
                        await self._changed.wait()
            except TimeoutError:
                flow.end(ClientClosed("it was closed"))
            finally:
                self.on_news()
        self._client.forget(flow)

    def on_news(self) -> None:
        """Wake the tasks that wait for a change."""
        self._changed.wake_all()


# Receiving on asyncio: one message, all that have arrived, or iteration.
#
# Common to consumers, browsers and subscribers, which store their messages differently.


M = TypeVar("M", bound=Received)


class Receiver(Generic[M]):
    """Gets messages. `async for` waits for one after the other, until the program closes it or its client."""

    def __init__(self) -> None:
        self._arrived = WaitQueue()

    @property
    def source(self) -> str:
        """Whose messages they are, as text."""
        raise AssertionError("each kind has its own source")

    async def receive(self) -> M:
        """Return the next message. Raises the error that ended it, or the client."""
        return (await self.receive_many(1))[0]

    async def receive_many(self, count_max: int) -> list[M]:
        """Wait for a message; return it with those behind it that are here already, `count_max` at most."""
        if count_max < 1:
            raise ValueError(f"count_max={count_max}; it is 1 or more")
        while not self._waiting_count():
            self._check_open()
            await self._arrived.wait()
        return self._take(count_max)

    def __aiter__(self) -> Self:
        """Return itself."""
        return self

    async def __anext__(self) -> M:
        """Return the next message; the end comes when the program closes this or the client."""
        try:
            return await self.receive()
        except ClientClosed:
            raise StopAsyncIteration from None

    def _waiting_count(self) -> int:
        """Return how many messages are here."""
        raise AssertionError("each kind has its own line")

    def _take(self, count_max: int) -> list[M]:
        """Return those that are here, so many at most."""
        raise AssertionError("each kind has its own line")

    def _check_open(self) -> None:
        """Raise the error it has ended with, if it has."""
        raise AssertionError("each kind has its own end")
