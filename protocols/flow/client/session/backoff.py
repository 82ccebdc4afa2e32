"""How long a client waits before it connects again."""

from typing import Final, final

STEADY_MS: Final = 5_000  # a connection that lasted so long makes the next delay short again
DOUBLINGS_MAX: Final = 30  # the maximum is reached long before


@final
class Backoff:
    """Delays that double, each drawn from the upper half of what it may be, so that clients do not come together."""

    def __init__(self, *, first_s: float, max_s: float) -> None:
        self._first_s = first_s
        self._max_s = max_s
        self._attempts_count = 0  # since a connection last was steady

    def next_ms(self, lasted_ms: int, jitter: float) -> int:
        """Return the delay after a connection that lasted so long; `jitter` is from 0 up to 1."""
        if lasted_ms >= STEADY_MS:
            self._attempts_count = 0
        doubled_s = self._first_s * (1 << min(self._attempts_count, DOUBLINGS_MAX))
        self._attempts_count += 1
        return int(min(doubled_s, self._max_s) * 1000 * (0.5 + 0.5 * jitter))
