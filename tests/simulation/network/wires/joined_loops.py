"""Event loops of several processes that live in one virtual time: each broker has one, and loses it when it dies."""

import asyncio
from collections.abc import Callable
from typing import Final

from simulation.machine.virtual_loop import CALLBACKS_PER_ADVANCE_MAX, MONOTONIC_START_US, EndlessLoop, VirtualLoop


class JoinedLoops:
    """They run in turn, always in the same order, so that a seed is one run."""

    def __init__(self) -> None:
        self.now_us = MONOTONIC_START_US
        self.is_over: Callable[[], bool] = lambda: False  # nothing has to go on: a promise is broken
        self._loops: list[JoinedLoop] = []

    def begin(self, now_us: int) -> "JoinedLoop":
        """Let the others run until a time; return a loop of a process that begins then."""
        self.advance(max(0, now_us - self.now_us))
        loop = JoinedLoop(self)  # type: ignore[abstract]  # as for `virtual_loop`
        self.add(loop)
        return loop

    def add(self, loop: "JoinedLoop") -> None:
        """A process has another loop from now on."""
        self._loops.append(loop)

    def end(self, loop: "JoinedLoop") -> None:
        """A process is gone."""
        self._loops = [each for each in self._loops if each is not loop]

    def advance(self, duration_us: int) -> None:
        """Run everything that is due within the duration, in all processes; the time is its end afterwards."""
        end_us = self.now_us + duration_us
        left = CALLBACKS_PER_ADVANCE_MAX
        try:
            while True:
                left = self._run_ready(left)
                if not self._loops or self.is_over():
                    break
                first = min(self._loops, key=VirtualLoop.next_timer_us)  # of equal ones, that of the first loop
                if first.next_timer_us() > end_us:
                    break
                first.run_timer()
        finally:
            asyncio._set_running_loop(None)
        self.now_us = max(self.now_us, end_us)

    def _run_ready(self, left: int) -> int:
        """Run what need not wait, until none has anything; return how many callbacks are left of so many."""
        is_busy = True
        while is_busy and not self.is_over():
            is_busy = False
            for loop in self._loops:
                if not loop.has_ready():
                    continue
                asyncio._set_running_loop(loop)
                after = loop.run_ready(left)
                is_busy = is_busy or after < left
                left = after
                if left <= 0:
                    raise EndlessLoop(f"{CALLBACKS_PER_ADVANCE_MAX} callbacks and no rest")
        return left


class JoinedLoop(VirtualLoop):
    """The loop of one process. Whoever advances it advances all."""

    def __init__(self, joined: JoinedLoops) -> None:
        self._joined: Final = joined
        super().__init__(joined.now_us)

    @property
    def now_us(self) -> int:  # the time is not its own
        return self._joined.now_us

    @now_us.setter
    def now_us(self, now_us: int) -> None:
        self._joined.now_us = now_us

    def advance(self, duration_us: int) -> None:
        self._joined.advance(duration_us)

    def close(self) -> None:
        self._joined.end(self)
        super().close()
