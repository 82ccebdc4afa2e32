"""Topics to which nobody publishes for a moment, because their queue gets another home.

What is published there waits, in the order of each publisher, and so does everything that the same publisher publishes
behind it: a queue of other topics would otherwise get its messages in another order. The publishers are not read from
meanwhile. Without holds a topic space has none of this (`TopicSpace.held` is None).

See also: what waits, and its release (actors.publishing.held).
"""

from typing import Final, final

from sluicegate.messaging.queues.pressure import Pressure
from sluicegate.messaging.topics.subscription_index import SubscriptionIndex
from sluicegate.messaging.topics.syntax import TopicFilter

WAITING_BYTES_MAX: Final = 64 * 1024 * 1024  # in all; beyond, guaranteed messages are refused and direct ones dropped
MESSAGE_BYTES: Final = 512  # of one that waits, beside its payload
TOPICS_REMEMBERED_MAX: Final = 16_384


class HeldLine:
    """What one publisher has waiting. A class and not a Protocol, like `Address`."""

    def release(self, count_max: int) -> int:
        """Publish what is not held any more, up to so many batches; return how many were published."""
        raise AssertionError("HeldLine is abstract")

    def is_empty(self) -> bool:
        """Return whether nothing waits."""
        raise AssertionError("HeldLine is abstract")


@final
class Holds:
    """The topics of one message VPN that are held, and what waits for them.

    Invariant: `waiting_bytes` is the sum over all lines; no line is empty.
    """

    def __init__(self) -> None:
        self.lines: dict[HeldLine, None] = {}  # in the order in which they began to wait
        self.waiting_bytes = 0
        self.waiting_count = 0  # messages
        self.refused_count = 0  # guaranteed messages for which there was no room
        self.dropped_count = 0  # direct ones
        self.pressure: Final = Pressure(high_bytes=1, low_bytes=0)  # whoever waits is not read from
        self._filters: dict[str, list[TopicFilter]] = {}  # by queue
        self._index: SubscriptionIndex[str] = SubscriptionIndex()
        self._known: dict[str, bool] = {}  # topics that were asked for

    @property
    def queues(self) -> list[str]:
        """The queues whose topics are held."""
        return list(self._filters)

    def hold(self, queue: str, filters: list[TopicFilter]) -> None:
        """Hold the topics of a queue: exactly those that these filters match."""
        self.end(queue)
        self._filters[queue] = filters
        for each in filters:
            self._index.add(each, queue, queue)
        self._known.clear()

    def end(self, queue: str) -> None:
        """End it. What waits is released by whoever holds the lines."""
        for each in self._filters.pop(queue, []):
            self._index.discard(each, queue)
        self._known.clear()

    def covers(self, topic: str) -> bool:
        """Return whether a topic is held."""
        found = self._known.get(topic)
        if found is None:
            found = bool(self._index.match(topic))
            if len(self._known) >= TOPICS_REMEMBERED_MAX:
                self._known.clear()
            self._known[topic] = found
        return found

    def has_room(self, size: int) -> bool:
        """Return whether a batch of so many bytes may wait; one may always."""
        return self.waiting_bytes == 0 or self.waiting_bytes + size <= WAITING_BYTES_MAX

    def joins(self, line: HeldLine, count: int, size: int) -> None:
        """Count messages that begin to wait in a line."""
        self.lines[line] = None
        self.waiting_count += count
        self.waiting_bytes += size

    def leaves(self, count: int, size: int) -> None:
        """Count messages that wait no longer."""
        self.waiting_count -= count
        self.waiting_bytes -= size

    def is_over(self) -> bool:
        """Return whether nothing is held, and nothing waits."""
        return not self._filters and not self.lines
