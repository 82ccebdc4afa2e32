"""Back-pressure of one destination: above its high mark, the publishers that feed it are not read from.

Other publishers are unaffected. A destination that makes no progress for a while loses this protection (`waived`): its
publishers continue, and what it cannot take is dropped and counted, so that one dead consumer never holds up others.
"""

from typing import final

from mypy_extensions import i64

from sluicegate.messaging.message.address import Address


@final
class PressureLimits:
    """When the queues of a node slow their publishers down. Shared by all of them; a reload changes it."""

    def __init__(self, *, high_bytes: i64, low_bytes: i64, stall_ms: int) -> None:
        self.high_bytes = high_bytes  # of a queue that is never written
        self.low_bytes = low_bytes
        self.stall_ms = stall_ms  # how long publishers wait for consumers that settle nothing

    def take_over(self, limits: "PressureLimits") -> bool:
        """Copy these limits; return whether the marks of queues change with them."""
        is_changed = self.high_bytes != limits.high_bytes or self.low_bytes != limits.low_bytes
        self.high_bytes = limits.high_bytes
        self.low_bytes = limits.low_bytes
        self.stall_ms = limits.stall_ms
        return is_changed


@final
class Pressure:
    """Whether publishers have to wait for a destination. Shared on the node's loop.

    Invariants: `low_bytes <= high_bytes`; no publisher waits while the pressure is down or waived.
    """

    def __init__(self, *, high_bytes: i64, low_bytes: i64) -> None:
        assert low_bytes <= high_bytes
        self.high_bytes = high_bytes
        self.low_bytes = low_bytes
        self.over = False  # publishers must wait
        self.waived = False  # no progress for too long: publishers need not wait
        self.over_since_ms = 0
        self._waiting: dict[Address, None] | None = None  # None until a publisher waits

    def set_marks(self, *, high_bytes: i64, low_bytes: i64) -> None:
        """Change the marks; waiting publishers are checked with the next level."""
        assert low_bytes <= high_bytes
        self.high_bytes = high_bytes
        self.low_bytes = low_bytes

    def calm(self, held_bytes: i64) -> bool:
        """Return whether there is nothing to update: no publisher waits, and little is held."""
        return held_bytes < self.high_bytes and not self.over and not self.waived

    def level(self, held_bytes: i64, now_ms: int) -> list[Address]:
        """Set how much the destination holds; return the publishers that may continue."""
        if held_bytes >= self.high_bytes:
            if not self.over and not self.waived:
                self.over = True
                self.over_since_ms = now_ms
        elif held_bytes <= self.low_bytes:
            self.waived = False
            if self.over:
                self.over = False
                return self._release()
        return []

    def progress(self, now_ms: int) -> None:
        """Record that the destination took something."""
        self.over_since_ms = now_ms

    def waive_if_stalled(self, now_ms: int, stall_ms: int) -> list[Address]:
        """Waive a destination without progress for `stall_ms`; return the publishers that may continue."""
        if not self.over or now_ms - self.over_since_ms < stall_ms:
            return []
        self.over = False
        self.waived = True
        return self._release()

    def wait(self, publisher: Address) -> None:
        """Add a publisher that has stopped reading because of this destination."""
        if self._waiting is None:
            self._waiting = {}
        self._waiting[publisher] = None

    def close(self) -> list[Address]:
        """Release all publishers: the destination is gone."""
        self.over = False
        return self._release()

    def _release(self) -> list[Address]:
        released = [] if self._waiting is None else list(self._waiting)
        self._waiting = None
        return released
