"""The publications that wait for a commit, and the time at which they are due.

Consumers settle most messages within a fraction of a millisecond, and settled messages need no write. So a publication
waits for some time when consumers have all its messages. A publication with a message that has no consumer is due at
once, because no consumer may come. Many pending publications are also due at once: one commit for them is cheap for
each. A consumer that is a neighbor broker commits itself before it settles, and is given the time for that.

A commit takes all publications or none. So the store has, with each publication, every older one that is still open:
after a crash, no message overtakes an older one that its publisher sends again.
"""

from typing import Final, final

from sluicegate.messaging.message.publication import Publication

NEVER: Final = 1 << 62  # later than any moment
# The spool scans them at the end of each turn, 20 ns each: 10,000 took 0.2 ms. Consumers that settle within a
# millisecond have no more than this at 60,000 publications a second.
GIVEN_TIME_MAX: Final = 64


@final
class PendingPublications:
    """Publications with their arrival times, oldest first; each has an unsettled message."""

    def __init__(self) -> None:
        self._came_ms: dict[Publication, int] = {}

    def is_empty(self) -> bool:
        """Return whether there are none."""
        return not self._came_ms

    def only_one(self) -> Publication | None:
        """Return the publication, if there is exactly one."""
        return next(iter(self._came_ms)) if len(self._came_ms) == 1 else None

    def add(self, publication: Publication, now_ms: int) -> None:
        """Take a publication."""
        self._came_ms[publication] = now_ms

    def drop(self, publication: Publication) -> bool:
        """Remove a publication, all of which is settled; return whether it was pending."""
        return self._came_ms.pop(publication, None) is not None

    def put_back(self, publications: list[Publication]) -> None:
        """Take publications whose commit failed, and put them before newer ones."""
        came_ms = dict.fromkeys(publications, 0)
        came_ms.update(self._came_ms)
        self._came_ms = came_ms

    def take(self) -> list[Publication]:
        """Remove all publications and return them."""
        publications = list(self._came_ms)
        self._came_ms = {}
        return publications

    def due_ms(self, patience_ms: int) -> int:
        """Return the time at which the first of these publications is due: `patience_ms` after its arrival.

        Where its consumers are known to need longer, it is so much later, unless `patience_ms` is 0. Returns 0 (at
        once) when one of them must be written in any case or there are many, `NEVER` when there are none.
        """
        if len(self._came_ms) > GIVEN_TIME_MAX:
            return 0
        due_ms = NEVER
        for publication, came_ms in self._came_ms.items():
            if not publication.may_be_spared():
                return 0
            given_ms = max(patience_ms, publication.patience_ms) if patience_ms > 0 else 0
            due_ms = min(due_ms, came_ms + given_ms)
        return due_ms
