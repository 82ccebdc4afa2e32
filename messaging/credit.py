"""The window of a consumer: how many unsettled messages it may hold, over all the flows that share it.

An MQTT connection has one Receive Maximum for all its flows, so partitions of several queues draw on one window.
The window belongs to the node's loop: partitions take from it when they deliver, the consumer's connection gives
back when its peer settles.
"""

from typing import Generic, TypeVar, final

Waiter = TypeVar("Waiter")


@final
class CreditWindow(Generic[Waiter]):
    """Credit shared by the flows of one consumer.

    Invariants: `used >= 0`; a waiter stands in the line at most once. `used` may exceed `limit` after a reconnect with
    a smaller window, and nothing more is taken until it has fallen below.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.is_shut = False  # the consumer's socket takes no more for now, whatever its credit
        self._line: dict[Waiter, None] = {}

    def available(self) -> int:
        """Return how many more messages may be delivered now; never negative."""
        if self.is_shut:
            return 0
        free = self.limit - self.used
        return free if free > 0 else 0

    def take(self, count: int) -> None:
        """Use `count` credits, which the caller has seen to be available."""
        self.used += count

    def give(self, count: int) -> None:
        """Return `count` credits."""
        self.used -= count
        assert self.used >= 0, "more credit returned than taken"

    def wait(self, waiter: Waiter) -> None:
        """Put a partition in line: it has messages and found no credit."""
        self._line[waiter] = None

    def next_waiters(self) -> list[Waiter]:
        """Empty the line and return who stood in it, longest waiting first."""
        if not self._line:
            return []
        waiters = list(self._line)
        self._line.clear()
        return waiters

    def __repr__(self) -> str:
        return f"CreditWindow({self.used}/{self.limit})"
