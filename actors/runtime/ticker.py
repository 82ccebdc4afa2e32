"""What checks the time limits of connections every so often, and notices that the event loop stood still meanwhile.

A process that was stopped, or a loop that was busy for seconds, has heard nobody in that time: what peers sent lies
unread in their sockets. A limit that counted it would end connections whose peers did all they should. So a tick that
comes late says by how much, and its owner gives that time back to the limits.
"""

from collections.abc import Callable
from typing import Final, final

from sluicegate.actors.runtime.runtime import TimerHandle

STALL_MS_MIN: Final = 250  # a tick that is less late than this is in time: limits are seconds


@final
class Stalls:
    """How long its owner, who is to look at the clock every so often, stood still. No clock: times are given.

    Ticks of the loop use it, and threads with a loop of their own, which have no timers of ours.
    """

    def __init__(self, interval_ms: int) -> None:
        self._interval_ns = interval_ms * 1_000_000
        self._due_ns = 0  # when the owner is to look next

    def begin(self, now_ns: int) -> None:
        """Look for the first time."""
        self._due_ns = now_ns + self._interval_ns

    def look(self, now_ns: int) -> int:
        """Look; return the milliseconds for which the owner stood still since the last time."""
        late_ms = (now_ns - self._due_ns) // 1_000_000
        self._due_ns = now_ns + self._interval_ns
        return late_ms if late_ms >= STALL_MS_MIN else 0


@final
class Ticker:
    """Calls back every so often, with the milliseconds for which the loop has stood still since the last time."""

    def __init__(
        self,
        now_ns: Callable[[], int],
        after: Callable[[int, Callable[[], object]], TimerHandle],
        interval_ms: int,
        callback: Callable[[int], None],
    ) -> None:
        """`after` calls back after so many milliseconds of the clock that `now_ns` reads."""
        self._now_ns = now_ns
        self._after = after
        self._interval_ms = interval_ms
        self._callback = callback
        self._timer: TimerHandle | None = None
        self._stalls = Stalls(interval_ms)

    def start(self) -> None:
        """Call back from now on, the first time after one interval. Harmless while it does."""
        if self._timer is None:
            self._stalls.begin(self._now_ns())
            self._set()

    def stop(self) -> None:
        """Call back no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self) -> None:
        self._timer = self._after(self._interval_ms, self._tick)

    def _tick(self) -> None:
        late_ms = self._stalls.look(self._now_ns())
        self._set()  # first: a tick that fails is not the last
        self._callback(late_ms)
