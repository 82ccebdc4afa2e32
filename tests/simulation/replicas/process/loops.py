"""The event loops of one machine, which stand still together when its process is paused."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from functools import partial
from typing import Any, Final, TypeVarTuple

from simulation.machine.virtual_loop import NEVER_US, WALL_START_MS
from simulation.network.wires.joined_loops import JoinedLoop, JoinedLoops
from simulation.replicas.process.batons import Baton

Args = TypeVarTuple("Args")


class Clocks:
    """The clocks of one machine, and whether its process is paused."""

    def __init__(self, machine: str) -> None:
        self.machine: Final = machine
        self.wall_step_ms = 0  # by which its time of day is wrong
        self.is_paused = False


class MachineLoop(JoinedLoop):
    """One loop of a process."""

    def __init__(self, joined: JoinedLoops, clocks: Clocks) -> None:
        self.clocks: Final = clocks
        self.batons: Final[list[Baton]] = []  # threads that it waits for
        super().__init__(joined)

    def call_soon_threadsafe(
        self, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.Handle:
        if self.is_closed():
            raise RuntimeError("Event loop is closed")
        return self.call_soon(callback, *args)

    def run_in_executor(  # type: ignore[override]  # whatever the executor
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> "asyncio.Future[Any]":
        """Run a function on a thread of its own, which has the processor until it waits for a coroutine."""
        baton = Baton(self, partial(func, *args))
        self.batons.append(baton)
        baton.done.add_done_callback(lambda _: self.batons.remove(baton))
        self.call_soon(baton.resume)
        return baton.done

    def next_timer_us(self) -> int:
        return NEVER_US if self.clocks.is_paused else super().next_timer_us()

    def has_ready(self) -> bool:
        return not self.clocks.is_paused and super().has_ready()

    def wall_ms(self) -> int:
        """Return the time of day."""
        return WALL_START_MS + self.now_us // 1000 + self.clocks.wall_step_ms

    def close(self) -> None:
        for baton in list(self.batons):
            baton.kill()
        self.batons.clear()
        super().close()


def machine_loop() -> MachineLoop:
    """Return the loop of the process that runs now, on whichever of its threads."""
    loop = asyncio._get_running_loop()
    assert isinstance(loop, MachineLoop)
    return loop


@contextmanager
def running(loop: MachineLoop) -> Iterator[None]:
    """Have a loop be the one that runs within the block."""
    before = asyncio._get_running_loop()
    asyncio._set_running_loop(loop)
    try:
        yield
    finally:
        asyncio._set_running_loop(before)
