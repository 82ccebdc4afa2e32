"""Running a coroutine on behalf of an actor, with its outcome as the actor's answer."""

from collections.abc import Coroutine
from typing import Any, TypeVar

from actors.futures import LoopFuture
from actors.runtime import Runtime

T = TypeVar("T")


def run(runtime: Runtime, request: Coroutine[Any, Any, T]) -> LoopFuture[T]:
    """Start a coroutine on the runtime's loop; the future carries what it returns or raises."""
    answer: LoopFuture[T] = LoopFuture()

    async def carry_out() -> None:
        try:
            answer.set(await request)
        except Exception as error:  # whoever asked gets it
            answer.set_exception((type(error), error, error.__traceback__))

    runtime.keep(runtime.loop.create_task(carry_out()))
    return answer
