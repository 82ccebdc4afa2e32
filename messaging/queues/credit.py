"""The credit window of a consumer: the unsettled messages it may hold, over all the flows that share it.

An MQTT connection has one Receive Maximum for all its flows, so partitions of several queues draw on one window. The
window belongs to the node's loop: partitions take from it when they deliver, and the consumer's connection gives back
when its peer settles. Windows in turn draw on a pool: the limit of all consumers of the node together.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Generic, TypeVar, final

from mypy_extensions import i64

from sluicegate.messaging.message.thresholds import Exceedance, Threshold, no_listener, no_refusal_listener

Waiter = TypeVar("Waiter")


@final
class WaitingLine(Generic[Waiter]):
    """The waiters for a consumer's credit, in the order in which they are called. A waiter is in it at most once.

    Several waiters are called at a time, and the first of them may take all there is. A waiter that was called and
    found nothing left keeps its place: otherwise the first would be first each time, as long as it has messages, and
    others would get none.

    Invariants: every waiter is in `_line` or in `_returned`, and none is in both.
    """

    def __init__(self) -> None:
        self._line: deque[Waiter] = deque()
        self._returned: list[Waiter] = []  # ahead of the others: they were called, and found nothing left
        self._standing: set[Waiter] = set()
        self._called: set[Waiter] = set()  # called in this round and not back yet

    @property
    def count(self) -> int:
        """The number of waiters in line."""
        return len(self._standing)

    def stand(self, waiter: Waiter, *, has_taken: bool) -> None:
        """Put a waiter in line if it is not there: at the end, or at its earlier place when it has not taken any."""
        if waiter in self._standing:
            return
        self._standing.add(waiter)
        if not has_taken and waiter in self._called:
            self._returned.append(waiter)
        else:
            self._line.append(waiter)
        self._called.discard(waiter)

    def call(self, count: i64) -> list[Waiter]:
        """Remove so many waiters from the line, longest waiting first; return them."""
        if self._returned:
            self._line.extendleft(reversed(self._returned))
            self._returned.clear()
        called = [self._line.popleft() for _ in range(count)]
        self._standing.difference_update(called)
        self._called.update(called)
        return called

    def end_round(self) -> None:
        """Forget the called waiters that have not returned: they wait no longer."""
        self._called.clear()


def no_waiter() -> None:
    """Do nothing: the default listener for room."""


@final
class CreditPool(Generic[Waiter]):
    """The unsettled messages of all consumers of a node. At the maximum no consumer gets more, until one settles.

    Windows that partitions wait for, and that lack only room in the pool, stand in line.

    Invariants: `used` is the sum of what the open windows use; when there is room and a window is in line, `has_room`
    was called since.
    """

    def __init__(self, limit: i64) -> None:
        self.limit = limit
        self.used: i64 = 0
        self.threshold = Threshold(no_listener)
        self.exceeded = Exceedance(no_refusal_listener)
        self.has_room: Callable[[], None] = no_waiter  # called when credit is returned while windows are in line
        self._taken_count: i64 = 0
        self._line: OrderedDict[CreditWindow[Waiter], None] = OrderedDict()

    def available(self) -> i64:
        """Return how many more messages may be delivered now to all consumers; never negative."""
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
        """Put a window in line: partitions wait for it, and the pool is at its maximum."""
        self._line[window] = None

    def leave(self, window: "CreditWindow[Waiter]") -> None:
        """Remove a window from the line, if it is there."""
        self._line.pop(window, None)

    def next_window(self) -> "CreditWindow[Waiter] | None":
        """Remove and return the window that is longest in line; None when there is none."""
        return self._line.popitem(last=False)[0] if self._line else None

    def __repr__(self) -> str:
        return f"CreditPool({self.used}/{self.limit})"


@final
class CreditWindow(Generic[Waiter]):
    """Credit shared by the flows of one consumer.

    Partitions that find no credit stand in line. When there is credit again, as many are called as it could serve, for
    there may be hundreds behind one consumer; what they leave is for the next. They take turns (`WaitingLine`). Where
    only the pool has no room, the window stands in the pool's line.

    Credit may be lent to another broker, which then delivers so many messages. The pool counts them when they are here.

    Invariants: `used >= lent >= 0`; a waiter stands in the line at most once. `used` may exceed `limit` after a
    reconnect with a smaller window, and nothing more is taken until it has fallen below.
    """

    def __init__(self, limit: i64, pool: CreditPool[Waiter] | None = None) -> None:
        self.limit = limit
        self.pool = pool  # None: no limit over all consumers
        self.used: i64 = 0
        self.lent: i64 = 0  # of `used`: messages that other brokers may deliver
        self.is_shut = False  # the consumer's socket takes no more for now, whatever its credit
        self.settles_in_ms: i64 = 0  # what the consumer mostly needs for it; 0: less than a commit interval
        self.called_count: i64 = 0  # waiters called since the last check; each is left at least one credit
        self._promised_count: i64 = 0  # from the head of the line: waiters to be called while there is credit
        self.lenders: list[Callable[[], None]] | None = None  # called when a waiter stands in line; None: none lends
        self._line: WaitingLine[Waiter] | None = None  # most windows never have one
        self._is_taken_from = False  # since a waiter stood in line, or was called

    def available(self) -> i64:
        """Return how many more messages the consumer may be sent now, by its own window; never negative."""
        if self.is_shut:
            return 0
        free = self.limit - self.used
        return free if free > 0 else 0

    def room(self) -> i64:
        """Return how many more messages partitions may deliver now: what is available and fits in the pool."""
        if self.is_shut:
            return 0
        free = self.limit - self.used
        pool = self.pool
        if pool is not None:
            free = min(free, pool.limit - pool.used)
        return free if free > 0 else 0

    def take(self, count: i64) -> None:
        """Use `count` credits, which the caller has checked to be available."""
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

    def lend(self, count: i64) -> None:
        """Use `count` credits, which the caller has checked to be available, for messages of another broker."""
        self.used += count
        self.lent += count
        if count > 0:
            self._is_taken_from = True

    def unlend(self, count: i64) -> None:
        """Return `count` credits that were lent; a closed window has lent none."""
        count = min(count, self.lent)
        self.lent -= count
        self.used -= count

    def arrive(self, count: i64) -> None:
        """Count `count` messages for which credit was lent as delivered."""
        count = min(count, self.lent)
        self.lent -= count
        if self.pool is not None:
            self.pool.take(count)

    def excess(self, count: i64) -> i64:
        """Return how many of so many messages, which come for lent credit, are too many now.

        The consumer may have recalled credit, or the pool may have no room, since it was lent.
        """
        found = self.used - self.limit
        if self.pool is not None:
            found = max(found, count - self.pool.available())
        return min(count, found) if found > 0 else 0

    def close(self) -> None:
        """Close the window of a consumer that is gone: its messages count for other consumers, or for none."""
        self.limit = 0
        if self.pool is not None:
            self.pool.leave(self)
        self.unlend(self.lent)
        self.give(self.used)

    def wait(self, waiter: Waiter) -> None:
        """Put a partition in line: it has messages and found no credit, or has just taken the last."""
        line = self._line
        if line is None:
            line = self._line = WaitingLine()
        line.stand(waiter, has_taken=self._is_taken_from)
        self._is_taken_from = False
        self._wait_for_the_pool()
        if self.lenders is not None:
            for is_waited_for in self.lenders:
                is_waited_for()

    @property
    def waiters_count(self) -> int:
        """The number of partitions that stand in line."""
        return 0 if self._line is None else self._line.count

    def is_waited_for(self) -> bool:
        """Return whether partitions stand in line."""
        return self._line is not None and self._line.count > 0

    def next_waiters(self) -> list[Waiter]:
        """Promise credit to all waiters in line, and return the first of them, longest waiting first.

        Return none while other consumers stand in the pool's line: the window goes behind them, and comes after their
        turns.
        """
        if not self.is_waited_for():
            return []
        if self.pool is not None and self.pool.has_line():
            if self.available() > 0:
                self.pool.wait(self)
            return []
        return self.waiters_for_room()

    def waiters_for_room(self) -> list[Waiter]:
        """Return the waiters to call when the window's turn has come in the pool's line."""
        self._promised_count = 0 if self._line is None else self._line.count
        return self._call()

    def further_waiters(self) -> list[Waiter]:
        """Return more of the waiters that were promised credit: those called have taken what they could use."""
        self.called_count = 0
        if self._line is not None:
            self._line.end_round()
        return self._call()

    def _call(self) -> list[Waiter]:
        """Remove as many waiters from the line as there is room for, beside those already called."""
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
        """Stand in the pool's line if only room in the pool is lacking; the consumer itself returns other credit."""
        if self.pool is not None and self.available() > 0 and self.pool.available() == 0:
            self.pool.wait(self)

    def keeps_waiting(self) -> bool:
        """Return whether partitions wait although there is credit, because of the limit of one flow."""
        return self.is_waited_for() and self.available() > 0

    def __repr__(self) -> str:
        return f"CreditWindow({self.used}/{self.limit})"
