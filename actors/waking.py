"""Waking the partitions that wait for a consumer's credit.

Who comes when there is credit is decided in messaging.credit. Here is the second look: a partition that was woken may
have nothing any more, or be gone, and then those behind it are to have the credit.
"""

from typing import final

from actors.data_messages import WAKE
from actors.inbox import Dispatcher
from messaging.address import Address
from messaging.credit import CreditWindow


def wake_waiters(window: CreditWindow[Address], dispatcher: Dispatcher) -> None:
    """Have partitions go on that wait for this window; there is credit again, or may be."""
    is_first = window.called_count == 0  # in this turn
    for waiter in window.next_waiters():
        waiter.post(WAKE)
    if is_first and window.called_count > 0:
        dispatcher.at_turn_end(_SecondLook(window, dispatcher))


@final
class _SecondLook:
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
