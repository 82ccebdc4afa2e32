"""The interest of a broker: the topics that its clients and queues want, as its neighbors hear of them.

A neighbor needs to know whether somebody wants a topic, and not how many do. So equal subscriptions are one interest
with a count that stays here, and only the first and the last of them travel.

Brokers compare their sets of interests by digests (`messaging.network.digests`).
"""

from enum import IntEnum
from typing import Final, NamedTuple, final

import xxhash

from sluicegate.messaging.network.digests import DigestSet, bucket_of, in_bucket
from sluicegate.messaging.topics.syntax import (
    ANY_LEVEL,
    LITERAL,
    PREFIX,
    REST,
    REST_OR_NONE,
    SMF_TOPIC_BYTES_MAX,
    SMF_TOPIC_LEVELS_MAX,
    Level,
    Syntax,
    TopicFilter,
    in_mqtt_syntax,
    parse_filter,
    queue_topic_filter,
)


class InterestKind(IntEnum):
    """What a neighbor has to send. The numbers are those of the wire."""

    SUBSCRIBERS = 1  # messages of the topic, for all clients and queues that want them
    SHARED = 2  # messages of the topic, for one member of a group
    QUEUE = 3  # messages for a queue by its name (messaging.network.queue_names)


class Interest(NamedTuple):
    """One thing that a broker wants.

    A client with Deliver-To-One priority P1 to P4 wants all ordinary messages, and a Deliver-To-One message only if no
    client nearer to the publisher, or with a better priority, gets it.
    """

    kind: InterestKind
    topic_filter: str  # see `text_of`; of QUEUE its name
    syntax: Syntax
    group: str  # the share name of SHARED, the facts of QUEUE, else empty
    priority: int  # of SUBSCRIBERS for Deliver-To-One: 1 (the best) to 4; 0: deliver always
    # Every subscription of it has a selector, or its client is away: some messages of the topic are wanted by nobody.
    selects: bool
    # A queue or a subscription of QoS 1 or 2 wants it: guaranteed messages are stored for the neighbor.
    is_guaranteed: bool = False

    def hash(self) -> int:
        """Return the 64 bits that stand for it in digests; the same on every broker.

        What the same clients or the same queue want at another time is in the same bucket: a bucket is told as a whole,
        and so the one interest begins where the other one ends.
        """
        group = "" if self.kind == InterestKind.QUEUE else self.group
        place = f"{self.kind:d}\0{self.syntax.value}\0{group}\0{self.topic_filter}"
        text = f"{place}\0{self.priority}\0{self.selects:d}{self.is_guaranteed:d}\0{self.group}"
        return in_bucket(_hash(place), _hash(text))

    def text_bytes(self) -> int:
        """Return about how many bytes it has in a notice."""
        return 16 + len(f"{self.group}{self.topic_filter}".encode("utf-8", "surrogatepass"))

    def filter(self) -> TopicFilter:
        """Return the parsed filter. Raises TopicError for one that this broker does not accept."""
        if self.kind == InterestKind.QUEUE:
            return queue_topic_filter(self.topic_filter)
        return parse_filter(self.topic_filter, self.syntax)


def _hash(text: str) -> int:
    return xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass"))


def subscribers(
    topic_filter: TopicFilter, priority: int, *, selects: bool = False, is_guaranteed: bool = False
) -> Interest | None:
    """Return the interest of a subscription. None: no broker could parse its filter."""
    return _interest(InterestKind.SUBSCRIBERS, topic_filter, "", priority, selects, is_guaranteed)


def shared(topic_filter: TopicFilter, group: str, *, selects: bool = False) -> Interest | None:
    """Return the interest of a shared group. None: no broker could parse its filter."""
    return _interest(InterestKind.SHARED, topic_filter, group, 0, selects, False)


