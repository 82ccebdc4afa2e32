"""What the two ends of remote flows tell each other: the bodies of LINK_FLOW.

Flow: links. `u8 kind | 7 times u8 0 | u64 consumer | values`, the values as a JSON list. The consumer is the number
that the consumer's broker gave to the flow. Values of later releases are at the end, and are skipped.

The consumer's broker sends BIND, CREDIT, SETTLE, ANNOTATE, RENEW, HANDOFF, DRAIN and UNBIND; the others come from the
broker that has the queue, in order with deliveries. A browser is a flow too: BROWSE binds it, and it has no credit but
what BROWSE and SHOW grant; BOUND, REFUSED, DRAIN, DRAINED, UNBIND and GONE are said of it as of consumers. ASK and
ANSWER come from either end, and so does ACT, which is answered as ASK is. READER is a request of a reader
(`reader_notes`), and CHUNK, TOLD and UNREAD are answers. MOVE is a request about a queue that changes its broker, from
either end (`protocols.network.moves`), and MOVED the answer.
"""

import struct
from typing import Any, Final, final

import orjson

_HEAD: Final = struct.Struct(">B7xQ")

BIND: Final = 1  # queue, client, user, protocol, selector, whether it acknowledges handoffs, maximum of one partition
BOUND: Final = 2  # nothing
REFUSED: Final = 3  # code, text
CREDIT: Final = 4  # messages that may be delivered in all, since BIND; those that could not be sent do not count
SETTLE: Final = 5  # partition, epoch, outcome, delivery count, cause, token (0: not durably), ranges
SETTLED: Final = 6  # token, verdict (0: it is stored), text
STATE: Final = 7  # active, partitions
ASSIGNMENT: Final = 8  # partitions: number, epoch, milliseconds left (0: not draining)
HANDOFF: Final = 9  # partitions: number, epoch
DRAIN: Final = 10  # number; 0: credit is recalled, and nothing is drained
DRAINED: Final = 11  # number, messages delivered in all, since BIND: there is no credit left
UNBIND: Final = 12  # whether what it holds counts as failed, whether the client may return
GONE: Final = 13  # reason, whether the client may bind again
RENEW: Final = 14  # partition, epoch, delivery count, ranges, token
ANNOTATE: Final = 15  # partition, epoch, delivery count, ranges, annotation (Latin-1)
BROWSE: Final = 16  # queue, client, user (null: operator), protocol, selector, messages, partition (null: all), after
SHOW: Final = 17  # further messages that a browser may show
RENEWED: Final = 18  # token, messages that the flow holds of those that it named
ASK: Final = 19  # what, names; for "consumer", the number of the question
ANSWER: Final = 20  # text, and why there is none (one is empty); the same number
READER: Final = 21  # what, queue, user, and more by what is asked; for "consumer", the number of the request
CHUNK: Final = 22  # next sequence, end of what can be read now, gaps: first, end, reason; the same number
TOLD: Final = 23  # what was asked for; the same number
UNREAD: Final = 24  # code, text; the same number
ACT: Final = 25  # what is to be done, names; for "consumer", the number of the question
MOVE: Final = 26  # what is asked about a queue that moves, the queue, and more by what is asked; its number
MOVED: Final = 27  # what was asked for, and why not (one is empty); the same number

KINDS: Final = frozenset(range(BIND, MOVED + 1))
OF_CONSUMERS: Final = frozenset({BIND, CREDIT, SETTLE, ANNOTATE, RENEW, HANDOFF, DRAIN, UNBIND, BROWSE, SHOW})

OF_MOVES: Final = frozenset({MOVE, MOVED})
OF_OPERATORS: Final = frozenset({ASK, ACT, ANSWER})
TO_READERS: Final = frozenset({CHUNK, TOLD, UNREAD})

NO_QUEUE: Final = "no_queue"  # code of REFUSED: there is no such queue
BAD_SELECTOR: Final = "bad_selector"
NUMBER_MAX: Final = (1 << 63) - 1
FLOWS_MAX: Final = 65_535  # consumers, and as many browsers, of one neighbor in one message VPN
FRAME_HEAD_BYTES: Final = 66_000  # room for everything in a frame beside the messages

