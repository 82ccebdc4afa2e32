"""A partition's part in slowing down publishers: it tells them to go on. The levels are messaging.queues.pressure's."""

from typing import final

from sluicegate.actors.messages.data import WAKE, Resume
from sluicegate.actors.runtime.runtime import Runtime, TimerHandle
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.queues.admission import QueueGate
from sluicegate.messaging.queues.pressure import Pressure, PressureLimits


@final
class PressureWatch:
    """Holds back the publishers that feed a queue, and lets them go on when it empties or nobody empties it."""

    def __init__(
        self, runtime: Runtime, address: Address, *, gate: QueueGate, pressure: Pressure, limits: PressureLimits
    ) -> None:
        self._runtime = runtime
        self._address = address  # the partition's
        self._clock = runtime.clock
        self._gate = gate
        self._pressure = pressure
        self._limits = limits
        self._timer: TimerHandle | None = None

    def look(self, released: bool) -> None:
        """Look at the level; `released`: something was settled since the last look.

        When nothing was for a while, publishers go on: one dead consumer must not hold up the others.
        """
        pressure = self._pressure
        usage_bytes = self._gate.usage_bytes
        if pressure.calm(usage_bytes):
            return
        now_ms = self._clock.now_ms()
        if released:
            pressure.progress(now_ms)
        stall_ms = self._limits.stall_ms
        for publisher in pressure.level(usage_bytes, now_ms) + pressure.waive_if_stalled(now_ms, stall_ms):
            publisher.post(Resume())
        if pressure.over and self._timer is None:
            self._timer = self._runtime.after(stall_ms, self._look_again)

    def end(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_again(self) -> None:
        """Give the partition a turn, which ends with a look."""
        self._timer = None
        self._address.post(WAKE)
