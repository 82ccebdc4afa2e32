"""The time of the log, and the clock of an owner whose machine has a wrong one."""

from typing import Final, final

from sluicegate.actors.runtime.clock import Clock, SystemClock

WALL_TRUSTED_MS: Final = 60_000  # a wall clock that differs more from the time of the log is not believed
NEW_MS: Final = 30_000  # a message that was written since the stream was looked at so long ago was written just now


@final
class LogTime:
    """The time of the log, as a replica knows it while it reads.

    A record that is read as soon as it is written says what time it is; one that was written before this replica began
    to read says what time it was. What is behind a place where the stream ended a moment ago is as good as new: under
    load there is always something left to read.
    """

    def __init__(self) -> None:
        self._written_ms = 0  # when the last record was written, by the owner's clock
        self._ahead_ms: int | None = None  # the log's time of a clock that nobody sets; None: nothing was read when new
        self._written_through = -1  # its sequence
        self._end = -1  # a message with which the stream ended; -1: unknown
        self._end_ms = 0  # when it did, by that clock

    def ends_with(self, last: int, now_ms: int) -> None:
        """Take that the stream ends with that message now.

        An end that was not read to yet is kept for a while: who is behind gets to it later than the next one is known.
        """
        is_open = 0 <= self._written_through <= self._end and now_ms - self._end_ms <= NEW_MS
        if not is_open or last == self._end:
            self._end, self._end_ms = last, now_ms

    def read(self, written_ms: int, through: int, now_ms: int) -> None:
        """Take the time of the last message that was read, and its sequence."""
        if written_ms <= self._written_ms:
            return
        self._written_ms, self._written_through = written_ms, through
        if 0 <= self._end < through and now_ms - self._end_ms <= NEW_MS:
            self._ahead_ms = written_ms - now_ms
        elif self._ahead_ms is not None:
            self._ahead_ms = max(self._ahead_ms, written_ms - now_ms)

    def ahead_ms(self, wall_ms: int, now_ms: int) -> int:
        """Return how far a wall clock is ahead of the log's time, below 0 if it is behind; 0 if it is to be believed.

        An owner whose clock is hours ahead would expire what is not due. A clock that is ahead of a log that nobody has
        written for hours may be right.
        """
        if self._ahead_ms is not None:
            ahead = wall_ms - (now_ms + self._ahead_ms)
        else:
            ahead = min(0, wall_ms - self._written_ms)
        return ahead if abs(ahead) > WALL_TRUSTED_MS else 0


@final
class LogClock(Clock):
    """The machine's clock, with a wall time that is put right."""

    def __init__(self, ahead_ms: int) -> None:
        """`ahead_ms`: how far the wall clock is ahead."""
        self._clock: Final = SystemClock()
        self._ahead_ms: Final = ahead_ms

    def now_ms(self) -> int:
        """Return monotonic milliseconds."""
        return self._clock.now_ms()

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch, as the log has them."""
        return self._clock.wall_ms() - self._ahead_ms

    def now_ns(self) -> int:
        """Return monotonic nanoseconds."""
        return self._clock.now_ns()

    def both_ms(self) -> tuple[int, int]:
        """Return the results of `now_ms` and `wall_ms`."""
        now_ms, wall_ms = self._clock.both_ms()
        return now_ms, wall_ms - self._ahead_ms
