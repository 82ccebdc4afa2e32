"""A partition's part in slowing down publishers: it tells them to go on. The levels are messaging.pressure's."""

from typing import final

from actors.data_messages import Resume
from actors.runtime import Runtime
from messaging.admission import QueueGate
from messaging.pressure import Pressure, PressureLimits


@final
class PressureWatch:
    """Holds back the publishers that feed a queue, and lets them go on when it empties or nobody empties it."""

    def __init__(self, runtime: Runtime, *, gate: QueueGate, pressure: Pressure, limits: PressureLimits) -> None:
        self._runtime = runtime
        self._clock = runtime.clock
        self._gate = gate
        self._pressure = pressure
        self._limits = limits
        self._looks_for_progress = False

    def look(self, released: bool) -> None:
        """Look at the level; `released`: something was settled since the last look."""
        pressure = self._pressure
        usage_bytes = self._gate.usage_bytes
        if pressure.calm(usage_bytes):
            return
        now_ms = self._clock.now_ms()
        if released:
            pressure.progress(now_ms)
        for publisher in pressure.level(usage_bytes, now_ms):
            publisher.post(Resume())
        self._watch_for_stall()

    def _watch_for_stall(self) -> None:
        if self._pressure.over and not self._looks_for_progress:
            self._looks_for_progress = True
            self._runtime.after(self._limits.stall_ms, self._look_for_progress)

    def _look_for_progress(self) -> None:
        """Let publishers go on when nothing was settled for a while: one dead consumer must not hold up the others."""
        self._looks_for_progress = False
        for publisher in self._pressure.waive_if_stalled(self._clock.now_ms(), self._limits.stall_ms):
            publisher.post(Resume())
        self._watch_for_stall()
