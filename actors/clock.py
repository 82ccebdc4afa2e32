"""Time for the whole node, injected: the runtime's clock is the only one that anybody reads."""

import time
from typing import Protocol


class Clock(Protocol):
    """What time is it."""

    def now_ms(self) -> int:
        """Return monotonic milliseconds, for intervals and timers."""

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch, for what is stored or shown."""

    def now_ns(self) -> int:
        """Return monotonic nanoseconds, for measuring work."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Return monotonic milliseconds."""
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def now_ns(self) -> int:
        """Return monotonic nanoseconds."""
        return time.monotonic_ns()
