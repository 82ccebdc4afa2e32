"""Waking the partitions that wait for a consumer's credit, or for room among what all consumers hold.

Who comes when there is credit is decided in messaging.queues.credit. Here is the second look: a partition that was
woken may have nothing any more, or be gone, and then those behind it are to have the credit.
"""

from typing import final

from sluicegate.actors.messages.data import WAKE
from sluicegate.actors.runtime.inbox import Dispatcher, Flushed
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.queues.credit import CreditPool, CreditWindow


def wake_waiters(window: CreditWindow[Address], dispatcher: Dispatcher) -> None:
    """Have partitions go on that wait for this window; there is credit again, or may be."""
    if window.is_waited_for():
        _wake(window, window.next_waiters(), dispatcher)


def watch_for_room(pool: CreditPool[Address], dispatcher: Dispatcher) -> None:
    """From now on have partitions go on that wait for room in the pool, at the end of a turn that brings some."""
    pool.has_room = _LookForRoom(pool, dispatcher).ask


def _wake(window: CreditWindow[Address], waiters: list[Address], dispatcher: Dispatcher) -> None:
    for waiter in waiters:
        waiter.post(WAKE)
    if waiters and window.called_count == len(waiters):  # the first in this turn
        dispatcher.at_turn_end(_SecondLook(window, dispatcher))


@final
class _SecondLook(Flushed):
    """At the end of the turn in which some were woken: is there credit left for others?"""

    def __init__(self, window: CreditWindow[Address], dispatcher: Dispatcher) -> None:
        self._window = window
        self._dispatcher = dispatcher

    def flush(self) -> None:
        """Wake as many more as there is credit for."""
        for waiter in self._window.further_waiters():
            waiter.post(WAKE)
        if self._window.called_count > 0:
            self._dispatcher.at_turn_end(self)


@final
class _LookForRoom(Flushed):
    """At the end of a turn in which the pool got room: whose windows wait for it?"""

    def __init__(self, pool: CreditPool[Address], dispatcher: Dispatcher) -> None:
        self._pool = pool
        self._dispatcher = dispatcher
        self._is_asked = False

    def ask(self) -> None:
        """Look at the end of this turn."""
        if not self._is_asked:
            self._is_asked = True
            self._dispatcher.at_turn_end(self)

    def flush(self) -> None:
        """Wake as many as there is room for, of the windows that have waited longest; then look what they have left."""
        self._is_asked = False
        room = self._pool.available()
        while room > 0:
            window = self._pool.next_window()
            if window is None:
                return
            waiters = window.waiters_for_room()
            _wake(window, waiters, self._dispatcher)
            room -= len(waiters)
            if room <= 0:
                self.ask()
