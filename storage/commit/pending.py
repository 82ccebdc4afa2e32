"""The publications that no commit has taken yet, and the moment from which they are worth one.

Consumers mostly settle what they get within a fraction of a millisecond, and then it need not be written. So a
publication that consumers have all messages of is given some time. One that has a message for which there is no
consumer is not, for nobody knows when one comes. Nor are many at once: a commit for them is cheap for each.

A commit takes all publications or none. So what is in the store has everything with it that came before and is still
open: over a crash, no message overtakes an older one that its publisher sends once more.
"""

from typing import Final, final

from sluicegate.messaging.message.publication import Publication

NEVER: Final = 1 << 62  # later than any moment
# They are looked through at the end of each turn, 20 ns each: 10,000 took 0.2 ms. Consumers that settle within a
# millisecond have no more than this at 60,000 publications a second.
GIVEN_TIME_MAX: Final = 64


@final
class PendingPublications:
    """Publications with the moments at which they came, oldest first; each has something that is not settled."""

    def __init__(self) -> None:
        self._came_ms: dict[Publication, int] = {}

    def is_empty(self) -> bool:
        """Return whether there are none."""
        return not self._came_ms

    def add(self, publication: Publication, now_ms: int) -> None:
        """Take a publication."""
        self._came_ms[publication] = now_ms

    def drop(self, publication: Publication) -> bool:
        """Let go of a publication, all of which is settled; return whether it was here."""
        return self._came_ms.pop(publication, None) is not None

    def put_back(self, publications: list[Publication]) -> None:
        """Take publications whose commit failed, before those that came since."""
        came_ms = dict.fromkeys(publications, 0)
        came_ms.update(self._came_ms)
        self._came_ms = came_ms

    def take(self) -> list[Publication]:
        """Let go of all, and return them."""
        publications = list(self._came_ms)
        self._came_ms = {}
        return publications

    def due_ms(self, patience_ms: int) -> int:
        """Return the moment from which on these are worth a commit: `patience_ms` after the oldest of them came.

        That is 0, at once, if one has to be written in any case or they are many, and `NEVER` if there are none.
        """
        if len(self._came_ms) > GIVEN_TIME_MAX:
            return 0
        for publication in self._came_ms:
            if not publication.may_be_spared():
                return 0
        for came_ms in self._came_ms.values():
            return came_ms + patience_ms
        return NEVER
