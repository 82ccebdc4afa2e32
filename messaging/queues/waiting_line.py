"""The line of those that wait for a consumer's credit: in whose order partitions are called is decided here.

Several are called at a time, and the first of them may take everything there is. Who was called and found nothing left
keeps its place: else the first would be the first each time, as long as it has messages, and others would get none.
"""

from collections import deque
from typing import Generic, TypeVar, final

from mypy_extensions import i64

Waiter = TypeVar("Waiter")


@final
class WaitingLine(Generic[Waiter]):
    """One line. A waiter stands in it at most once.

    Invariants: who stands is in `_line` or in `_returned`, and nobody is in both.
    """

    def __init__(self) -> None:
        self._line: deque[Waiter] = deque()
        self._returned: list[Waiter] = []  # before the others: called, and nothing was left
        self._standing: set[Waiter] = set()
        self._called: set[Waiter] = set()  # and not heard of since

    @property
    def count(self) -> int:
        """How many stand in line."""
        return len(self._standing)

    def stand(self, waiter: Waiter, *, has_taken: bool) -> None:
        """Put a waiter in line if it does not stand there: at its end, or where it was when it has not taken any."""
        if waiter in self._standing:
            return
        self._standing.add(waiter)
        if not has_taken and waiter in self._called:
            self._returned.append(waiter)
        else:
            self._line.append(waiter)
        self._called.discard(waiter)

    def call(self, count: i64) -> list[Waiter]:
        """Let so many leave the line, longest waiting first; return them."""
        if self._returned:
            self._line.extendleft(reversed(self._returned))
            self._returned.clear()
        called = [self._line.popleft() for _ in range(count)]
        self._standing.difference_update(called)
        self._called.update(called)
        return called

    def end_round(self) -> None:
        """Forget who was called and has not come back: it waits no more."""
        self._called.clear()