Ranges = list[tuple[int, int]]


@final
class FlowNote:
    """One note. Its readers raise ValueError for values that are missing, or of another type."""

    __slots__ = ("consumer", "kind", "values")

    def __init__(self, kind: int, consumer: int, values: list[Any]) -> None:
        self.kind = kind
        self.consumer = consumer
        self.values = values

    def number(self, place: int) -> int:
        """Return a number."""
        value = self._value(place)
        if not _is_number(value):
            raise self._wrong(place)
        return int(value)

    def flag(self, place: int) -> bool:
        """Return a flag."""
        value = self._value(place)
        if not isinstance(value, bool):
            raise self._wrong(place)
        return value

    def text(self, place: int) -> str:
        """Return a text."""
        value = self._value(place)
        if not isinstance(value, str):
            raise self._wrong(place)
        return value

    def number_or_none(self, place: int) -> int | None:
        """Return a number, or None for null."""
        return None if self._value(place) is None else self.number(place)

    def text_or_none(self, place: int) -> str | None:
        """Return a text, or None for null."""
        return None if self._value(place) is None else self.text(place)

    def numbers(self, place: int) -> list[int]:
        """Return a list of numbers."""
        value = self._value(place)
        if not isinstance(value, list) or not all(_is_number(each) for each in value):
            raise self._wrong(place)
        return list(value)

    def rows(self, place: int, width: int) -> list[list[int]]:
        """Return a list of lists of so many numbers."""
        value = self._value(place)
        if not isinstance(value, list):
            raise self._wrong(place)
        found: list[list[int]] = []
        for row in value:
            if not isinstance(row, list) or len(row) != width:
                raise self._wrong(place)
            if not all(_is_number(each) for each in row):
                raise self._wrong(place)
            found.append(list(row))
        return found

    def ranges(self, place: int) -> Ranges:
        """Return half-open ranges."""
        found = [(row[0], row[1]) for row in self.rows(place, 2)]
        if not found or any(first >= end for first, end in found):
            raise self._wrong(place)
        return found

    def reasons(self, place: int) -> list[tuple[int, int, str]]:
        """Return half-open ranges, each with a text; there may be none."""
        value = self._value(place)
        if not isinstance(value, list):
            raise self._wrong(place)
        found: list[tuple[int, int, str]] = []
        for row in value:
            if not isinstance(row, list) or len(row) != 3 or not (_is_number(row[0]) and _is_number(row[1])):
                raise self._wrong(place)
            if row[0] >= row[1] or not isinstance(row[2], str):
                raise self._wrong(place)
            found.append((row[0], row[1], row[2]))
        return found

    def _value(self, place: int) -> Any:
        if place >= len(self.values):
            raise ValueError(f"LINK_FLOW of kind {self.kind} with {len(self.values)} values")
        return self.values[place]

    def _wrong(self, place: int) -> ValueError:
        return ValueError(f"LINK_FLOW of kind {self.kind}: value {place} is {self.values[place]!r:.100}")

    def __repr__(self) -> str:
        return f"FlowNote({self.kind}, {self.consumer}, {self.values})"


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= NUMBER_MAX


def note_body(kind: int, consumer: int, *values: object) -> bytes:
    """Return the bytes of a note."""
    return _HEAD.pack(kind, consumer) + orjson.dumps(values)


def note_in(body: bytes) -> FlowNote:
    """Return the note in a body. Raises ValueError."""
    if len(body) < _HEAD.size:
        raise ValueError(f"LINK_FLOW of {len(body)} bytes")
    head: tuple[int, int] = _HEAD.unpack_from(body)
    kind, consumer = head
    if kind not in KINDS:
        raise ValueError(f"LINK_FLOW of kind {kind}")
    values = orjson.loads(body[_HEAD.size :])  # its error is a ValueError
    if not isinstance(values, list):
        raise ValueError(f"LINK_FLOW of kind {kind} without a list")
    return FlowNote(kind, consumer, values)
