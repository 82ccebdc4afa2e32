"""Waking a partition after each commit while something in it waits for one.

What does is in messaging.partitions.rules.last_value and messaging.partitions.rules.delivery_after_commit.
"""

from typing import final

from sluicegate.actors.messages.cursor_messages import WatchCommits
from sluicegate.messaging.message.address import Address


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
