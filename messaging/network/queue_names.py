"""The names of queues in a network: what a broker tells its neighbors of its queues, and who has a queue of a name.

A durable queue with a name is an interest of its own kind (`InterestKind.QUEUE`), so it travels as topics do: told
once, again when it changes, compared by digests after a break, and kept by the store. Its facts are the text in place
of a share name. They say what a neighbor needs that publishes to the queue, or shows it to operators.

Names that begin with `#` or `$`, as that of the default dead message queue, are told to the other brokers of this
machine only: brokers of other machines have such queues of their own.

A name that two brokers have is in conflict: it then means the queue of the broker at hand, and none at other brokers.
Nobody decides by a clock which of two queues in use is the right one.
"""

from typing import Final, NamedTuple, final

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.refusals import (
    ADMITTED,
    REFUSED_MESSAGE_TOO_LARGE,
    REFUSED_QUEUE_FULL,
    REFUSED_SHUT_DOWN,
    REJECT_NEVER,
    refuses_publisher,
)
from sluicegate.messaging.network.interest import Interest, InterestKind
from sluicegate.messaging.network.link import LinkOutput
from sluicegate.messaging.topics.syntax import Syntax

FACTS_CHARS_MAX: Final = 500
NUMBER_MAX: Final = 1 << 62  # compiled code compares such numbers


class QueueFacts(NamedTuple):
    """What a broker tells of one of its queues."""

    access_type: str
    partition_count: int  # 0: it is not partitioned
    message_bytes_max: int  # payload
    ingress_enabled: bool
    egress_enabled: bool
    reject_behavior: int  # of messaging.message.refusals: whether publishers hear of refusals
    is_full: bool = False  # it has refused something for its quota, and still holds more than its lower threshold
    takes_named: bool = True  # its broker takes messages of other topics that name it; earlier releases do not

    def text(self) -> str:
        """Return the facts as they travel: words, each `name=value`."""
        return (
            f"access={self.access_type} partitions={self.partition_count} size={self.message_bytes_max}"
            f" in={self.ingress_enabled:d} out={self.egress_enabled:d} reject={self.reject_behavior}"
            f" full={self.is_full:d} named={self.takes_named:d}"
        )

    def verdict(self, batch: MessageBatch) -> int:
        """Return ADMITTED, or why the queue would refuse these messages to their publisher.

        What it would drop without telling the publisher is left to it.
        """
        found = self.refusal(batch)
        return found if found == ADMITTED or refuses_publisher(found, self.reject_behavior) else ADMITTED

    def limit(self, verdict: int) -> str:
        """Return the limit of the queue that a verdict refers to; empty where it is not known here."""
        return f"{self.message_bytes_max} bytes" if verdict == REFUSED_MESSAGE_TOO_LARGE else ""

    def refusal(self, batch: MessageBatch) -> int:
        """Return ADMITTED, or why the queue would not take these messages, whether their publisher is told or not."""
        if self.is_full:
            return REFUSED_QUEUE_FULL
        limit = self.message_bytes_max
        if batch.payload_bytes > limit and max([len(payload) for payload in batch.payloads()]) > limit:
            return REFUSED_MESSAGE_TOO_LARGE
        return ADMITTED if self.ingress_enabled else REFUSED_SHUT_DOWN


def facts_in(text: str) -> QueueFacts:
    """Return the facts in a text. Words of later releases are skipped. Raises ValueError."""
    if len(text) > FACTS_CHARS_MAX:
        raise ValueError(f"{len(text)} characters about a queue; at most {FACTS_CHARS_MAX} are taken")
    words: dict[str, str] = {}
    for word in text.split(" "):
        name, _, value = word.partition("=")
        words[name] = value
    try:
        return QueueFacts(
            words["access"],
            _number(words["partitions"]),
            _number(words["size"]),
            words["in"] == "1",
            words["out"] == "1",
            _number(words.get("reject", str(REJECT_NEVER))),
            words.get("full") == "1",
            words.get("named") == "1",
        )
    except (KeyError, ValueError):
        raise ValueError(f"a queue is described by {text!r:.100}") from None


def _number(text: str) -> int:
    number = int(text)
    if not 0 <= number <= NUMBER_MAX:
        raise ValueError(f"{number}; at most {NUMBER_MAX} is taken")
    return number


def is_told(name: str) -> bool:
    """Return whether brokers of other machines hear of a durable queue of this name."""
    return not name.startswith(("#", "$"))


def queue_interest(name: str, facts: QueueFacts) -> Interest:
    """Return the interest that tells of a queue."""
    return Interest(InterestKind.QUEUE, name, Syntax.MQTT, facts.text(), 0, False, True)


class QueueHome(NamedTuple):
    """A queue of a neighbor."""

    name: str
    output: LinkOutput
    facts: QueueFacts


@final
class QueueNames:
    """The queues of all neighbors of one message VPN.

    A queue may be known twice, and the latest counts: as it was and as it is, while a neighbor sends a bucket anew; and
    by the output of a link that has ended, besides the one in its place.
    """

    def __init__(self) -> None:
        self.unreadable_count = 0  # descriptions that this release does not read: the queue is unknown here
        self._homes: dict[str, dict[LinkOutput, dict[Interest, QueueFacts]]] = {}
        self._touched: dict[str, None] = {}

    def add(self, output: LinkOutput, interest: Interest) -> None:
        """Add a queue, if its description can be read."""
        try:
            facts = facts_in(interest.group)
        except ValueError:
            self.unreadable_count += 1
            return
        name = interest.topic_filter
        self._homes.setdefault(name, {}).setdefault(output, {})[interest] = facts
        self._touched[name] = None

    def discard(self, output: LinkOutput, interest: Interest) -> None:
        """Remove a queue, or what it was before."""
        name = interest.topic_filter
        homes = self._homes.get(name)
        known = None if homes is None else homes.get(output)
        if homes is None or known is None or known.pop(interest, None) is None:
            return
        self._touched[name] = None
        if not known:
            del homes[output]
        if not homes:
            del self._homes[name]

    def homes(self, name: str) -> list[QueueHome]:
        """Return every neighbor that has a queue of this name."""
        homes = self._homes.get(name, {})
        found = {each.neighbor: QueueHome(name, each, next(reversed(known.values()))) for each, known in homes.items()}
        return list(found.values())

    def only_home(self, name: str) -> QueueHome | None:
        """Return the neighbor that has the queue of this name; None where none has, or several have."""
        found = self.homes(name)
        return found[0] if len(found) == 1 else None

    def names(self) -> list[str]:
        """Return the names of all queues."""
        return sorted(self._homes)

    def take_touched(self) -> list[str]:
        """Return the names whose homes have changed since the last call."""
        touched, self._touched = list(self._touched), {}
        return touched
