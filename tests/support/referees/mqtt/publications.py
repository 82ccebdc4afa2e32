"""The publishes of MQTT clients in one life of a gateway, compared with what other clients receive.

A message is recognised by its topic and payload. If these were published more than once, nobody can tell which one
came, and the referee judges nothing by it; nor does it judge messages of another protocol or of an earlier life.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from support.referees.violations import expect

_EXPIRY: Final = 2
_UNCHANGED: Final = (1, 3, 8, 9, 38)  # format, content type, response topic, correlation data, user properties
_FIRST_OF_GROUP: Final = ("JMSXGroupFirstForConsumer", "true")  # a user property that the gateway adds
_UNFIT: Final = ("sluicegate-unfit-rule", "orders")  # the mark of the rules in tests of rules for payloads
_DELAY: Final = "sluicegate-delivery-delay-ms"  # a user property

Properties = Sequence[tuple[int, object]]


class Published(NamedTuple):
    """A PUBLISH of a client."""

    publisher: str
    number: int  # counts everything that was published or answered in this life
    qos: int
    retain: bool
    properties: Properties


class Publications:
    """Everything that was published, and when."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], Published | None] = {}  # by topic, and hash of the payload; None: several
        self._count = 0

    def now(self) -> int:
        """Return a number above all before."""
        self._count += 1
        return self._count

    def add(self, topic: str, payload: bytes, published: Published) -> None:
        key = topic, hash(payload)
        self._known[key] = published if key not in self._known else None

    def find(self, topic: str, payload: bytes) -> Published | None:
        """Return the one that a message can only be: none without a payload, for a neighbor's clients send such too."""
        if not payload:
            return None
        return self._known.get((topic, hash(payload)))


def judge_content(published: Published, properties: Properties) -> None:
    """3.3.2.3: what a publisher has said of a message comes unchanged and in its order. Raises WireViolation."""
    for identifier in _UNCHANGED:
        mine = [value for each, value in published.properties if each == identifier]
        its = [value for each, value in properties if each == identifier and value not in (_FIRST_OF_GROUP, _UNFIT)]
        expect(mine == its, "3.3.2-4, 3.3.2-15 to 3.3.2-20", "property {}: {} for {}", identifier, its, mine)
    before, now = dict(published.properties).get(_EXPIRY), dict(properties).get(_EXPIRY)
    if isinstance(before, int):
        expect(isinstance(now, int) and now <= before, "3.3.2-6", "expiry in {} s, published with {}", now, before)


class Order:
    """4.6.0-6: messages of one publisher on one topic, with one QoS, come in the order in which it published them."""

    def __init__(self) -> None:
        self._last: dict[tuple[object, ...], int] = {}

    def judge(self, published: Published, topic: str, qos: int, identifiers: Sequence[object]) -> None:
        if any(isinstance(value, tuple) and value[0] == _DELAY for _, value in published.properties):
            return  # it is out of the line on purpose
        line = published.publisher, topic, published.qos, qos, *identifiers
        last = self._last.get(line, 0)
        expect(published.number >= last, "4.6.0-6", "{} on {!r} behind number {}", published, topic, last)
        self._last[line] = published.number
