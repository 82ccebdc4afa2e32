"""Waking a partition after each commit while something in it waits for one.

What does is in messaging.last_value and messaging.unstored.
"""

from typing import final

from sluicegate.actors.cursor_messages import WatchCommits
from sluicegate.messaging.address import Address


@final
class CommitWatch:
    """What a partition has asked the spool for."""

    def __init__(self, address: Address, spool: Address | None) -> None:
        self._address = address
        self._spool = spool  # None: nothing is written, and nothing waits for it
        self.on = False

    def want(self, on: bool) -> None:
        """Be woken from now on, or no longer."""
        if on != self.on and self._spool is not None:
            self.on = on
            self._spool.post(WatchCommits(self._address, on))
