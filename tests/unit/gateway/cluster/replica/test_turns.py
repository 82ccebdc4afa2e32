"""Turns and timers of an owner of the past."""

from collections.abc import Callable

from sluicegate.actors.runtime.clock import SystemClock
from sluicegate.gateway.cluster.replica.turns import guarded, guarded_timers
from sluicegate.protocols.transport.loop.timers import Timer, Timers


def test_no_turn_begins_after_the_ownership() -> None:
    waiting: list[Callable[[], None]] = []
    done: list[str] = []
    owns = True
    schedule = guarded(waiting.append, lambda: owns, lambda: done.append("lost"))
    schedule(lambda: done.append("first"))
    schedule(lambda: done.append("second"))
    waiting[0]()
    owns = False
    waiting[1]()
    assert done == ["first", "lost"]


def test_no_timer_calls_back_after_the_ownership() -> None:
    waiting: list[tuple[float, Callable[[], object]]] = []
    done: list[str] = []
    owns = True

    def call_later(delay_s: float, callback: Callable[[], object]) -> Timer:
        waiting.append((delay_s, callback))
        return Timers(SystemClock()).add(delay_s, callback)

    timers = guarded_timers(call_later, lambda: owns, lambda: done.append("lost"))
    timers(1.5, lambda: done.append("first"))
    timers(2.5, lambda: done.append("second"))
    assert [delay_s for delay_s, _ in waiting] == [1.5, 2.5]
    waiting[0][1]()
    owns = False
    waiting[1][1]()
    assert done == ["first", "lost"]
