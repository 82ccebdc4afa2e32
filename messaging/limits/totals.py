"""A total that is limited for all brokers of a machine together, and is asked for each thing that adds to it.

Nothing is held ahead, so the limit is exact, however small it is.
"""

from typing import Final, final

from sluicegate.messaging.limits.counts import SharedCounts, Want, key_of


@final
class SharedTotal:
    """What this broker has of one total."""

    def __init__(self, counts: SharedCounts, *names: str, outlives: bool = False) -> None:
        """`outlives`: the broker still has it while it does not run."""
        self._counts: Final = counts
        self._key: Final = key_of(*names, outlives=outlives)

    def admits(self, value: int, limit: int) -> bool:
        """Return whether this broker may have so much, beside the others; it then has."""
        return self._counts.claim([Want(self._key, value, limit)]) < 0

    def settle(self, value: int) -> None:
        """Show what this broker has, whatever the limit is."""
        if self._counts.own(self._key) != value:
            self._counts.set(self._key, value)
