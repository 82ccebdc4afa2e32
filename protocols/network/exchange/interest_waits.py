"""Who waits until a neighbor knows what this broker wants: clients that have subscribed, and queues with new topics.

A neighbor acknowledges a change when it is in force there. It is waited for while it is connected, and for a limited
time: then the subscriber is answered all the same.
"""

from collections import deque
from typing import Final, final

from sluicegate.actors.runtime.runtime import ActorCell, TimerHandle
from sluicegate.messaging.network.link import InterestWaiter


@final
class _Wait:
    """One waiter."""

    __slots__ = ("deadline_ms", "number", "waiter")

    def __init__(self, waiter: InterestWaiter, deadline_ms: int) -> None:
        self.waiter = waiter
        self.number = 0  # of the notice that has the last of what the neighbor has to know; 0: it is not sent yet
        self.deadline_ms = deadline_ms


@final
class InterestWaits:
    """The waiters of one message VPN of a link, in the order in which they came. Each waits equally long."""

    def __init__(self, cell: ActorCell, wait_ms: int) -> None:
        """`wait_ms` is how long each waits at most; 0: nobody waits."""
        self.timeouts_count = 0  # waiters for which the neighbor took too long
        self._cell: Final = cell
        self._wait_ms: Final = wait_ms
        self._waits: deque[_Wait] = deque()
        self._timer: TimerHandle | None = None

    def add(self, waiter: InterestWaiter) -> bool:
        """Let somebody wait until the neighbor knows what it is to be told until now; return whether it waits."""
        if not self._wait_ms:
            return False
        self._waits.append(_Wait(waiter, self._cell.runtime.clock.now_ms() + self._wait_ms))
        if self._timer is None:
            self._timer = self._cell.after(self._wait_ms, self._time_is_over)
        return True

    def sent(self, number: int) -> None:
        """Everything is sent; the last notice has this number."""
        for wait in reversed(self._waits):
            if wait.number:
                break
            wait.number = number

    def acknowledged(self, number: int) -> None:
        """The neighbor has everything up to this number."""
        while self._waits and 0 < self._waits[0].number <= number:
            self._waits.popleft().waiter.interest_known()
        if not self._waits:
            self._end_timer()

    def end(self) -> None:
        """Wait no more: the neighbor is away."""
        self._end_timer()
        waits, self._waits = self._waits, deque()
        for wait in waits:
            wait.waiter.interest_known()

    def _time_is_over(self) -> None:
        self._timer = None
        now_ms = self._cell.runtime.clock.now_ms()
        while self._waits and self._waits[0].deadline_ms <= now_ms:
            self.timeouts_count += 1
            self._waits.popleft().waiter.interest_known()
        if self._waits:
            self._timer = self._cell.after(self._waits[0].deadline_ms - now_ms, self._time_is_over)

    def _end_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
