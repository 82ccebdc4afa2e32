"""The window of a consumer: how many unsettled messages it may hold, over all the flows that share it.

An MQTT connection has one Receive Maximum for all its flows, so partitions of several queues draw on one window.
The window belongs to the node's loop: partitions take from it when they deliver, the consumer's connection gives
back when its peer settles. Windows draw on a pool in their turn: what all consumers of the node may hold together.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Generic, TypeVar, final

from mypy_extensions import i64

from sluicegate.messaging.message.thresholds import Exceedance, Threshold, no_listener, no_refusal_listener

Waiter = TypeVar("Waiter")

# The line of those that wait for a consumer's credit: in whose order partitions are called is decided here.
#
# Several are called at a time, and the first of them may take everything there is. Who was called and found nothing
# left keeps its place: else the first would be the first each time, as long as it has messages, and others would get
# none.


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


def no_waiter() -> None:
    """There is nobody to be told of room."""


@final
class CreditPool(Generic[Waiter]):
    """What all consumers of a node hold unsettled together. At the maximum nobody gets more, until somebody settles.

    Windows for which partitions wait, and that lack nothing but room here, stand in line.

    Invariants: `used` is the sum of what the open windows use; when there is room and a window is in line, `has_room`
    was called since.
    """

    def __init__(self, limit: i64) -> None:
        self.limit = limit
        self.used: i64 = 0
        self.threshold = Threshold(no_listener)
        self.exceeded = Exceedance(no_refusal_listener)
        self.has_room: Callable[[], None] = no_waiter  # told of what is given back while windows are in line
        self._taken_count: i64 = 0
        self._line: OrderedDict[CreditWindow[Waiter], None] = OrderedDict()

    def available(self) -> i64:
        """Return how many more messages may be delivered now to anybody; never negative."""
        free = self.limit - self.used
        return free if free > 0 else 0

    def take(self, count: i64) -> None:
        """Count messages delivered."""
        self.used += count
        self._taken_count += count
        if self.used >= self.threshold.raise_at:
            self.threshold.cross(self.used)
        if self.used >= self.limit:
            self.exceeded.refused(taken=self._taken_count, limit=self.limit)

    def give(self, count: i64) -> None:
        """Count messages settled, or taken back."""
        self.used -= count
        assert self.used >= 0, "more given back to the pool than taken"
        if self.used < self.threshold.clear_below:
            self.threshold.cross(self.used)
        if self._line and self.used < self.limit:
            self.has_room()

    def has_line(self) -> bool:
        """Return whether windows are in line."""
        return bool(self._line)

    def wait(self, window: "CreditWindow[Waiter]") -> None:
        """Put a window in line: partitions wait for it, and everybody together holds the most there may be."""
        self._line[window] = None

    def leave(self, window: "CreditWindow[Waiter]") -> None:
        """Take a window out of the line, if it stands there."""
        self._line.pop(window, None)

    def next_window(self) -> "CreditWindow[Waiter] | None":
        """Take the window out of the line that has stood there longest; None when nobody does."""
        return self._line.popitem(last=False)[0] if self._line else None

    def __repr__(self) -> str:
        return f"CreditPool({self.used}/{self.limit})"


@final
class CreditWindow(Generic[Waiter]):
    """Credit shared by the flows of one consumer.

    Partitions that find no credit stand in line. When there is credit again, as many are called as it could serve, for
    there may be hundreds behind one consumer; what those leave is for the next. They take turns (`waiting_line`).
    Where only the pool has no room, the window stands in the pool's line in its turn.

    Invariants: `used >= 0`; a waiter stands in the line at most once. `used` may exceed `limit` after a reconnect with
    a smaller window, and nothing more is taken until it has fallen below.
    """

    def __init__(self, limit: i64, pool: CreditPool[Waiter] | None = None) -> None:
        self.limit = limit
        self.pool = pool  # None: nobody counts what all consumers hold together
        self.used: i64 = 0
        self.is_shut = False  # the consumer's socket takes no more for now, whatever its credit
        self.called_count: i64 = 0  # waiters called since the last look, each of whom is left one credit at least
        self._promised_count: i64 = 0  # from the head of the line, who are to be called while there is credit
        self._line: WaitingLine[Waiter] | None = None  # most windows never have one
        self._is_taken_from = False  # since somebody stood in line, or was called

    def available(self) -> i64:
        """Return how many more messages the consumer may be delivered now, as far as it goes; never negative."""
        if self.is_shut:
            return 0
        free = self.limit - self.used
        return free if free > 0 else 0

    def room(self) -> i64:
        """Return how many more messages partitions may deliver now: what is available, and the pool has room for."""
        if self.is_shut:
            return 0
        free = self.limit - self.used
        pool = self.pool
        if pool is not None:
            free = min(free, pool.limit - pool.used)
        return free if free > 0 else 0

    def take(self, count: i64) -> None:
        """Use `count` credits, which the caller has seen to be available."""
        self.used += count
        if count > 0:
            self._is_taken_from = True
        if self.pool is not None:
            self.pool.take(count)

    def give(self, count: i64) -> None:
        """Return `count` credits."""
        self.used -= count
        assert self.used >= 0, "more credit returned than taken"
        if self.pool is not None:
            self.pool.give(count)

    def close(self) -> None:
        """The consumer is gone: what it held is nobody's, or somebody else's."""
        self.limit = 0
        if self.pool is not None:
            self.pool.leave(self)
        self.give(self.used)

    def wait(self, waiter: Waiter) -> None:
        """Put a partition in line: it has messages and found no credit, or has just taken the last."""
        line = self._line
        if line is None:
            line = self._line = WaitingLine()
        line.stand(waiter, has_taken=self._is_taken_from)
        self._is_taken_from = False
        self._wait_for_the_pool()

    def is_waited_for(self) -> bool:
        """Return whether partitions stand in line."""
        return self._line is not None and self._line.count > 0

    def next_waiters(self) -> list[Waiter]:
        """Promise credit to all who stand in line, and return the first of them, longest waiting first.

        None while other consumers stand in the pool's line: the window stands behind them, and comes when they had
        their turns.
        """
        if not self.is_waited_for():
            return []
        if self.pool is not None and self.pool.has_line():
            if self.available() > 0:
                self.pool.wait(self)
            return []
        return self.waiters_for_room()

    def waiters_for_room(self) -> list[Waiter]:
        """Do the same when the window's turn has come in the pool's line."""
        self._promised_count = 0 if self._line is None else self._line.count
        return self._call()

    def further_waiters(self) -> list[Waiter]:
        """Return more of those whom credit was promised: who was called has taken what it could use."""
        self.called_count = 0
        if self._line is not None:
            self._line.end_round()
        return self._call()

    def _call(self) -> list[Waiter]:
        """Let as many leave the line as there is room for, beside those that were called."""
        if self._line is None:
            return []
        count = max(0, min(self._promised_count, self.room() - self.called_count))
        self._promised_count -= count
        self.called_count += count
        self._is_taken_from = False
        waiters = self._line.call(count)
        if self._promised_count > 0:
            self._wait_for_the_pool()
        return waiters

    def _wait_for_the_pool(self) -> None:
        """Stand in the pool's line if nothing else is lacking; what else is lacking, the consumer gives."""
        if self.pool is not None and self.available() > 0 and self.pool.available() == 0:
            self.pool.wait(self)

    def keeps_waiting(self) -> bool:
        """Return whether partitions wait though there is credit: for what one flow may hold of a queue."""
        return self.is_waited_for() and self.available() > 0

    def __repr__(self) -> str:
        return f"CreditWindow({self.used}/{self.limit})"
