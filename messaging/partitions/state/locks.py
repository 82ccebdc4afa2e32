"""How long a consumer may keep a delivery without settling it: one lock for each, in ranges that run out together."""

from typing import Final, final

from sluicegate.messaging.message.ranges import RangeSet

# A lock lasts its time and at most a sixteenth more, so that deliveries of about the same time run out as one range.
ROUNDINGS_PER_TIMEOUT: Final = 16


@final
class Locks:
    """The locks of one flow on one partition. What was settled meanwhile may still stand here; it does no harm.

    Invariants: deadlines ascend; a sequence stands under one deadline, the latest it was given.
    """

    def __init__(self) -> None:
        self._deadlines_ms: list[int] = []
        self._locked: list[RangeSet] = []

    def grant(self, first: int, end: int, *, now_ms: int, timeout_ms: int) -> None:
        """Lock `[first, end)`, which has no lock, from now on."""
        step_ms = max(1, timeout_ms // ROUNDINGS_PER_TIMEOUT)
        deadline_ms = (now_ms + timeout_ms + step_ms - 1) // step_ms * step_ms
        place = len(self._deadlines_ms)
        while place > 0 and self._deadlines_ms[place - 1] > deadline_ms:  # the timeout was shortened, or the clock set
            place -= 1
        if place == 0 or self._deadlines_ms[place - 1] != deadline_ms:
            self._deadlines_ms.insert(place, deadline_ms)
            self._locked.insert(place, RangeSet())
            place += 1
        self._locked[place - 1].add(first, end)

    def forget(self, first: int, end: int) -> None:
        """Let go of `[first, end)`, to be locked anew or not at all."""
        for ranges in self._locked:
            ranges.discard(first, end)

    def next_ms(self) -> int:
        """Return when the next locks run out; 0 when there are none."""
        return self._deadlines_ms[0] if self._deadlines_ms else 0

    def take_expired(self, now_ms: int) -> list[tuple[int, int]]:
        """Return what was locked until now, and forget it."""
        expired: list[tuple[int, int]] = []
        while self._deadlines_ms and self._deadlines_ms[0] <= now_ms:
            del self._deadlines_ms[0]
            expired += self._locked.pop(0).ranges()
        return expired
