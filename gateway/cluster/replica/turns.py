"""Turns and timers of the node of an owner. They end with the ownership.

Whatever a node does begins with one of three: a turn of its actors, a timer, or a socket that is ready. A process that
was paused looks at its lease before each of them: what waits in its sockets and inboxes must not be answered by an
owner of the past, and what became due meanwhile is the new one's.
"""

from collections.abc import Callable

from sluicegate.actors.runtime.inbox import CallSoon
from sluicegate.actors.runtime.runtime import CallLater


def guarded(call_soon: CallSoon, serves: Callable[[], bool], lost: Callable[[], None]) -> CallSoon:
    """Return a scheduler of turns that has none begin once the replica does not own the broker any more."""
    return lambda turn: call_soon(_if_owner(turn, serves, lost))


def guarded_timers(call_later: CallLater, serves: Callable[[], bool], lost: Callable[[], None]) -> CallLater:
    """Return what sets timers, of which none calls back once the replica does not own the broker any more."""
    return lambda delay_s, callback: call_later(delay_s, _if_owner(callback, serves, lost))


def _if_owner(work: Callable[[], object], serves: Callable[[], bool], lost: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        if serves():
            work()
        else:
            lost()

    return run
