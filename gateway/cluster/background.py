"""Work of a replica that goes on beside everything else until the replica ends.

A task that ends with an error nobody waits for would be missed only when it is needed: a lease that nobody watches, a
log that nobody trims. So whoever begins one has the replica told how it ended.
"""

from asyncio import CancelledError
from asyncio import Future as LoopFuture
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

TaskEnded = Callable[[str, BaseException], None]  # is told the name of a task and its error, on any thread


def watched(name: str, task: Future[Any] | LoopFuture[Any], ended: TaskEnded) -> None:
    """Have a replica told when a task has ended by an error.

    A task of another thread that was cancelled counts as well: only the end of a replica cancels these, and what is
    told then is passed over. A task of the own loop may be cancelled by whoever has begun it.
    """

    def look(done: Future[Any] | LoopFuture[Any]) -> None:
        if done.cancelled():
            if isinstance(done, Future):
                ended(name, CancelledError())
        elif (error := done.exception()) is not None:
            ended(name, error)

    task.add_done_callback(look)
