"""The exchange of retained messages between two brokers: what each has, and what one sends to the other.

All brokers of a network have the same retained messages. A broker tells its neighbors what its own clients set and
delete, when its store has it. After each connect both sides tell the digests of what they have; each lists the topics
and versions in the buckets that differ, and the other asks for the messages that it lacks. Nothing depends on order,
and everything may come twice: of two versions the later one wins everywhere.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from itertools import chain
from typing import Final, NamedTuple, final

import xxhash

from sluicegate.messaging.network.digests import BUCKETS, DIGEST_MASK, DigestSet, bucket_of, in_bucket
from sluicegate.messaging.network.retained.tombstones import Tombstones
from sluicegate.messaging.network.retained.versions import AHEAD_MS_MAX, Version, VersionClock

ENTRIES_MAX: Final = 1000  # in one list


class RetainedEntry(NamedTuple):
    """A topic, the version of its message, and whether that is deleted."""

    topic: str
    version: Version
    is_deleted: bool


def stays_local(topic: str) -> bool:
    """Return whether what is retained on a topic never crosses a link: it begins with `$` or `#`."""
    return topic[:1] in ("$", "#")


def topic_hash(topic: str) -> int:
    """Return the hash that chooses the bucket of a topic; the same on every broker."""
    return xxhash.xxh3_64_intdigest(topic.encode("utf-8", "surrogatepass"))


def entry_hash(topic: str, version: Version) -> int:
    """Return the hash of a topic with the version of its message, in the bucket of the topic."""
    text = f"{version.wall_ms}\0{version.counter}\0{version.broker}\0{topic}"
    return in_bucket(topic_hash(topic), xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass")))


@final
class StoredRetained:
    """What the store has of the retained messages of a message VPN, for its links; it exists while there are any.

    Topics that stay local are left out. Invariant: the digests are those of `versions`.
    """

    def __init__(self, broker: str, tombstones: Tombstones) -> None:
        self.versions: Final[dict[str, Version]] = {}  # of messages, by topic
        self.tombstones: Final = tombstones
        self.senders: Final[list[RetainedSender]] = []
        self._broker = broker
        self._set: Final[DigestSet[str]] = DigestSet()
        self._refused: dict[str, None] = {}  # topics whose message is in force, and which the store did not take
        self._relearned: dict[str, None] = {}  # topics whose deletion a neighbor has listed: the others may lack it too
        self._unstored: dict[str, int] = {}  # topics -> rows of them that the store was given, and is not done with
        self.posted_count = 0  # groups of rows that the store was given
        self.done_count = 0  # of these, the first ones: each is written or refused
        self._done_early: set[int] = set()  # numbers of later ones that are, too

    @property
    def digests(self) -> list[int]:
        """The digest of each bucket."""
        return self._set.digests

    def digests_to_tell(self, digests: list[int]) -> list[int]:
        """Return the digests for a neighbor, of those of all that crosses; none: there is nothing.

        Where a topic's message or deletion is in force and not stored yet, the digest of its bucket is one that no
        neighbor has, which makes the neighbor list the bucket. With the digest of what is stored, a neighbor could take
        it that its deletion is known here, and forget it, while an older message is still on its way to the store.
        """
        unstored = {bucket_of(topic_hash(topic)) for topic in chain(self._unstored, self._refused)}
        if not self.versions and not unstored:
            return []
        return [digest ^ DIGEST_MASK if number in unstored else digest for number, digest in enumerate(digests)]

    def bucket(self, number: int) -> list[str]:
        """Return the topics of a bucket that have a message."""
        return self._set.bucket(number)

    def begin(self, topic: str, version: Version) -> None:
        """Take over a message that is stored."""
        if not stays_local(topic):
            digest = entry_hash(topic, version)
            self.versions[topic] = version
            self._set.put(topic, digest)
            for sender in self.senders:
                sender.add_digest(topic, digest)

    def _end(self, topic: str) -> None:
        """Note that the store has the message of a topic no longer, if it had one."""
        version = self.versions.pop(topic, None)
        if version is not None:
            digest = entry_hash(topic, version)
            self._set.remove_from(bucket_of(digest), topic)
            for sender in self.senders:
                sender.remove_digest(topic, digest)

    def stored(self, entry: RetainedEntry) -> None:
        """Note what the store has now and is in force, and tell neighbors if it is this broker's own."""
        topic, version, is_deleted = entry
        if stays_local(topic):
            return
        if self.versions.get(topic) == version:
            return
        self._end(topic)
        if not is_deleted:
            self.begin(topic, version)
        is_told = version.broker == self._broker
        if topic in self._relearned:
            del self._relearned[topic]
            is_told = is_told or is_deleted
        for sender in self.senders:
            is_owed = sender.pay_debt(topic)
            if is_told or is_owed:
                sender.changed(topic)

    def relearned(self, topic: str) -> None:
        """Note a deletion that a neighbor has listed: a message that was deleted had come back, from a backup.

        The other neighbors may have it back as well, and have forgotten the deletion, as this broker had.
        """
        self._relearned[topic] = None

    def posted(self, topics: list[str]) -> int:
        """Note a group of rows that the store is given; return its number.

        The store may be done with later groups before: it writes deletions again until they are stored.
        """
        self.posted_count += 1
        unstored = self._unstored
        for topic in topics:
            if not stays_local(topic):
                unstored[topic] = unstored.get(topic, 0) + 1
        return self.posted_count

    def done(self, number: int, topics: list[str]) -> None:
        """Note that the store is done with the rows of a group, and that what they say was noted."""
        self._done_early.add(number)
        while self.done_count + 1 in self._done_early:
            self.done_count += 1
            self._done_early.remove(self.done_count)
        unstored = self._unstored
        for topic in topics:
            count = unstored.get(topic, 0)
            if count > 1:
                unstored[topic] = count - 1
            elif count:
                del unstored[topic]
        for sender in self.senders:
            if sender.is_waited_for:
                sender.on_change()

    def refused(self, topic: str) -> None:
        """Note that the store has not taken the message of a topic."""
        self._refused[topic] = None

    def is_unstored(self, topic: str) -> bool:
        """Return whether the store does not have what is in force for a topic."""
        return topic in self._unstored or topic in self._refused

    @property
    def has_refused(self) -> bool:
        """Whether there are topics that the store has not taken."""
        return bool(self._refused)

    def take_refused(self) -> list[str]:
        """Return the topics that the store has not taken, once."""
        topics = list(self._refused)
        self._refused.clear()
        return topics

    def removed(self, topic: str) -> None:
        """Note that the store has deleted a message without a deletion: it could not be replaced, for want of room."""
        self._end(topic)
        for sender in self.senders:
            sender.pay_debt(topic)

    def check(self) -> None:
        """Assert the invariants; for tests."""
        assert _digests_of(self.versions) == self.digests, "the digests are not those of the versions"
        for sender in self.senders:
            sender.check()


