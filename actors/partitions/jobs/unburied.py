"""Dead messages of a partition whose way to the dead message queue fails over a fault of the gateway, again and again.

Nothing of theirs is lost: they are on their way in the partition's books, and their queue has them. Tried and told each
second, a single one of them would fill the log. A store that fails for a while is no such fault.
"""

import logging
from typing import Final, final

from sluicegate.actors.runtime.clock import Clock
from sluicegate.actors.runtime.events import Events
from sluicegate.messaging.message.ranges import RangeSet
from sluicegate.messaging.observability.events import VPN_DEAD_MSG_STUCK, VPN_DEAD_MSG_STUCK_CLEAR

AGAIN_MS_MIN: Final = 1000  # until the next attempt
AGAIN_MS_MAX: Final = 60_000

log = logging.getLogger("sluicegate.queues")


@final
class Unburied:
    """Those of one partition, by their sequences. Operators hear when there are some, and when there are none left."""

    def __init__(self, clock: Clock, events: Events, queue_name: str, number: int) -> None:
        self._clock = clock
        self._events = events
        self._where = f"queue {queue_name!r}, partition {number}"
        self._stuck = RangeSet()
        self._since_ms = 0  # when the first of them failed for the first time

    def failed(self, ranges: list[tuple[int, int]], error: Exception) -> int:
        """Note that a move of these has failed; return in how many ms to try again: as long as it has failed by now."""
        now_ms = self._clock.now_ms()
        if self._stuck.total == 0:
            self._since_ms = now_ms
            self._events.emit(VPN_DEAD_MSG_STUCK, f"{self._where}: dead messages cannot be moved: {error!r}")
        again_ms = min(max(now_ms - self._since_ms, AGAIN_MS_MIN), AGAIN_MS_MAX)
        is_new = False
        for first, end in ranges:
            is_new = self._stuck.count_within(first, end) < end - first or is_new
            self._stuck.add(first, end)
        if is_new:
            log.error("%s: dead messages cannot be moved: %r", self._where, error, exc_info=error)
        else:
            log.error("%s: dead messages still cannot be moved: %r; again in %d ms", self._where, error, again_ms)
        return again_ms

    def over(self, first: int, end: int) -> None:
        """Note that messages are on their way no more, or fail over something else."""
        if self._stuck.total > 0 and self._stuck.count_within(first, end) > 0:
            self._stuck.discard(first, end)
            if self._stuck.total == 0:
                self._events.emit(VPN_DEAD_MSG_STUCK_CLEAR, f"{self._where}: no dead message is held up any more")

    def all_over(self) -> None:
        """Note that none is on its way any more."""
        for first, end in self._stuck.ranges():
            self.over(first, end)
