"""A slice of a limit: what one broker of a machine holds of it, and may use without a look at the others.

A quota that is asked for each message is compared with the slice alone. When that is used up, the broker takes more:
what it needs, and a step beyond that if the others leave so much. What it holds and does not use it gives back at
`settle`, which is called from time to time. So the limit is never exceeded, and what all others hold without a use is
within 4 % of it: nobody is refused below that.

Invariant: a slice is at least what is used of it, after `settle`; it grows beyond only if the sum of all slices is then
at most the limit.
"""

from typing import Final, final

from mypy_extensions import i64

from sluicegate.messaging.limits.counts import SharedCounts

STEPS: Final = 50  # of a limit, for all brokers together: 2 % of it. Up to two steps are held without a use


@final
class Slice:
    """What this broker holds of one limit."""

    def __init__(self, counts: SharedCounts, key: int) -> None:
        self._counts: Final = counts
        self._key: Final = key
        self.held: i64 = 0

    def admits(self, needed: i64, limit: i64) -> bool:
        """Return whether this broker may use so much in total; take more if it holds less."""
        if needed <= self.held and needed <= limit:  # what was restored may be above the limit
            return True
        taken: i64 = self._counts.take(self._key, needed, self._step(limit), limit)
        if taken < needed:
            return False
        self.held = taken
        return True

    def settle(self, used: i64, limit: i64) -> i64:
        """Hold what is used, and little more; return what is held."""
        step = self._step(limit)
        if used > self.held:  # without a question: it was restored, or another broker had confirmed it
            self._hold(used)
        elif self.held > used and self.held + self._counts.others(self._key) > limit:
            self._hold(used)  # others hold more without a question: nothing may be kept ahead
        elif self.held - used > 2 * step:
            self._hold(used + step)
        return self.held

    def hold(self, needed: i64) -> None:
        """Hold so much at least, without a question: another broker gives as much back."""
        if needed > self.held:
            self._hold(needed)

    def _hold(self, held: i64) -> None:
        self.held = held
        self._counts.set(self._key, held)

    def _step(self, limit: i64) -> i64:
        brokers_count: i64 = self._counts.brokers_count
        return limit // (STEPS * brokers_count)
