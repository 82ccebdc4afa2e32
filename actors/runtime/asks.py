"""Futures for the answers to asks, awaitable on the loop."""

import asyncio
import sys
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar, final

import pykka
from pykka._types import OptExcInfo

from sluicegate.actors.runtime.inbox import Inbox
from sluicegate.messaging.message.address import Address

T = TypeVar("T")


@final
class LoopFuture(Generic[T]):
    """A future of an actor on the event loop.

    It has the methods of pykka's futures that envelopes and references call, but does not inherit from them: each
    client request makes several, and a compiled class inherits from compiled classes only. Await it, or attach a
    callback. `get` on the loop's own thread would wait for itself for ever, so before the answer is there it raises
    RuntimeError.
    """

    __slots__ = ("_callbacks", "_done", "_error", "_value")

    def __init__(self) -> None:
        """Begin without an answer."""
        self._done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[LoopFuture[T]], None]] | None = None

    @property
    def done(self) -> bool:
        """Whether the answer is there."""
        return self._done

    def set(self, value: Any = None) -> None:
        """Set the answer. Raises RuntimeError when there is one already."""
        self._finish(value, None)

    def set_exception(self, exc_info: OptExcInfo | None = None) -> None:
        """Set an exception as the answer: the one given, or the one being handled."""
        error = (exc_info or sys.exc_info())[1]
        self._finish(None, error if error is not None else RuntimeError("an ask failed without a reason"))

    def error(self) -> BaseException | None:
        """Return the exception that is the answer; None: a value, or not there yet."""
        return self._error

    def get(self, *, timeout: float | None = None) -> T:
        """Return the answer, which must be there. Raises the actor's exception."""
        if not self._done:
            raise RuntimeError("the answer is not there yet, and waiting on the loop's thread would block it: await it")
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[no-any-return]  # the actor's result, by the message's contract

    def set_get_hook(self, func: Callable[[float | None], T]) -> None:
        """Ignore the hook: pykka's references set one on the answer of a stop, which cannot be waited for here."""

    def then(self, callback: Callable[["LoopFuture[T]"], None]) -> None:
        """Call back with this future when the answer is there; at once if it is."""
        if self._done:
            callback(self)
        elif self._callbacks is None:
            self._callbacks = [callback]
        else:
            self._callbacks.append(callback)

    def pass_on(self, other: "LoopFuture[T]") -> None:
        """Give another future the same answer when it is there."""
        self.then(other._take_over)

    def __await__(self) -> Generator[Any, None, T]:
        if not self._done:
            if asyncio.current_task() is None:  # a request of `actors.runtime.tasks`, which knows futures of this kind
                yield self
            else:
                waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self.then(lambda _: None if waiter.done() else waiter.set_result(None))
                yield from waiter.__await__()
        return self.get()

    def _take_over(self, done: "LoopFuture[T]") -> None:
        self._finish(done._value, done._error)

    def _finish(self, value: Any, error: BaseException | None) -> None:
        if self._done:
            raise RuntimeError("an ask is answered once")
        self._done = True
        self._value = value
        self._error = error
        callbacks = self._callbacks
        if callbacks is not None:
            self._callbacks = None
            for callback in callbacks:
                callback(self)


def gather(answers: list[LoopFuture[T]], combine: Callable[[list[T]], None], failed: LoopFuture[Any]) -> None:
    """Wait for several answers without a task: call `combine` with all of them in order, or `failed` with an exception.

    `failed` gets the first exception.
    """
    left = len(answers)
    if left == 0:
        combine([])
        return

    def one_more(_: LoopFuture[T]) -> None:
        nonlocal left
        left -= 1
        if left > 0:
            return
        try:
            values = [answer.get() for answer in answers]
        except Exception as error:  # the asker gets it
            failed.set_exception((type(error), error, error.__traceback__))
            return
        combine(values)

    for answer in answers:
        answer.then(one_more)


@final
class Ask:
    """A message whose sender waits for the answer. The receiver is known by address only."""

    __slots__ = ("answer", "message")

    def __init__(self, message: object, answer: LoopFuture[Any]) -> None:
        self.message = message
        self.answer = answer


def ask_at(address: Address, message: object) -> LoopFuture[Any]:
    """Ask the actor at an address; fail, and never wait for ever, when it has stopped."""
    assert isinstance(address, Inbox), "the asked actor is on this loop"
    answer: LoopFuture[Any] = LoopFuture()
    if address.closed:
        dead = pykka.ActorDeadError("the asked actor has stopped")
        answer.set_exception((pykka.ActorDeadError, dead, None))
    else:
        address.post(Ask(message, answer))
    return answer


async def ask_unless_gone(address: Address, message: object) -> Any:
    """Ask the actor at an address; None when it has stopped."""
    try:
        return await ask_at(address, message)
    except pykka.ActorDeadError:
        return None


def has_stopped(error: BaseException | None) -> bool:
    """Return whether this answer to an `ask` says that the asked actor has stopped."""
    return isinstance(error, pykka.ActorDeadError)
