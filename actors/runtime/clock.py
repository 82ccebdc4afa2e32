"""The time of a node, injected: only the runtime's clock is ever read."""

from time import monotonic, monotonic_ns, time_ns
from typing import Final, final

from mypy_extensions import i64, mypyc_attr

WALL_CHECK_NS: Final = 100_000_000  # `both_ms` notices a changed wall clock within this time

# In compiled code a Final is a C variable; the names themselves would be looked up in a dict at every call.
_monotonic: Final = monotonic
_monotonic_ns: Final = monotonic_ns
_time_ns: Final = time_ns


@mypyc_attr(allow_interpreted_subclasses=True)  # tests derive clocks
class Clock:
    """The source of time. A class and not a Protocol, so that compiled code calls it directly."""

    def now_ms(self) -> int:
        """Return monotonic milliseconds, for intervals and timers."""
        raise AssertionError("Clock is abstract")

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch, for what is stored or shown."""
        raise AssertionError("Clock is abstract")

    def now_ns(self) -> int:
        """Return monotonic nanoseconds, for measuring work."""
        raise AssertionError("Clock is abstract")

    def both_ms(self) -> tuple[int, int]:
        """Return the results of `now_ms` and `wall_ms`, for work that is done at every read of a socket."""
        return self.now_ms(), self.wall_ms()


@final
class SystemClock(Clock):
    """The machine's clock."""

    def __init__(self) -> None:
        self._wall_ahead_ns: i64 = 0  # of the monotonic clock
        self._measure_again_ns: i64 = 0  # monotonic; when to measure the offset again

    def now_ms(self) -> int:
        """Return monotonic milliseconds."""
        return _monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return _time_ns() // 1_000_000

    def now_ns(self) -> int:
        """Return monotonic nanoseconds."""
        return _monotonic_ns()

    def both_ms(self) -> tuple[int, int]:
        """Return both with one read of a clock; a changed wall clock is followed within `WALL_CHECK_NS`."""
        # In seconds: Python takes 100 instructions less for a float than for so large an integer, and its error is a
        # nanosecond after months.
        now_ns: i64 = int(_monotonic() * 1e9)
        if now_ns >= self._measure_again_ns:
            self._measure_again_ns = now_ns + WALL_CHECK_NS
            self._wall_ahead_ns = _time_ns() - now_ns
        return now_ns // 1_000_000, (now_ns + self._wall_ahead_ns) // 1_000_000
