"""The common parts of blocking publishers, consumers, browsers, subscribers and readers: `with`, close, iterate.

Each wraps its asyncio counterpart, which runs on the client's thread.
"""

from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from sluicegate.protocols.flow.client.blocking.loop_thread import LoopThread

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Owner(Protocol):
    """An asyncio object that is opened and closed."""

    async def __aenter__(self) -> object: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def close(self) -> None:
        """Close it."""


class Iterating(Owner, Protocol[T_co]):
    """What gives one thing after the other on asyncio."""

    async def __anext__(self) -> T_co: ...


class ReceivingOwner(Iterating[T], Protocol[T]):
    """What gives messages on asyncio."""

    @property
    def source(self) -> str:
        """Return whose messages they are, as text."""
        ...

    async def receive(self) -> T:
        """Return the next message."""
        ...

    async def receive_many(self, count_max: int) -> list[T]:
        """Return the next messages."""
        ...


class BlockingOwner:
    """Something that is entered with `with`. Raises on entry and at the end what its twin raises."""

    def __init__(self, thread: LoopThread, owner: Owner) -> None:
        self._thread = thread
        self._owner = owner

    def __enter__(self) -> Self:
        """Open it. Raises RequestRefused, or what the client ended with."""
        self._thread.run(self._owner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it, as its twin does at the end of its block."""
        self._thread.run(self._owner.__aexit__(kind, error, trace))

    def close(self) -> None:
        """As `close` of its twin."""
        self._thread.run(self._owner.close())


class BlockingIterator(BlockingOwner, Generic[T]):
    """Something that is iterated with `for`, within `with`."""

    def __init__(self, thread: LoopThread, owner: Iterating[T]) -> None:
        super().__init__(thread, owner)
        self._iterating = owner

    def __iter__(self) -> Self:
        """Return itself."""
        return self

    def __next__(self) -> T:
        """Return the next item; iteration ends when the asyncio object's does."""
        try:
            return self._thread.run(self._iterating.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None


class BlockingReceiver(BlockingIterator[T]):
    """Something that gets messages."""

    def __init__(self, thread: LoopThread, owner: ReceivingOwner[T]) -> None:
        super().__init__(thread, owner)
        self._receiving = owner

    def receive(self, *, timeout_s: float | None = None) -> T:
        """Return the next message. Raises what `receive` of its twin raises, and TimeoutError."""
        return self._thread.run(self._receiving.receive(), timeout_s, f"no message of {self._receiving.source}")

    def receive_many(self, count_max: int, *, timeout_s: float | None = None) -> list[T]:
        """Wait for a message; return it with those behind it that are here already, `count_max` at most."""
        return self._thread.run(
            self._receiving.receive_many(count_max), timeout_s, f"no message of {self._receiving.source}"
        )
