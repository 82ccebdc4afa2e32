"""Connections that are refused on behalf of no neighbor: of brokers without a link, and of clients that may not link.

What such a client says of itself is not to be believed: it is no neighbor whose name it gives, and so nothing is noted
there. Each refusal is counted. An event tells the first one of an address for a reason, and again after a while: so
clients cannot flood the event log.
"""

from collections import deque
from typing import Final, final

from sluicegate.actors.runtime.clock import Clock
from sluicegate.actors.runtime.events import Events
from sluicegate.messaging.observability.events import SYSTEM_LINK_REJECTED
from sluicegate.protocols.flow.codec import codes

TELL_AGAIN_MS: Final = 600_000
TOLD_MAX: Final = 100  # events in this time, whatever the addresses


@final
class RefusedConnections:
    """Counts and reports them."""

    def __init__(self, events: Events, clock: Clock) -> None:
        self.counts: Final[dict[str, int]] = {}  # by the name of the code
        self._events: Final = events
        self._clock: Final = clock
        self._told: Final[dict[tuple[str, int], None]] = {}  # host and code
        self._forget_at: Final[deque[tuple[int, tuple[str, int]]]] = deque()  # when, in this order

    def refused(self, code: int, address: str, text: str) -> None:
        """Count a refusal, and report it if nothing was reported of its kind lately. `address` is HOST:PORT."""
        name = codes.NAMES[code].replace(" ", "_")
        self.counts[name] = self.counts.get(name, 0) + 1
        now_ms = self._clock.now_ms()
        while self._forget_at and self._forget_at[0][0] <= now_ms:
            del self._told[self._forget_at.popleft()[1]]
        key = (address.rpartition(":")[0], code)
        if key in self._told or len(self._told) >= TOLD_MAX:
            return
        self._told[key] = None
        self._forget_at.append((now_ms + TELL_AGAIN_MS, key))
        self._events.emit(SYSTEM_LINK_REJECTED, text)
