"""Run a coroutine on behalf of an actor, with its result as the actor's answer.

A request starts at once, and mostly completes at once. If it has to wait, it continues in a turn of the dispatcher, in
line with the actors; a task of asyncio would start and continue in a callback of the event loop each.
"""

import logging
from asyncio import CancelledError
from collections.abc import Coroutine
from typing import Any, Final, TypeVar, final

from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.inbox import Scheduled
from sluicegate.actors.runtime.runtime import ActorCell, Behaviour, Runtime

log = logging.getLogger("sluicegate.actors")

T = TypeVar("T")

_DONE: Final = object()
_next: Final = next  # in compiled code a C variable; the name would be looked up for every step


def run(runtime: Runtime, request: Coroutine[Any, Any, T]) -> LoopFuture[T]:
    """Run a coroutine, now and whenever it can continue; the future gets its result or exception.

    It may wait for our futures and asyncio's, and for nothing else.
    """
    answer: LoopFuture[T] = LoopFuture()
    _Request(runtime, _answering(request, answer)).advance()
    return answer


def run_for(cell: ActorCell, asker: Behaviour, request: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine for an actor; its `carried_out` is called when it is done or has failed."""
    _RequestOf(cell, asker, request).advance()


class _Request(Scheduled):
    """One running coroutine. Only the future it waits for refers to it."""

    def __init__(self, runtime: Runtime, work: Coroutine[Any, Any, None]) -> None:
        self._clock = runtime.clock
        self._dispatcher = runtime.dispatcher
        self._steps = work.__await__()

    def take_turn(self, started_ns: int) -> int:
        """Continue in the dispatcher's turn; no failure of a callback may end that."""
        try:
            self.advance()
        except Exception:
            log.exception("a callback of a finished request failed")
        return self._clock.now_ns()

    def advance(self) -> None:
        """Run until the coroutine has to wait, or is done."""
        try:
            # A StopIteration that is caught here costs more than most requests.
            waits_for: Any = _next(self._steps, _DONE)
        except (Exception, CancelledError) as error:
            self._ended(error)
            return
        if waits_for is _DONE:
            self._ended(None)
        elif isinstance(waits_for, LoopFuture):
            waits_for.then(self._woken)
        else:
            waits_for._asyncio_future_blocking = False  # as asyncio's futures require of an awaiting task
            waits_for.add_done_callback(self._woken)

    def _woken(self, _: Any) -> None:
        self._dispatcher.enqueue(self)

    def _ended(self, error: BaseException | None) -> None:
        """The future has the outcome. Any other failure is that of a callback."""
        if error is not None:
            raise error


@final
class _RequestOf(_Request):
    """A request whose outcome goes to an actor, without a future: two for each client that connects and subscribes."""

    def __init__(self, cell: ActorCell, asker: Behaviour, work: Coroutine[Any, Any, None]) -> None:
        super().__init__(cell.runtime, work)
        self._cell = cell
        self._asker = asker

    def _ended(self, error: BaseException | None) -> None:
        try:
            self._asker.carried_out(error)
        except Exception as failure:  # the boundary of supervision, as in a cell's `drain`
            self._cell.failed(failure)


async def _answering(work: Coroutine[Any, Any, Any], answer: LoopFuture[Any]) -> None:
    """Do the work, and set its outcome as the answer."""
    try:
        value = await work
    except (Exception, CancelledError) as error:
        answer.set_exception((type(error), error, error.__traceback__))
    else:
        answer.set(value)
