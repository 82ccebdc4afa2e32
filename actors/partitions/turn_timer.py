"""A timer that gives a partition a turn at the moment at which time has something to do to its messages."""

from typing import final

from sluicegate.actors.messages.data import WAKE
from sluicegate.actors.runtime.runtime import Runtime, TimerHandle
from sluicegate.messaging.message.address import Address

DELAY_MS_MAX = 60_000  # what is later is looked at again: the wall clock may have been set meanwhile


@final
class TurnTimer:
    """One timer, for the earliest moment only."""

    def __init__(self, runtime: Runtime, address: Address) -> None:
        self._runtime = runtime
        self._address = address
        self._handle: TimerHandle | None = None
        self._at_ms = 0  # wall clock; 0: it is not set

    def set(self, at_ms: int, wall_ms: int) -> None:
        """Wake the partition at a moment; 0: not at all."""
        if at_ms == self._at_ms:
            return
        self.cancel()
        self._at_ms = at_ms
        if at_ms > 0:
            self._handle = self._runtime.after(min(max(at_ms - wall_ms, 1), DELAY_MS_MAX), self._ended)

    def cancel(self) -> None:
        """Call it off."""
        self._at_ms = 0
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _ended(self) -> None:
        self._handle = None
        self._at_ms = 0
        self._address.post(WAKE)
