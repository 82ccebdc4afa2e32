"""Waiting for several answers at once, without a task."""

from collections.abc import Callable
from typing import Any, TypeVar

from sluicegate.actors.runtime.asks import LoopFuture

T = TypeVar("T")


def gather(answers: list[LoopFuture[T]], combine: Callable[[list[T]], None], failed: LoopFuture[Any]) -> None:
    """Call `combine` with all the answers, in order; or give the first exception to `failed`."""
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
        except Exception as error:  # whoever asked gets it
            failed.set_exception((type(error), error, error.__traceback__))
            return
        combine(values)

    for answer in answers:
        answer.then(one_more)
