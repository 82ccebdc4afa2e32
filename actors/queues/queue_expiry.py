"""When a queue that nobody consumes from is deleted: temporary queues, and durable ones that are told to expire.

The time runs from the queue's creation, or the start of the node, or the end of its last flow, whichever is latest.
"""

from collections.abc import Callable
from typing import Final

from sluicegate.actors.runtime.runtime import Runtime, TimerHandle
from sluicegate.messaging.queues.definition import QueueConfig

TIMER_MS_MAX: Final = 86_400_000  # event loops do not take timers of years: a longer one is set again each day
NEVER: Final = 0


class QueueExpiry:
    """One queue's rule, and how long it has been without a consumer. It outlives restarts of the queue's actor."""

    def __init__(self, runtime: Runtime, *, grace_s: int, only_client: str | None, only_user: str) -> None:
        self.grace_s = grace_s  # unless the queue's own attribute says otherwise; NEVER for durable queues
        self.only_client = only_client  # who may consume from a temporary queue that a client declared; None: anybody
        self.only_user = only_user  # whose client that is: others may have the same name
        self.ended = False  # it is being deleted, and takes no flow any more
        self._runtime = runtime
        self._unbound_since_ms: int | None = runtime.clock.now_ms()
        self._timer: TimerHandle | None = None

    def review(self, config: QueueConfig, *, is_bound: bool, look_again: Callable[[], None]) -> bool:
        """Look anew, after a flow came or went or time has passed; return whether the queue is to be deleted now."""
        self.stop()
        if is_bound:
            self._unbound_since_ms = None
            return False
        now_ms = self._runtime.clock.now_ms()
        if self._unbound_since_ms is None:
            self._unbound_since_ms = now_ms
        period_s = config.expires_unbound_s or self.grace_s
        if period_s == NEVER or self.ended:
            return False
        left_ms = self._unbound_since_ms + period_s * 1000 - now_ms
        if left_ms <= 0:
            self.ended = True
            return True
        self._timer = self._runtime.after(min(left_ms, TIMER_MS_MAX), look_again)
        return False

    def stop(self) -> None:
        """Call off the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
