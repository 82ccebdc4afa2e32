"""How programs take messages on asyncio: one, those that are here, or one after the other.

Consumers, browsers and subscribers are alike in this; where their messages lie is theirs to say.
"""

from typing import Generic, Self, TypeVar

from sluicegate.protocols.flow.client.aio.waiting import WaitingLine
from sluicegate.protocols.flow.client.errors import ClientClosed
from sluicegate.protocols.flow.client.messages import Received

M = TypeVar("M", bound=Received)


class Receiving(Generic[M]):
    """Gets messages. `async for` waits for one after the other, until the program closes it or its client."""

    def __init__(self) -> None:
        self._arrived = WaitingLine()

    async def receive(self) -> M:
        """Return the next message. Raises what it, or the client, ended with."""
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
        """Raise what it has ended with, if it has."""
        raise AssertionError("each kind has its own end")
