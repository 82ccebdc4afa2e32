"""Time for the whole node, injected: the runtime's clock is the only one that anybody reads."""

from time import monotonic_ns, time_ns
from typing import final

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)  # tests bring clocks of their own
class Clock:
    """What time is it. A class and no protocol, so that compiled code calls it directly."""

    def now_ms(self) -> int:
        """Return monotonic milliseconds, for intervals and timers."""
        raise AssertionError("a clock tells the time")

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch, for what is stored or shown."""
        raise AssertionError("a clock tells the time")

    def now_ns(self) -> int:
        """Return monotonic nanoseconds, for measuring work."""
        raise AssertionError("a clock tells the time")


@final
class SystemClock(Clock):
    """The machine's clock."""

    def now_ms(self) -> int:
        """Return monotonic milliseconds."""
        return monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return time_ns() // 1_000_000

    def now_ns(self) -> int:
        """Return monotonic nanoseconds."""
        return monotonic_ns()
