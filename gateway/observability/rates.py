"""The rate of messages into each queue: the mean of the last minute, from counts taken every ten seconds."""

from collections import deque
from collections.abc import Mapping
from typing import Final, final

SAMPLE_MS: Final = 10_000
SAMPLES_MAX: Final = 6  # a minute of them


@final
class QueueRates:
    """The recent counts of one message VPN's queues. Invariant: at most SAMPLES_MAX are kept."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, Mapping[str, int]]] = deque(maxlen=SAMPLES_MAX)

    def add(self, now_ms: int, counts: Mapping[str, int]) -> None:
        """Record how many messages each queue has accepted since it was created, or since the node started."""
        self._samples.append((now_ms, counts))

    def rate(self, queue: str, count: int, now_ms: int) -> float:
        """Return the messages a second into a queue that has accepted `count` by now; 0 before the first sample."""
        if not self._samples:
            return 0.0
        since_ms, counts = self._samples[0]
        before = counts.get(queue, 0)
        # A queue that was deleted and created again has accepted fewer than before.
        taken = count - before if count >= before else count
        return taken * 1000 / max(now_ms - since_ms, SAMPLE_MS)  # a burst in the first moments is not a rate
