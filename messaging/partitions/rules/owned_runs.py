"""Stretches of messages that are all of one flow's groups, so that each flow takes or passes over them at once.

They are noted as messages come, which are put in that order (`messaging.partitions.rules.groups`), and forgotten when a
group changes hands: then flows look at each message again.
"""

from bisect import bisect_right
from typing import Final, final

RUNS_MAX: Final = 10_000  # of a partition; messages beyond are looked at one by one

NO_RUN: Final = (0, 0)


@final
class OwnedRuns:
    """The stretches of one ledger.

    Invariants: they ascend and are disjoint.
    """

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []
        self._owners: list[int] = []

    def __len__(self) -> int:
        return len(self._firsts)

    def note(self, first: int, end: int, owner: int) -> None:
        """Note that `[first, end)`, behind all that is noted, is a flow's."""
        if len(self._firsts) < RUNS_MAX:
            self._firsts.append(first)
            self._ends.append(end)
            self._owners.append(owner)

    def at(self, sequence: int) -> tuple[int, int]:
        """Return whose the stretch is that a message is in, and where it ends; NO_RUN when nothing is known."""
        index = bisect_right(self._firsts, sequence) - 1
        if index < 0 or sequence >= self._ends[index]:
            return NO_RUN
        return self._owners[index], self._ends[index]

    def forget(self) -> None:
        """Know nothing any more."""
        self._firsts.clear()
        self._ends.clear()
        self._owners.clear()

    def forget_below(self, floor: int) -> None:
        """Forget what is settled."""
        gone = bisect_right(self._ends, floor)
        if gone:
            del self._firsts[:gone]
            del self._ends[:gone]
            del self._owners[:gone]

    def runs(self) -> list[tuple[int, int, int]]:
        """Return every stretch as (first, end, owner)."""
        return list(zip(self._firsts, self._ends, self._owners, strict=True))