def _digests_of(versions: dict[str, Version]) -> list[int]:
    """Return the digest of each bucket of messages."""
    digests = [0] * BUCKETS
    for topic, version in versions.items():
        digest = entry_hash(topic, version)
        digests[bucket_of(digest)] = (digests[bucket_of(digest)] + digest) & DIGEST_MASK
    return digests


@final
class RetainedMark:
    """All that was retained up to a moment, on its way to one neighbor."""

    __slots__ = ("changes_count", "rows_count")

    def __init__(self, rows_count: int) -> None:
        self.rows_count = rows_count  # that the store had been given
        self.changes_count = -1  # that the sender had, when the store was done with these rows; -1: it was not yet


@final
class RetainedSender:
    """Decides what to send to one neighbor: lists of what it may lack, and messages and deletions.

    Invariant: with export rules, `_exported` are the digests of what the store has on the topics that cross.
    """

    def __init__(self, neighbor: str, stored: StoredRetained, exports: Callable[[str], bool] | None) -> None:
        """`exports` says which topics cross the link; None: all."""
        self.sent_number = 0
        self.acknowledged_number = 0
        self.on_change: Callable[[], None] = _nothing  # called when there is more to send
        self.is_waited_for = False  # somebody has a mark that is not passed: `on_change` is called for progress as well
        self._changed_count = 0  # topics that came into `_changed`
        self._taken_count = 0  # and left it, in the same order
        self._neighbor = neighbor
        self._stored = stored
        self._exports = exports
        self._is_connected = False
        self._buckets: list[int] = []  # that are still to be listed
        self._listing: deque[RetainedEntry] = deque()
        # Topics. A dict walks over all that it has given up already to find its first.
        self._changed: OrderedDict[str, None] = OrderedDict()
        self._owed: dict[str, None] = {}  # topics that were to be sent when there was a later message, not stored yet
        self._unanswered: deque[tuple[int, list[RetainedEntry]]] = deque()  # deletions that were sent
        self._exported: Final = self._digests_of_exported()

    def connected(self) -> None:
        """Begin on a new connection: nothing that was sent before counts."""
        self.disconnected()
        self._is_connected = True
        self.sent_number = self.acknowledged_number = 0

    def disconnected(self) -> None:
        """Send nothing until the neighbor is back."""
        self._is_connected = False
        self._buckets = []
        self._listing.clear()
        self._changed.clear()
        self._taken_count = self._changed_count
        self._owed.clear()
        self._unanswered.clear()

    @property
    def is_idle(self) -> bool:
        """Whether everything was sent, and the neighbor has stored it."""
        return (
            not (self._buckets or self._listing or self._changed or self._owed)
            and self.acknowledged_number == self.sent_number
        )

    def told(self, digests: list[int]) -> None:
        """Take the digests of what the neighbor has: 256, else ValueError is raised."""
        if len(digests) != BUCKETS:
            raise ValueError(f"{len(digests)} digests of retained messages; there are {BUCKETS}")
        own = self._stored.digests if self._exports is None else self._exported
        self._buckets = [number for number in range(BUCKETS - 1, -1, -1) if digests[number] != own[number]]
        differing = set(self._buckets)
        stored = self._stored
        # With equal digests only what the neighbor may not know matters: others are known there, and are not listed.
        deletions = stored.tombstones.items() if differing else stored.tombstones.untold(self._neighbor)
        for topic, version in deletions:
            if stays_local(topic) or not self._crosses(topic) or topic in stored.versions:
                continue
            if bucket_of(topic_hash(topic)) in differing:
                self._listing.append(RetainedEntry(topic, version, True))
            else:
                stored.tombstones.is_known(self._neighbor, topic, version)  # the neighbor has no message there

    def add_digest(self, topic: str, digest: int) -> None:
        """Note that the store has a message, by its hash."""
        if self._exports is not None and self._exports(topic):
            number = bucket_of(digest)
            self._exported[number] = (self._exported[number] + digest) & DIGEST_MASK

    def remove_digest(self, topic: str, digest: int) -> None:
        """Note that the store has a message no longer, by its hash."""
        if self._exports is not None and self._exports(topic):
            number = bucket_of(digest)
            self._exported[number] = (self._exported[number] - digest) & DIGEST_MASK

    def digests_to_tell(self) -> list[int]:
        """Return the digests for the neighbor, of what crosses; none: there is nothing."""
        return self._stored.digests_to_tell(self._stored.digests if self._exports is None else self._exported)

    def changed(self, topic: str) -> None:
        """Send a topic's message or deletion."""
        if self._is_connected and self._crosses(topic):
            if topic not in self._changed:
                self._changed[topic] = None
                self._changed_count += 1
            self.on_change()

    def wanted(self, topics: list[str]) -> None:
        """Send what the neighbor asks for, if it is there still."""
        for topic in topics:
            if topic in self._stored.versions or self._stored.tombstones.get(topic) is not None:
                self.changed(topic)

    def owe(self, topic: str) -> None:
        """Send a topic's message when the store has the later one that is in force."""
        self._owed[topic] = None

    def pay_debt(self, topic: str) -> bool:
        """Forget that a topic's message is owed; return whether it was."""
        if topic in self._owed:
            del self._owed[topic]
            return True
        return False

    def next_listed(self) -> RetainedEntry | None:
        """Return the next of what the neighbor may lack; None: it was told everything. It stays the next."""
        listing = self._listing
        while self._buckets and not listing:
            for topic in self._stored.bucket(self._buckets.pop()):
                if self._crosses(topic):
                    listing.append(RetainedEntry(topic, self._stored.versions[topic], False))
        return listing[0] if listing else None

    def listed(self) -> None:
        """Note that the next of these is in a list, or is left out."""
        self._listing.popleft()

    def next_changed(self) -> RetainedEntry | None:
        """Return the next message or deletion to send, as the store has it; None: there is none. It stays the next."""
        stored = self._stored
        while self._changed:
            topic = next(iter(self._changed))
            version = stored.versions.get(topic)
            if version is not None:
                return RetainedEntry(topic, version, False)
            version = stored.tombstones.get(topic)
            if version is not None:
                return RetainedEntry(topic, version, True)
            self.took(topic)
        return None

    def took(self, topic: str) -> None:
        """Note that the next message or deletion is in a part, or is not sent."""
        del self._changed[topic]
        self._taken_count += 1

    def mark(self) -> RetainedMark:
        """Return a mark of all that is retained here now."""
        return RetainedMark(self._stored.posted_count)

    def has_passed(self, mark: RetainedMark) -> bool:
        """Return whether all of it is in parts, as far as it is sent while it changes; True without a connection."""
        if not self._is_connected:
            return True
        if self._stored.done_count < mark.rows_count:
            return False
        if mark.changes_count < 0:
            mark.changes_count = self._changed_count
        return self._taken_count >= mark.changes_count

    def sent(self, entries: list[RetainedEntry]) -> int:
        """Number what is sent; return the number, which the neighbor acknowledges when it has stored it."""
        self.sent_number += 1
        deleted = [each for each in entries if each.is_deleted]
        if deleted:
            self._unanswered.append((self.sent_number, deleted))
        return self.sent_number

    def acknowledged(self, number: int) -> None:
        """Note that the neighbor has everything up to a number. Raises ValueError for one that was not sent."""
        if not self.acknowledged_number <= number <= self.sent_number:
            raise ValueError(f"{number} is acknowledged; sent are {self.acknowledged_number} to {self.sent_number}")
        self.acknowledged_number = number
        while self._unanswered and self._unanswered[0][0] <= number:
            for entry in self._unanswered.popleft()[1]:
                self._stored.tombstones.is_known(self._neighbor, entry.topic, entry.version)

    def _crosses(self, topic: str) -> bool:
        return self._exports is None or self._exports(topic)

    def _digests_of_exported(self) -> list[int]:
        """Return the digests of what crosses, where that is not all: else none."""
        if self._exports is None:
            return []
        versions = self._stored.versions
        return _digests_of({topic: version for topic, version in versions.items() if self._crosses(topic)})

    def check(self) -> None:
        """Assert the invariant; for tests."""
        assert self._exported == self._digests_of_exported(), "the digests are not those of what crosses"


@final
class RetainedReceiver:
    """Decides what to take of what one neighbor sends, and counts what it does not take."""

    def __init__(self, clock: VersionClock) -> None:
        self.ahead_count = 0  # versions too far ahead of this broker's clock
        self.local_count = 0  # topics that never cross a link
        self.outdated_count = 0  # sent, and there was the same or a later one
        self._clock = clock

    def takes(self, entry: RetainedEntry, known: Version, wall_ms: int, *, is_listed: bool) -> bool:
        """Return whether a message or deletion wins over what is known of its topic; its version is seen then.

        `is_listed`: the neighbor has only told of it, with others, and has not sent it.
        """
        if stays_local(entry.topic):
            self.local_count += 1
            return False
        if entry.version.wall_ms > wall_ms + AHEAD_MS_MAX:
            self.ahead_count += 1
            return False
        if not entry.version.is_after(known):
            self.outdated_count += not is_listed
            return False
        self._clock.saw(entry.version)
        return True


def _nothing() -> None:
    """Nobody sends yet."""
