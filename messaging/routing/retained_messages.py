"""The retained messages of a message VPN, by topic, within limits on their size and number.

A retained message counts as much as a message in a queue that is never written (messaging.message.usage), plus its
topic again for the words of the tree, plus NODE_BYTES for each level that no other topic shares. The tree is
`messaging.topics.retained`; `actors.publishing.publisher` reports refusals, or delivers a message without retaining it.

Each message has a version, so that the brokers of a network agree on the last one. While the message VPN has links,
deletions are remembered as well, and `stored` is what the store has. Not thread-safe.
"""

from typing import Final, final

from mypy_extensions import i64

from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.refusals import ADMITTED, REFUSED_RETAINED_COUNT, REFUSED_RETAINED_FULL
from sluicegate.messaging.message.thresholds import NEVER_REACHED, Exceedance, no_refusal_listener
from sluicegate.messaging.message.usage import text_bytes
from sluicegate.messaging.network.retained.exchange import StoredRetained
from sluicegate.messaging.network.retained.tombstones import Tombstones
from sluicegate.messaging.network.retained.versions import NO_VERSION, Version, VersionClock
from sluicegate.messaging.queues.pressure import Pressure
from sluicegate.messaging.topics.retained import RetainedScan, RetainedTopics
from sluicegate.messaging.topics.syntax import TopicFilter

# Rows on their way to the store. The limits on retained messages do not bound them: there may be many for one topic.
# The mark is the largest MQTT packet taken by default, and what a disk of 100 MB/s writes in a sixth of a second.
UNWRITTEN_HIGH_BYTES: Final = 16 << 20  # above this, publishers of retained messages are not read from
UNWRITTEN_LOW_BYTES: Final = 4 << 20  # until no more than this is left
ROW_BYTES: Final = 512  # of each, for the objects that carry it to the store

TOMBSTONES_MAX: Final = 100_000  # remembered deletions of a message VPN: some 300 bytes each

NODE_BYTES: Final = 256  # measured: 230 to 305, with the table of a level that has one below it


@final
class RetainedMessage:
    """The last retained message of a topic: a batch of one row."""

    __slots__ = ("batch", "usage_bytes", "version")

    def __init__(self, batch: MessageBatch, version: Version = NO_VERSION) -> None:
        """Without a version it is one that the broker makes for its own clients, and stores nowhere."""
        self.batch = batch
        self.version = version
        self.usage_bytes: i64 = usage_of_row(batch, 0)  # without the levels of its topic, which it may share


