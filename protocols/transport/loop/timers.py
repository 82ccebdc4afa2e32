"""Timers of one event loop: what the poll has to end for, in place of asyncio's timers for the actors.

A timer of asyncio's is a handle with a copied context, and each call of it a round of asyncio's loop. One of these is
an entry of a heap, and the poll calls it (`protocols.transport.loop.selector`).
"""

import heapq
from collections.abc import Callable
from typing import Final, final

from sluicegate.actors.runtime.clock import Clock

CANCELLED_MAX: Final = 100  # and half of all: then they are removed at once, and not when their time comes

NO_TIMER: Final = -1  # in place of a time


@final
class Timer:
    """A callback at a time."""

    __slots__ = ("_timers", "callback")

    def __init__(self, timers: "Timers", callback: Callable[[], object]) -> None:
        self._timers = timers
        self.callback: Callable[[], object] | None = callback  # None: called, or cancelled

    def cancel(self) -> None:
        """Cancel the timer; harmless after it has been called."""
        if self.callback is not None:
            self.callback = None
            self._timers.one_is_cancelled()


@final
class Timers:
    """The timers that wait, by their time. Those of one time are called in the order in which they were set."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[int, int, Timer]] = []  # with nanoseconds of the clock, and a number
        self._number = 0
        self._cancelled_count = 0  # in the heap

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, delay_s: float, callback: Callable[[], object]) -> Timer:
        """Call back after a delay; without one, in the next poll."""
        timer = Timer(self, callback)
        self._number += 1
        heapq.heappush(self._heap, (self._clock.now_ns() + int(max(0.0, delay_s) * 1e9), self._number, timer))
        return timer

    def next_ns(self) -> int:
        """Return the time of the first timer; NO_TIMER when none waits."""
        while self._heap:
            when_ns, _, timer = self._heap[0]
            if timer.callback is not None:
                return when_ns
            heapq.heappop(self._heap)
            self._cancelled_count -= 1
        return NO_TIMER

    def take(self, now_ns: int) -> Callable[[], object] | None:
        """Return the callback of a timer whose time has come, and remove it; None when there is none."""
        next_ns = self.next_ns()
        if next_ns == NO_TIMER or next_ns > now_ns:
            return None
        timer = heapq.heappop(self._heap)[2]
        callback = timer.callback
        timer.callback = None
        return callback

    def one_is_cancelled(self) -> None:
        """Note that a timer in the heap is cancelled."""
        self._cancelled_count += 1
        if self._cancelled_count > CANCELLED_MAX and 2 * self._cancelled_count > len(self._heap):
            self._heap = [each for each in self._heap if each[2].callback is not None]
            heapq.heapify(self._heap)
            self._cancelled_count = 0

    def clear(self) -> None:
        """Forget all timers."""
        self._heap.clear()
        self._cancelled_count = 0
