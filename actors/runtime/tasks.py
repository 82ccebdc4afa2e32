"""Running a coroutine on behalf of an actor, with its outcome as the actor's answer.

A request begins at once, and mostly ends at once. Where it has to wait, it goes on in a turn of the dispatcher, in line
with the actors: asyncio's tasks begin and go on in a callback of the event loop each.
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
_next: Final = next  # to compiled code a C variable; the name would be looked up for every step


def run(runtime: Runtime, request: Coroutine[Any, Any, T]) -> LoopFuture[T]:
    """Carry a coroutine out, now and whenever it can go on; the future carries what it returns or raises.

    It may wait for futures of ours and of asyncio, and for nothing else.
    """
    answer: LoopFuture[T] = LoopFuture()
    _Request(runtime, _answering(request, answer)).go_on()
    return answer


def run_for(cell: ActorCell, asker: Behaviour, request: Coroutine[Any, Any, None]) -> None:
    """Carry a coroutine out for an actor, whose `carried_out` hears when it is done or has failed."""
    _RequestOf(cell, asker, request).go_on()


class _Request(Scheduled):
    """One coroutine on its way. Whatever it waits for holds it, and nobody else."""

    def __init__(self, runtime: Runtime, work: Coroutine[Any, Any, None]) -> None:
        self._clock = runtime.clock
        self._dispatcher = runtime.dispatcher
        self._steps = work.__await__()

    def take_turn(self, started_ns: int) -> int:
        """Go on in the dispatcher's turn, which nothing must end that waits for the answer."""
        try:
            self.go_on()
        except Exception:
            log.exception("a callback of a finished request failed")
        return self._clock.now_ns()

    def go_on(self) -> None:
        """Run until it has to wait, or is done."""
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
            waits_for._asyncio_future_blocking = False  # the word that asyncio's futures wait for
            waits_for.add_done_callback(self._woken)

    def _woken(self, _: Any) -> None:
        self._dispatcher.enqueue(self)

    def _ended(self, error: BaseException | None) -> None:
        """Whoever asked has the outcome by the future. What fails beyond that is whose callback it was."""
        if error is not None:
            raise error


@final
class _RequestOf(_Request):
    """One whose outcome an actor hears, without a future: two for each client that connects and subscribes."""

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
    """Do the work, and give its outcome to whoever asked."""
    try:
        value = await work
    except (Exception, CancelledError) as error:
        answer.set_exception((type(error), error, error.__traceback__))
    else:
        answer.set(value)
