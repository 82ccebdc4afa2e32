"""The feature level of a log: what a replica must be able to read.

One number says which kinds of messages, records and rows a log may have, and which attributes these. Each message of
the stream names the level at which it was written, so a replica that cannot read a log finds out at the first message
that is too new for it, wherever it begins. The level of a log only rises: its owner raises it by a message of its own,
when all replicas have said that they read the higher one (`ownership.readable_levels`). An owner writes nothing that
needs more than the level that the log has.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from sluicegate.storage.errors import UnsupportedFormat

LEVEL_OLDEST: Final = 1
# Which this release reads. A new one needs a golden log in tests/data/replication, and readers of all below it.
LEVEL: Final = 1


class LevelTooHigh(UnsupportedFormat):
    """A message of a log that needs a later release."""

    def __str__(self) -> str:
        """Return what an operator has to know."""
        return (
            f"the log has feature level {self.found} from {self.where} on, and this release reads level "
            f"{self.supported}: this replica needs a later release, for a log never goes back"
        )


def level_to_write(level: int, reads: Mapping[str, int], replicas: Iterable[str]) -> int:
    """Return the level of a log that has a level, when replicas have said what they read.

    One that has said nothing reads the oldest. The level never falls: a replica that reads less than the log has cannot
    read it in any case.
    """
    return max(level, min((reads.get(name, LEVEL_OLDEST) for name in replicas), default=LEVEL_OLDEST))