def _interest(
    kind: InterestKind, topic_filter: TopicFilter, group: str, priority: int, selects: bool, is_guaranteed: bool
) -> Interest | None:
    written = text_of(topic_filter)
    if written is None:
        return None
    # Calling the class would run the interpreted constructor of a named tuple, for each client that subscribes.
    return tuple.__new__(Interest, (kind, written[0], written[1], group, priority, selects, is_guaranteed))


def text_of(topic_filter: TopicFilter) -> tuple[str, Syntax] | None:
    """Return a filter as it travels: equal filters have equal texts, whatever syntax their clients used.

    That is SMF's syntax, or MQTT's where SMF cannot express the filter. None: neither can, as for `$queue/+*`, the
    topic of a queue.
    """
    if _fits_smf(topic_filter.levels):
        if topic_filter.is_literal:
            text = topic_filter.text
        else:
            text = "/".join([_SMF_WORDS.get(each.kind, each.text) for each in _without_prefixes(topic_filter.levels)])
        # A character is four bytes at most.
        if len(text) * 4 <= SMF_TOPIC_BYTES_MAX or len(text.encode("utf-8", "surrogatepass")) <= SMF_TOPIC_BYTES_MAX:
            return text, Syntax.SMF
    if all(_fits_mqtt(level) for level in topic_filter.levels):
        return in_mqtt_syntax(topic_filter), Syntax.MQTT
    return None


_SMF_WORDS: Final[dict[int, str]] = {ANY_LEVEL: "*", REST: ">"}


def _without_prefixes(levels: tuple[Level, ...]) -> list[Level]:
    return [Level(LITERAL, each.text + "*") if each.kind == PREFIX else each for each in levels]


def _fits_smf(levels: tuple[Level, ...]) -> bool:
    if len(levels) > SMF_TOPIC_LEVELS_MAX or levels[-1].kind == REST_OR_NONE:
        return False
    if levels[-1].kind == LITERAL and levels[-1].text == ">":
        return False
    return all(each.text != "" and not each.text.endswith("*") for each in levels if each.kind == LITERAL)


def _fits_mqtt(level: Level) -> bool:
    if level.kind == LITERAL:
        return "+" not in level.text and "#" not in level.text
    return level.kind not in (PREFIX, REST)


class Change(NamedTuple):
    """Interests that begin and end together."""

    added: list[Interest]
    removed: list[Interest]


@final
class InterestSet(DigestSet[Interest]):
    """A set of interests with its digests."""

    def __contains__(self, interest: Interest) -> bool:
        return self.is_in(bucket_of(interest.hash()), interest)

    def add(self, interest: Interest) -> bool:
        """Add an interest; return whether it is new."""
        return self.put(interest, interest.hash())

    def discard(self, interest: Interest) -> bool:
        """Remove an interest; return whether it was there."""
        return self.remove_from(bucket_of(interest.hash()), interest)

    def replace(self, number: int, interests: list[Interest]) -> Change:
        """Make these the interests of a bucket; return the difference. Raises ValueError for one of another bucket."""
        for interest in interests:
            if bucket_of(interest.hash()) != number:
                raise ValueError(f"{interest} is not in bucket {number}")
        wanted = dict.fromkeys(interests)
        removed = [each for each in self._buckets[number] if each not in wanted]
        added = [each for each in wanted if each not in self._buckets[number]]
        for interest in removed:
            self.discard(interest)
        for interest in added:
            self.add(interest)
        return Change(added, removed)


@final
class InterestCounts:
    """Interests, each with the number of subscriptions that ask for it."""

    def __init__(self) -> None:
        self._counts: dict[Interest, int] = {}

    def begin(self, interest: Interest) -> bool:
        """Count one more subscription; return whether it is the first."""
        count = self._counts.get(interest, 0)
        self._counts[interest] = count + 1
        return count == 0

    def end(self, interest: Interest) -> bool:
        """Count one subscription less; return whether it was the last."""
        count = self._counts[interest] - 1
        if count:
            self._counts[interest] = count
            return False
        del self._counts[interest]
        return True

    def all(self) -> list[Interest]:
        """Return all interests."""
        return list(self._counts)
