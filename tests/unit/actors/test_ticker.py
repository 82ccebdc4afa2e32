"""What checks time limits: how it tells a busy moment from a stall of the event loop."""

import asyncio
import random
from collections.abc import Iterator

import pytest

from sluicegate.actors.runtime.runtime import Runtime
from sluicegate.actors.runtime.ticker import STALL_MS_MIN, Ticker
from sluicegate.protocols.transport.loop.timers import Timers
from support.cores.set_clock import SetClock

INTERVAL_MS = 500


class Ticking:
    """A ticker whose loop runs when a test lets it, and the stalls it has told of."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.clock = SetClock()
        self._timers = Timers(self.clock)
        runtime = Runtime(
            loop=loop,
            clock=self.clock,
            rng=random.Random(1),
            on_fatal=lambda _: None,
            call_later=self._timers.add,
        )
        self.stalls: list[int] = []  # one for each tick
        self.ticker = Ticker(runtime.clock.now_ns, runtime.after, INTERVAL_MS, self._ticked)
        self.fails = False

    def _ticked(self, stall_ms: int) -> None:
        self.stalls.append(stall_ms)
        if self.fails:
            raise ValueError("a tick fails")

    def passes(self, ms: int) -> list[int]:
        """Let so much time pass in which the loop does nothing, then let it run; return the stalls it tells of."""
        self.clock.at_ms += ms
        self.stalls.clear()
        while (callback := self._timers.take(self.clock.now_ns())) is not None:
            callback()
        return list(self.stalls)


@pytest.fixture(name="ticking")
def _ticking() -> Iterator[Ticking]:
    loop = asyncio.new_event_loop()
    yield Ticking(loop)
    loop.close()


def test_ticks_that_come_about_in_time_tell_of_no_stall(ticking: Ticking) -> None:
    ticking.ticker.start()
    assert ticking.passes(INTERVAL_MS - 1) == []
    assert ticking.passes(1) == [0]
    for _ in range(20):
        assert ticking.passes(INTERVAL_MS + STALL_MS_MIN - 1) == [0]


def test_a_late_tick_tells_how_late_it_is_and_the_next_one_is_in_time_again(ticking: Ticking) -> None:
    ticking.ticker.start()
    assert ticking.passes(INTERVAL_MS + 7_000) == [7_000]
    assert ticking.passes(INTERVAL_MS) == [0]
    assert ticking.passes(INTERVAL_MS + STALL_MS_MIN) == [STALL_MS_MIN]


def test_a_tick_that_fails_is_not_the_last(ticking: Ticking) -> None:
    ticking.ticker.start()
    ticking.fails = True
    with pytest.raises(ValueError, match="a tick fails"):
        ticking.passes(INTERVAL_MS)
    ticking.fails = False
    assert ticking.passes(INTERVAL_MS) == [0]


def test_it_ticks_once_in_an_interval_however_often_it_is_started_and_never_when_stopped(ticking: Ticking) -> None:
    ticking.ticker.start()
    ticking.ticker.start()
    assert ticking.passes(INTERVAL_MS) == [0]
    ticking.ticker.stop()
    ticking.ticker.stop()
    assert ticking.passes(10 * INTERVAL_MS) == []
    ticking.ticker.start()
    assert ticking.passes(INTERVAL_MS) == [0]
