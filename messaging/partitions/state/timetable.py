"""When a partition has to look at which of its messages: a queue of moments, the earliest first."""

from heapq import heappop, heappush
from typing import final


@final
class Timetable:
    """Moments (wall clock, milliseconds), each with a sequence in the stretch that has to be looked at then.

    An entry is a hint: what it points at may be gone or may have other moments by then, and whoever looks finds out.
    So nothing is ever taken out of the middle.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def note(self, at_ms: int, sequence: int) -> None:
        """Have the stretch with this sequence looked at, then or soon after."""
        heappush(self._entries, (at_ms, sequence))

    def next_ms(self) -> int:
        """Return the earliest moment; 0 when there is none."""
        return self._entries[0][0] if self._entries else 0

    def take_due(self, now_ms: int) -> int:
        """Remove one entry whose moment has come and return its sequence; -1 when there is none."""
        if not self._entries or self._entries[0][0] > now_ms:
            return -1
        return heappop(self._entries)[1]

    def clear(self) -> None:
        """Forget all moments."""
        self._entries.clear()
