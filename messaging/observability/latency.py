"""Histograms of latencies, as Prometheus reads them.

They cost one search per batch or commit, and no object per message.
"""

from bisect import bisect_left
from typing import Final, final

from mypy_extensions import i64

# Upper bounds of the buckets, in milliseconds; a last bucket has what took longer. From what a commit takes to what a
# message may wait in a queue.
BOUNDS_MS: Final = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 60_000, 600_000, 3_600_000)

# Upper bounds of the buckets for the time of a commit, in microseconds: from a disk whose cache is safe from a power
# failure to one that does not answer.
COMMIT_BOUNDS_US: Final = (
    *(50, 100, 250, 500),
    *(1000, 2500, 5000),
    *(10_000, 25_000, 50_000),
    *(100_000, 250_000, 500_000),
    *(1_000_000, 2_500_000, 5_000_000, 10_000_000),
)

FIRST_BOUND_MS: Final = BOUNDS_MS[0]


@final
class LatencyHistogram:
    """Counts of messages by latency. Times are whole milliseconds of the wall clock, rounded down."""

    def __init__(self) -> None:
        self.sum_ms: i64 = 0
        self._first_count: i64 = 0  # of the first bucket: most messages, and they make no object for it
        self._counts: list[int] = [0] * (len(BOUNDS_MS) + 1)  # by bucket, not cumulative, without the first

    def counts(self) -> tuple[int, ...]:
        """Return the counts by bucket, not cumulative."""
        return (int(self._first_count), *self._counts[1:])

    def observe(self, begin_ms: i64, end_ms: i64, count: i64) -> None:
        """Count messages that took from one time to another; a wall clock that was set back counts as no time."""
        took_ms = end_ms - begin_ms if end_ms > begin_ms else 0
        if took_ms <= FIRST_BOUND_MS:
            self._first_count += count
        else:
            self._counts[bisect_left(BOUNDS_MS, took_ms)] += count
        self.sum_ms += took_ms * count


@final
class CommitHistogram:
    """Counts of commits by the time that they took, measured in nanoseconds of the monotonic clock."""

    def __init__(self) -> None:
        self.counts: list[int] = [0] * (len(COMMIT_BOUNDS_US) + 1)  # by bucket, not cumulative
        self.sum_ns: i64 = 0

    def observe(self, took_ns: i64) -> None:
        """Count a commit."""
        self.counts[bisect_left(COMMIT_BOUNDS_US, -(-took_ns // 1000))] += 1
        self.sum_ns += took_ns
