"""Running a coroutine on behalf of an actor, with its outcome as the actor's answer.

A request begins at once, and mostly ends at once. Where it has to wait, it goes on in a turn of the dispatcher, in line
with the actors: asyncio's tasks begin and go on in a callback of the event loop each.
"""

import logging
from asyncio import CancelledError
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, TypeVar, final

from actors.cell import ActorCell
from actors.futures import LoopFuture
from actors.inbox import Scheduled
from actors.runtime import Runtime

log = logging.getLogger("sluicegate.actors")

T = TypeVar("T")

_DONE: Final = object()


def run(runtime: Runtime, request: Coroutine[Any, Any, T]) -> LoopFuture[T]:
    """Carry a coroutine out, now and whenever it can go on; the future carries what it returns or raises.

    It may wait for futures of ours and of asyncio, and for nothing else.
    """
    answer: LoopFuture[T] = LoopFuture()
    _Request(runtime, request, answer).go_on()
    return answer


def run_for(cell: ActorCell, request: Coroutine[Any, Any, T], ended: Callable[[LoopFuture[T]], None]) -> None:
    """Carry a coroutine out for an actor; what `ended` does with its outcome is supervised as the rest of its work."""
    outcome = run(cell.runtime, request)
    if outcome.done:  # as it mostly is: nothing has to be remembered of who is told
        cell.do(partial(ended, outcome))
    else:
        _tell_later(cell, ended, outcome)


def _tell_later(cell: ActorCell, ended: Callable[[LoopFuture[T]], None], outcome: LoopFuture[T]) -> None:
    outcome.then(lambda done: cell.do(partial(ended, done)))


@final
class _Request(Scheduled):
    """One coroutine on its way. Whatever it waits for holds it, and nobody else."""

    def __init__(self, runtime: Runtime, work: Coroutine[Any, Any, Any], answer: LoopFuture[Any]) -> None:
        self._clock = runtime.clock
        self._dispatcher = runtime.dispatcher
        self._steps = _answering(work, answer).__await__()

    def drain(self, started_ns: int) -> int:
        """Go on in the dispatcher's turn, which nothing must end that waits for the answer."""
        try:
            self.go_on()
        except Exception:
            log.exception("what waited for a request failed")
        return self._clock.now_ns()

    def go_on(self) -> None:
        """Run until it has to wait, or is done."""
        waits_for: Any = next(self._steps, _DONE)  # a StopIteration that is caught here costs more than most requests
        if isinstance(waits_for, LoopFuture):
            waits_for.then(self._woken)
        elif waits_for is not _DONE:
            waits_for._asyncio_future_blocking = False  # the word that asyncio's futures wait for
            waits_for.add_done_callback(self._woken)

    def _woken(self, _: Any) -> None:
        self._dispatcher.enqueue(self)


async def _answering(work: Coroutine[Any, Any, Any], answer: LoopFuture[Any]) -> None:
    """Do the work, and give its outcome to whoever asked."""
    try:
        value = await work
    except (Exception, CancelledError) as error:
        answer.set_exception((type(error), error, error.__traceback__))
    else:
        answer.set(value)
