"""Deletions that are remembered, so that a broker which was away does not bring back what was deleted meanwhile.

A deletion is kept until every neighbor knows of it, at most for a day, and as long as there is room. Those of topics
that had no message here make room first: any client that may publish adds as many as it likes.
"""

from itertools import islice
from typing import Final, final

from sluicegate.messaging.network.retained.versions import Version

KEPT_MS: Final = 24 * 60 * 60 * 1000


@final
class Tombstones:
    """The deletions of one message VPN, by topic.

    The caller adds and removes their rows. Invariant: what a neighbor is not known to have is among the deletions.
    """

    def __init__(self) -> None:
        self.dropped_count = 0  # for want of room, before every neighbor knew them
        self.expired_count = 0  # a day old: a neighbor was away for longer
        self._versions: dict[str, Version] = {}  # the oldest first
        self._needless: dict[str, None] = {}  # topics that had no message here when they were deleted, oldest first
        self._untold: dict[str, dict[str, None]] = {}  # neighbor -> topics that it may not know to be deleted
        self._finished: dict[str, None] = {}  # topics that nobody has to hear of any more

    @property
    def count(self) -> int:
        """The number of deletions."""
        return len(self._versions)

    def get(self, topic: str) -> Version | None:
        """Return the version of the deletion of a topic."""
        return self._versions.get(topic)

    def items(self) -> list[tuple[str, Version]]:
        """Return all deletions."""
        return list(self._versions.items())

    def untold(self, neighbor: str) -> list[tuple[str, Version]]:
        """Return the deletions that a neighbor may not know."""
        return [(topic, self._versions[topic]) for topic in self._untold.get(neighbor, {})]

    def add(self, topic: str, version: Version, known_by: str = "", *, had_message: bool = True) -> None:
        """Remember a deletion in the place of the one of its topic; the neighbor `known_by` has told of it."""
        if had_message:
            self._needless.pop(topic, None)
        elif topic not in self._versions:  # else what was there before the first deletion counts
            self._needless[topic] = None
        self._versions.pop(topic, None)
        self._versions[topic] = version
        self._finished.pop(topic, None)
        for neighbor, topics in self._untold.items():
            if neighbor != known_by:
                topics[topic] = None
            else:
                topics.pop(topic, None)
        if self._untold:
            self._check_finished(topic)

    def discard(self, topic: str) -> None:
        """Forget the deletion of a topic, if there is one: it has a message again."""
        if self._versions.pop(topic, None) is not None:
            self._finished.pop(topic, None)
            self._needless.pop(topic, None)
            for topics in self._untold.values():
                topics.pop(topic, None)

    def begin(self, neighbor: str) -> None:
        """Keep deletions for a neighbor, which may know none of them."""
        self._untold[neighbor] = dict.fromkeys(self._versions)
        self._finished.clear()

    def end(self, neighbor: str) -> None:
        """Keep none for a neighbor any more."""
        for topic in self._untold.pop(neighbor, {}):
            self._check_finished(topic)

    def is_known(self, neighbor: str, topic: str, version: Version) -> None:
        """Note that a neighbor knows a deletion, unless there is a later one."""
        topics = self._untold.get(neighbor)
        if topics is not None and topic in topics and self._versions[topic] == version:
            del topics[topic]
            self._check_finished(topic)

    def take_finished(self, wall_ms: int, count_max: int) -> list[str]:
        """Forget deletions that need not, or cannot, be kept any longer; return their topics."""
        found = list(self._finished)
        for topic in found:
            self.discard(topic)
        # Each walk ends before anything is taken: a dict passes over what it has given up already to find its first.
        oldest: list[str] = []
        for topic, version in self._versions.items():
            if version.wall_ms + KEPT_MS > wall_ms:
                break
            oldest.append(topic)
        self.expired_count += len(oldest)
        for topic in oldest:
            self.discard(topic)
        excess_count = len(self._versions) - count_max
        if excess_count > 0:
            dropped = list(islice(self._needless, excess_count))
            for topic in dropped:
                self.discard(topic)
            oldest += dropped
            dropped = list(islice(self._versions, excess_count - len(dropped)))
            for topic in dropped:
                self.discard(topic)
            oldest += dropped
            self.dropped_count += excess_count
        return found + oldest

    def _check_finished(self, topic: str) -> None:
        if not any(topic in topics for topics in self._untold.values()):
            self._finished[topic] = None

    def check(self) -> None:
        """Assert the invariants; for tests."""
        for topics in self._untold.values():
            assert topics.keys() <= self._versions.keys(), "a neighbor waits for a deletion that is forgotten"
        assert self._finished.keys() <= self._versions.keys(), "a forgotten deletion is finished"
        assert self._needless.keys() <= self._versions.keys(), "a forgotten deletion makes room"