@final
class RetainedMessages:
    """The retained messages, and the room that is left.

    A message that takes no more room than before is always admitted: one that replaces a message at least as large, and
    a deletion. What exceeds a lowered limit stays. Invariant: `usage_bytes` is the sum of the usage of all messages.
    """

    def __init__(self) -> None:
        self.usage_bytes_max: i64 = NEVER_REACHED
        self.count_max: i64 = NEVER_REACHED
        self.refused: dict[int, int] = {}  # verdict -> messages refused to their publishers
        self.not_retained: dict[int, int] = {}  # verdict -> messages that were delivered only
        self.usage_exceeded = Exceedance(no_refusal_listener)
        self.count_exceeded = Exceedance(no_refusal_listener)
        self.pressure: Final = Pressure(high_bytes=UNWRITTEN_HIGH_BYTES, low_bytes=UNWRITTEN_LOW_BYTES)  # by the store
        self.unwritten_bytes: i64 = 0  # of rows on their way to the store
        self.clock: Final = VersionClock()
        self.tombstones: Final = Tombstones()
        self.stored: StoredRetained | None = None  # None: there is no link
        self.ahead: list[str] = []  # topics whose version is far ahead of all clocks: links, one or another, replace it
        self._taken_bytes: i64 = 0  # total of what was new or grew
        self._taken_count: i64 = 0
        self._messages_bytes: i64 = 0
        self._topics: Final[RetainedTopics[RetainedMessage]] = RetainedTopics()

    def bound(self, usage_bytes_max: i64, count_max: i64) -> None:
        """Set the limits."""
        self.usage_bytes_max = usage_bytes_max
        self.count_max = count_max

    @property
    def count(self) -> int:
        """The number of retained messages."""
        return self._topics.count

    @property
    def usage_bytes(self) -> i64:
        """The usage of all retained messages."""
        return self._messages_bytes + NODE_BYTES * (self._topics.node_count - 1)

    def verdict(self, batches: list[MessageBatch]) -> int:
        """Return ADMITTED, or why not all of these may be retained.

        Several messages are judged as if they shared nothing: some that are refused together may be admitted alone.
        """
        if self._is_roomy(batches):
            return ADMITTED
        growth: i64 = 0
        count: i64 = 0
        for batch in batches:
            payloads = batch.payloads()
            for row in range(batch.count):
                if not payloads[row]:
                    continue
                topic = batch.topic_of(row)
                before = self._topics.get(topic)
                more = usage_of_row(batch, row)
                if before is not None:
                    more -= before.usage_bytes
                else:
                    more += NODE_BYTES * self._topics.missing_nodes(topic)
                    count += 1
                if more > 0:
                    growth += more
        if growth > 0 and self.usage_bytes + growth > self.usage_bytes_max:
            return REFUSED_RETAINED_FULL
        if count > 0 and self._topics.count + count > self.count_max:
            return REFUSED_RETAINED_COUNT
        return ADMITTED

    def _is_roomy(self, batches: list[MessageBatch]) -> bool:
        """Return whether there is room whatever the length of the topics: mostly so, and no topic is looked up."""
        size = self.usage_bytes
        count: i64 = self._topics.count
        for batch in batches:
            size += 2 * batch.usage_bytes(durable=False) + NODE_BYTES * _levels_below(batch)
            count += batch.count
        return size <= self.usage_bytes_max and count <= self.count_max

    def limit(self, verdict: int) -> str:
        """Return the limit that a verdict refers to."""
        return str(self.count_max) if verdict == REFUSED_RETAINED_COUNT else f"{self.usage_bytes_max} bytes"

    def note_refusal(self, verdict: int, *, hears: bool) -> None:
        """Count a message that is refused, or delivered without being retained; `hears`: its publisher is told."""
        counts = self.refused if hears else self.not_retained
        counts[verdict] = counts.get(verdict, 0) + 1
        if verdict == REFUSED_RETAINED_FULL:
            self.usage_exceeded.refused(taken=self._taken_bytes, limit=self.usage_bytes_max)
        else:
            self.count_exceeded.refused(taken=self._taken_count, limit=self.count_max)

    def put(self, topic: str, message: RetainedMessage) -> None:
        """Retain a message in the place of the one on its topic. Checks no limit."""
        before = self._topics.get(topic)
        usage_before = self.usage_bytes
        self._topics.put(topic, message)
        if self.tombstones.count:
            self.tombstones.discard(topic)
        self._messages_bytes += message.usage_bytes
        if before is None:
            self._taken_count += 1
        else:
            self._messages_bytes -= before.usage_bytes
        self._taken_bytes += max(0, self.usage_bytes - usage_before)

    def row_leaves(self, row_bytes: i64) -> None:
        """Count a row, or several, that the store is to write."""
        self.unwritten_bytes += row_bytes
        self.pressure.level(self.unwritten_bytes, 0)

    def row_is_done(self, row_bytes: i64) -> list[Address]:
        """Count rows that are written, or never will be; return the publishers that may continue."""
        self.unwritten_bytes -= row_bytes
        assert self.unwritten_bytes >= 0, "a row is done once"
        return self.pressure.level(self.unwritten_bytes, 0)

    def remove(self, topic: str) -> bool:
        """Delete the retained message of a topic; return whether there was one."""
        before = self._topics.get(topic)
        if before is None:
            return False
        self._messages_bytes -= before.usage_bytes
        return self._topics.remove(topic)

    def bury(self, topic: str, version: Version, known_by: str = "") -> None:
        """Delete the retained message of a topic, if there is one, and remember that for neighbors.

        `known_by` is the neighbor that told of it.
        """
        had_message = self.remove(topic)
        self.tombstones.add(topic, version, known_by, had_message=had_message)

    def version_of(self, topic: str) -> Version:
        """Return the version of a topic's message, or of its deletion; NO_VERSION: nothing is known of it."""
        message = self._topics.get(topic)
        if message is not None:
            return message.version
        return self.tombstones.get(topic) or NO_VERSION

    def topics_after(self, wall_ms: int) -> list[str]:
        """Return the topics whose message or deletion has a version that is later than a time."""
        topics = [each.batch.topic_of(0) for each in self._topics.values() if each.version.wall_ms > wall_ms]
        return topics + [topic for topic, version in self.tombstones.items() if version.wall_ms > wall_ms]

    def restore(self, topic: str, version: Version, batch: MessageBatch | None) -> None:
        """Take over a message or a deletion that is stored."""
        self.clock.saw(version)
        if batch is None:
            self.tombstones.add(topic, version)
        else:
            self.put(topic, RetainedMessage(batch, version))

    def link(self) -> StoredRetained:
        """Return what the store has, for links; from the first call on it is kept up to date."""
        stored = self.stored
        if stored is None:
            stored = self.stored = StoredRetained(self.clock.broker, self.tombstones)
            for message in self._topics.values():
                stored.begin(message.batch.topic_of(0), message.version)
        return stored

    def unlink(self) -> None:
        """Forget what the store has: there is no link any more."""
        self.stored = None

    def forgettable(self, wall_ms: int) -> list[str]:
        """Forget deletions that need not be kept; return their topics, whose rows are to be deleted."""
        if not self.tombstones.count:
            return []
        return self.tombstones.take_finished(wall_ms, min(TOMBSTONES_MAX, self.count_max))

    def get(self, topic: str) -> RetainedMessage | None:
        """Return the retained message of a topic."""
        return self._topics.get(topic)

    def messages(self) -> list[RetainedMessage]:
        """Return all retained messages, in no order."""
        return self._topics.values()

    def scan(self, topic_filter: TopicFilter) -> RetainedScan[RetainedMessage]:
        """Return a lazy walk over the messages that the filter matches."""
        return self._topics.scan(topic_filter)

    def check(self) -> None:
        """Assert the invariants by walking everything; for tests."""
        self._topics.check()
        sizes = [int(message.usage_bytes) for message in self._topics.values()]
        assert self._messages_bytes == sum(sizes), "usage is the sum over the retained messages"

    def __repr__(self) -> str:
        return f"RetainedMessages({self._topics.count}, {self.usage_bytes} bytes)"


def usage_of_row(batch: MessageBatch, row: int) -> i64:
    """Return the usage of one message while it is retained, without the levels of its topic."""
    return batch.usage_bytes_of(row, durable=False) + text_bytes(batch.topic_of(row))


def _levels_below(batch: MessageBatch) -> i64:
    """Return a number that the levels of all topics of a batch do not exceed: each has at least a separator."""
    topics = batch.topics
    if topics is None:
        return batch.count * (len(batch.topic) + 1)
    size: i64 = len(topics)
    for topic in topics:
        size += len(topic)
    return size
