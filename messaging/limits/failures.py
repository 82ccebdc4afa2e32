"""The failed logins that brokers of a machine show each other: who guesses at one has to wait at all of them.

Of each name from a network, and of each network, a broker shows three values: how often it has failed lately and when
that was last, when the next attempt may be looked at, and how many attempts are under way. Of a name that failed and
was right then, it shows when that was: the other brokers count no failure from before. Times are of the machine's
monotonic clock.
"""

from typing import Final, NamedTuple, final

from sluicegate.messaging.limits.counts import SharedCounts, key_of

FAILURES_BITS: Final = 16  # of a value; above them is the time of the last failure
FAILURES_MAX: Final = (1 << FAILURES_BITS) - 1


class Failures(NamedTuple):
    """What brokers know of a name from a network, or of a network."""

    failures_count: int
    next_ms: int  # when the next attempt may be looked at


NO_FAILURES: Final = Failures(0, 0)


@final
class SharedFailures:
    """What one broker shows of failed logins, and what it sees of the others."""

    def __init__(self, counts: SharedCounts) -> None:
        self._counts: Final = counts

    def show(self, network: str, user: str, failures: int, last_ms: int, next_ms: int) -> None:
        """Show how often logins have failed here, when that was last, and when the next one may be looked at."""
        value = last_ms << FAILURES_BITS | min(failures, FAILURES_MAX)
        self._counts.set(key_of("failed logins", network, user), value)
        self._counts.set(key_of("next login", network, user), next_ms)

    def forget(self, network: str, user: str) -> None:
        """Show nothing of it any more."""
        self._counts.set(key_of("failed logins", network, user), 0)
        self._counts.set(key_of("next login", network, user), 0)

    def show_under_way(self, network: str, user: str, count: int) -> None:
        """Show how many passwords are being checked here."""
        self._counts.set(key_of("logins under way", network, user), count)

    def under_way(self, network: str, user: str) -> int:
        """Return how many passwords the other brokers are checking."""
        return self._counts.others(key_of("logins under way", network, user))

    def was_right(self, network: str, user: str, now_ms: int) -> None:
        """Show that a user who had failed is who it says."""
        self.forget(network, user)
        self._counts.set(key_of("right login", network, user), now_ms)

    def forget_right(self, network: str, user: str) -> None:
        """Show no more that a user was right."""
        self._counts.set(key_of("right login", network, user), 0)

    def right_ms(self, network: str, user: str) -> int:
        """Return when a user who had failed was right the last time, at whichever broker; 0: not that anyone knows."""
        key = key_of("right login", network, user)
        return max([self._counts.own(key), *self._counts.each_other(key)])

    def of_others(self, network: str, user: str, since_ms: int) -> Failures:
        """Return what the other brokers know of failures after a time."""
        values = self._counts.each_other(key_of("failed logins", network, user))
        if not any(values):
            return NO_FAILURES
        nexts = self._counts.each_other(key_of("next login", network, user))
        count = next_ms = 0
        for value, other_next_ms in zip(values, nexts, strict=True):
            if value >> FAILURES_BITS > since_ms:
                count += value & FAILURES_MAX
                next_ms = max(next_ms, other_next_ms)
        return Failures(count, next_ms)
