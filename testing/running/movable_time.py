"""The clock of a broker under test, which can be put forward, and timers that follow it."""

from collections.abc import Callable
from datetime import datetime
from typing import final

from sluicegate.actors.runtime.clock import Clock, SystemClock
from sluicegate.actors.runtime.runtime import CallLater, TimerHandle


class MovableClock(Clock):
    """The machine's clock, which a test can put forward and set."""

    def __init__(self, ahead_ms: int = 0) -> None:
        """`ahead_ms`: by so much it is put forward already."""
        self._machine = SystemClock()
        self.ahead_ms = ahead_ms
        self._wall_ahead_ms = 0

    def forward(self, seconds: float) -> None:
        """Put it forward. Timers do not follow by themselves: see MovableTimers."""
        self.ahead_ms += int(seconds * 1000)

    def set_wall(self, moment: datetime) -> None:
        """Let it be this moment on the wall; what has run stays as it is."""
        self._wall_ahead_ms = int(moment.timestamp() * 1000) - self._machine.wall_ms()

    def now_ms(self) -> int:
        """Return monotonic milliseconds."""
        return self._machine.now_ms() + self.ahead_ms

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return self._machine.wall_ms() + self._wall_ahead_ms + self.ahead_ms

    def now_ns(self) -> int:
        """Return the machine's monotonic nanoseconds: work does not take longer when the clock is put forward."""
        return self._machine.now_ns()


@final
class MovableTimer:
    """A callback at a time of the clock."""

    def __init__(self, timers: "MovableTimers", due_ms: float, callback: Callable[[], object]) -> None:
        self.due_ms = due_ms
        self.handle: TimerHandle | None = None  # of the event loop
        self._timers = timers
        self._callback = callback

    def cancel(self) -> None:
        """Cancel the timer; harmless after it has been called."""
        self._timers.waiting.pop(self, None)
        if self.handle is not None:
            self.handle.cancel()

    def end(self) -> None:
        """Call back."""
        self._timers.waiting.pop(self, None)
        self._callback()


@final
class MovableTimers:
    """The timers of a broker's actors. When the clock is put forward, those whose time has come end at once.

    A timer that was due in between ends once, with the clock where it was put: as in a machine that has slept.
    """

    def __init__(self, clock: MovableClock, call_later: CallLater) -> None:
        """`call_later` sets a timer of the event loop, in real time."""
        self._clock = clock
        self._call_later = call_later
        self.waiting: dict[MovableTimer, None] = {}

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> MovableTimer:
        """Call back after a delay of the clock."""
        timer = MovableTimer(self, self._clock.now_ms() + delay_s * 1000, callback)
        self.waiting[timer] = None
        timer.handle = self._call_later(delay_s, timer.end)
        return timer

    def follow(self) -> None:
        """Set all timers again, after the clock was put forward: by their time, and those due now first."""
        now_ms = self._clock.now_ms()
        for timer in sorted(self.waiting, key=lambda each: each.due_ms):
            if timer.handle is not None:
                timer.handle.cancel()
            timer.handle = self._call_later(max(0.0, (timer.due_ms - now_ms) / 1000), timer.end)
