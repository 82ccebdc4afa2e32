"""The window of a consumer: how many unsettled messages it may hold, over all the flows that share it.

An MQTT connection has one Receive Maximum for all its flows, so partitions of several queues draw on one window.
The window belongs to the node's loop: partitions take from it when they deliver, the consumer's connection gives
back when its peer settles. Windows draw on a pool in their turn: what all consumers of the node may hold together.
"""

from collections import OrderedDict
from typing import Generic, TypeVar, final

from messaging.thresholds import Exceedance, Threshold, nobody_hears, nobody_minds

Waiter = TypeVar("Waiter")


@final
class CreditPool(Generic[Waiter]):
    """What all consumers of a node hold unsettled together. At the maximum nobody gets more, until somebody settles.

    Invariant: `used` is the sum of what the open windows use.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.threshold = Threshold(nobody_hears)
        self.exceeded = Exceedance(nobody_minds)
        self._taken_count = 0
        self._line: dict[Waiter, None] = {}

    def available(self) -> int:
        """Return how many more messages may be delivered now to anybody; never negative."""
        free = self.limit - self.used
        return free if free > 0 else 0

    def take(self, count: int) -> None:
        """Count messages delivered."""
        self.used += count
        self._taken_count += count
        if self.used >= self.threshold.raise_at:
            self.threshold.cross(self.used)
        if self.used >= self.limit:
            self.exceeded.refused(taken=self._taken_count, limit=self.limit)

    def give(self, count: int) -> None:
        """Count messages settled, or taken back."""
        self.used -= count
        assert self.used >= 0, "more given back to the pool than taken"
        if self.used < self.threshold.clear_below:
            self.threshold.cross(self.used)

    def wait(self, waiter: Waiter) -> None:
        """Put a partition in line: it has messages, and everybody together holds the most there may be."""
        self._line[waiter] = None

    def next_waiters(self) -> list[Waiter]:
        """Empty the line, when there is room, and return who stood in it, longest waiting first."""
        if not self._line or self.used >= self.limit:
            return []
        waiters = list(self._line)
        self._line.clear()
        return waiters

    def __repr__(self) -> str:
        return f"CreditPool({self.used}/{self.limit})"


@final
class CreditWindow(Generic[Waiter]):
    """Credit shared by the flows of one consumer.

    Partitions that find no credit stand in line. When there is credit again, as many are called as it could serve, for
    there may be hundreds behind one consumer; what those leave is for the next, and who comes back stands at the end.

    Invariants: `used >= 0`; a waiter stands in the line at most once. `used` may exceed `limit` after a reconnect with
    a smaller window, and nothing more is taken until it has fallen below.
    """

    def __init__(self, limit: int, pool: CreditPool[Waiter] | None = None) -> None:
        self.limit = limit
        self.pool = pool  # None: nobody counts what all consumers hold together
        self.used = 0
        self.is_shut = False  # the consumer's socket takes no more for now, whatever its credit
        self.called_count = 0  # waiters called since the last look, each of whom is left one credit at least
        self._promised_count = 0  # from the head of the line, who are to be called while there is credit
        self._line: OrderedDict[Waiter, None] | None = None  # most windows never have one

    def available(self) -> int:
        """Return how many more messages may be delivered now; never negative."""
        if self.is_shut:
            return 0
        free = self.limit - self.used
        return free if free > 0 else 0

    def take(self, count: int) -> None:
        """Use `count` credits, which the caller has seen to be available."""
        self.used += count
        if self.pool is not None:
            self.pool.take(count)

    def give(self, count: int) -> None:
        """Return `count` credits."""
        self.used -= count
        assert self.used >= 0, "more credit returned than taken"
        if self.pool is not None:
            self.pool.give(count)

    def close(self) -> None:
        """The consumer is gone: what it held is nobody's, or somebody else's."""
        self.give(self.used)
        self.limit = 0

    def wait(self, waiter: Waiter) -> None:
        """Put a partition in line: it has messages and found no credit."""
        if self._line is None:
            self._line = OrderedDict()
        self._line[waiter] = None
        if self.pool is not None and self.pool.used >= self.pool.limit:
            self.pool.wait(waiter)

    def next_waiters(self) -> list[Waiter]:
        """Promise credit to all who stand in line, and return the first of them, longest waiting first.

        When the pool has room, who stands in its line comes before them.
        """
        waiters = [] if self.pool is None else self.pool.next_waiters()
        if self._line:
            self._promised_count = len(self._line)
            self._call(waiters)
        return waiters

    def further_waiters(self) -> list[Waiter]:
        """Return more of those whom credit was promised: who was called has taken what it could use."""
        waiters: list[Waiter] = []
        self.called_count = 0
        self._call(waiters)
        return waiters

    def _call(self, waiters: list[Waiter]) -> None:
        """Let as many leave the line as there is credit for, beside those that were called."""
        line = self._line
        if line is None:
            return
        count = max(0, min(self._promised_count, self.available() - self.called_count))
        self._promised_count -= count
        self.called_count += count
        for _ in range(count):
            waiter, _ = line.popitem(last=False)
            waiters.append(waiter)

    def keeps_waiting(self) -> bool:
        """Return whether partitions wait though there is credit: for what one flow may hold of a queue."""
        return bool(self._line) and self.available() > 0

    def __repr__(self) -> str:
        return f"CreditWindow({self.used}/{self.limit})"
