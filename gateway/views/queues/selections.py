"""Selections of messages, and the start of a replay, as request bodies have them.

They are checked once, here. The partitions decide message by message which ones are selected
(actors.partitions.jobs.operator_actions).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

from sluicegate.messaging.message.outcomes import DEAD_REASONS
from sluicegate.messaging.queues.attributes import quoted
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.messaging.queues.message_filter import MessageFilter, MessageId, parse_message_id
from sluicegate.messaging.selectors.lexer import SelectorError
from sluicegate.messaging.selectors.selector import Selector, Selectors
from sluicegate.messaging.topics.syntax import TopicError, TopicFilter, parse_filter, syntax_of

IDS_MAX: Final = 1000
LIMIT_MAX: Final = 100_000  # what a node moves well within the time limit of a request
LIMIT_DEFAULT: Final = 1000
RATE_MAX: Final = 1_000_000  # messages per second
SECONDS_MAX: Final = 0xFFFF_FFFF
SCAN_MAX: Final = 100_000  # messages that one request of a search examines
SCAN_DEFAULT: Final = 10_000
START: Final = MessageId(0, 0)  # of a search: before every message


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSelection:
    """Messages by id, or by their properties; and the queue to bring them to."""

    ids: tuple[MessageId, ...] | None = None
    topic_filter: TopicFilter | None = None
    selector: str = ""
    key: str = ""
    received_from_ms: int = 0  # wall clock; 0: any time
    received_until_ms: int = 0  # not received at that time; 0: any time
    dead_reason: str = ""
    dead_queue: str = ""
    older_than_s: int = 0
    limit: int = LIMIT_DEFAULT  # 0, for a re-drive: no limit
    rate: int = 0  # messages per second; 0: as fast as it goes
    to: str = ""

    def message_filter(self, wall_ms: int, selectors: Selectors) -> MessageFilter:
        """Return the filter of messages as of now. Raises QueueInvalid for a bad selector."""
        before_ms = wall_ms - self.older_than_s * 1000 if self.older_than_s else 0
        if self.received_until_ms:
            before_ms = min(before_ms or self.received_until_ms, self.received_until_ms)
        return MessageFilter(
            key=self.key,
            received_from_ms=self.received_from_ms,
            topic_filter=self.topic_filter,
            selector=selector_of(self.selector, selectors) if self.selector else None,
            received_before_ms=before_ms,
            dead_reason=self.dead_reason,
            dead_queue=self.dead_queue,
        )


CONDITIONS: Final = (
    *("topic", "selector", "key", "received_from", "received_until"),
    *("dead_reason", "dead_queue", "older_than_s"),
)
SELECTING: Final = (*CONDITIONS, "limit")
FIELDS_OF_DELETE: Final = ("ids", *SELECTING)
FIELDS_OF_MOVE: Final = ("to", "ids", *SELECTING)
FIELDS_OF_RETURN: Final = ("to", "ids", *SELECTING)
FIELDS_OF_REDRIVE: Final = ("to", "rate", *SELECTING)


SELECTION_SCHEMA: Final[dict[str, dict[str, object]]] = {
    "to": {
        "type": "string",
        "description": "queue to bring them to; a re-drive without it returns each message to the queue it died in",
    },
    "ids": {
        "type": "array",
        "description": "the messages with these ids, `partition:sequence`, instead of all that match the rest",
        "items": {"type": "string"},
        "minItems": 1,
        "maxItems": IDS_MAX,
    },
    "topic": {"type": "string", "description": "topic filter, in SMF or MQTT syntax"},
    "selector": {"type": "string", "description": "a selector, as in docs/concepts/selectors.md"},
    "key": {"type": "string", "description": "partition key"},
    "received_from": {"type": "string", "description": "received at this time or later, 2026-01-31T12:00:00Z"},
    "received_until": {"type": "string", "description": "received before this time"},
    "dead_reason": {"type": "string", "description": "why they died", "enum": list(DEAD_REASONS)},
    "dead_queue": {"type": "string", "description": "queue they died in"},
    "older_than_s": {
        "type": "integer",
        "description": "seconds they have been in the queue; 0: any",
        "minimum": 0,
        "maximum": SECONDS_MAX,
        "default": 0,
    },
    "limit": {
        "type": "integer",
        "description": "most messages, oldest of each partition first; 0: all",
        "minimum": 1,
        "maximum": LIMIT_MAX,
        "default": LIMIT_DEFAULT,
    },
    "rate": {
        "type": "integer",
        "description": "messages per second; 0: as fast as it goes",
        "minimum": 0,
        "maximum": RATE_MAX,
        "default": 0,
    },
}


def selection_from_dict(values: Mapping[str, object], fields: tuple[str, ...]) -> MessageSelection:
    """Return the selection of a request body with these fields. Raises QueueInvalid, which names the field."""
    for key in values:
        if key not in fields:
            raise QueueInvalid(key, "there is no such field", ", ".join(fields))
    if values.get("ids") is not None and any(values.get(each) is not None for each in SELECTING if each != "limit"):
        raise QueueInvalid("ids", "they come together with a filter", "ids, or what messages are like")
    low = 0 if "rate" in fields else 1  # a re-drive runs by itself, and may have no limit
    reason = _text(values, "dead_reason")
    if reason and reason not in DEAD_REASONS:
        raise QueueInvalid("dead_reason", f"{reason!r} is no reason", ", ".join(DEAD_REASONS))
    return MessageSelection(
        ids=_ids(values.get("ids")),
        topic_filter=_topic_filter(_text(values, "topic")),
        selector=_text(values, "selector"),
        key=_text(values, "key"),
        received_from_ms=_time_ms(values, "received_from"),
        received_until_ms=_time_ms(values, "received_until"),
        dead_reason=reason,
        dead_queue=_text(values, "dead_queue"),
        older_than_s=_number(values, "older_than_s", 0, 0, SECONDS_MAX),
        limit=_number(values, "limit", low * LIMIT_DEFAULT, low, LIMIT_MAX),
        rate=_number(values, "rate", 0, 0, RATE_MAX),
        to=_text(values, "to"),
    )


def selector_of(text: str, selectors: Selectors) -> Selector:
    """Return the selector of a text. Raises QueueInvalid."""
    try:
        return selectors.compile(text)
    except SelectorError as error:
        raise QueueInvalid("selector", f"character {error.at + 1}: {error.reason}", error.allowed) from None


def position_of(text: str) -> MessageId:
    """Return the position of a search. Raises QueueInvalid."""
    if text == START.text():
        return START
    try:
        return parse_message_id(text)
    except QueueInvalid as problem:
        raise QueueInvalid("position", f"{text!r} is not allowed", problem.allowed) from None


def _ids(given: object) -> tuple[MessageId, ...] | None:
    if given is None:
        return None
    allowed = f"a list of at most {IDS_MAX} message ids"
    if not isinstance(given, list) or not 0 < len(given) <= IDS_MAX:
        raise QueueInvalid("ids", "it is not a list of ids, is empty or too long", allowed)
    for each in given:
        if not isinstance(each, str):
            raise QueueInvalid("ids", f"{quoted(each)} is no text", allowed)
    return tuple(sorted({parse_message_id(each) for each in given}))


def _topic_filter(text: str) -> TopicFilter | None:
    try:
        return parse_filter(text, syntax_of(text)) if text else None
    except TopicError as error:
        raise QueueInvalid("topic", str(error), "a topic filter in SMF or MQTT syntax") from None


def _text(values: Mapping[str, object], name: str) -> str:
    value = values.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or not value:
        raise QueueInvalid(name, f"{quoted(value)} is not allowed", "a text that is not empty")
    return value


def _time_ms(values: Mapping[str, object], name: str) -> int:
    text = _text(values, name)
    if not text:
        return 0
    found = wall_ms_of(text)
    if found is None or found <= 0:
        raise QueueInvalid(name, f"{quoted(text)} is not allowed", "a time such as 2026-01-31T12:00:00Z")
    return found


def wall_ms_of(text: str) -> int | None:
    """Return a time of ISO 8601 as milliseconds since 1970, in UTC if it says nothing else; None if it is none."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return int((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _number(values: Mapping[str, object], name: str, default: int, low: int, high: int) -> int:
    value = values.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise QueueInvalid(name, f"{quoted(value)} is not allowed", f"a whole number from {low} to {high}")
    return value


# --- the start of a replay ---


BEGINNING: Final = "beginning"
ALLOWED: Final = "beginning, a sequence, or a time such as 2026-01-31T12:00:00Z"
SEQUENCE_MAX: Final = (1 << 63) - 1


class ReplayStart(NamedTuple):
    """A sequence, or with `since_ms` above 0 a time of the wall clock."""

    first: int = 1
    since_ms: int = 0


def replay_start(text: str) -> ReplayStart:
    """Return the start of a replay. Raises QueueInvalid for a text that is none of the three forms."""
    if text.lower() == BEGINNING:
        return ReplayStart()
    if text.isascii() and text.isdigit() and len(text) <= 19 and 1 <= int(text) <= SEQUENCE_MAX:
        return ReplayStart(first=int(text))
    since_ms = wall_ms_of(text)
    if since_ms is None:
        raise QueueInvalid("from", f"{text!r} is not allowed", ALLOWED)
    if since_ms <= 0:
        raise QueueInvalid("from", f"{text!r} is before 1970", ALLOWED)
    return ReplayStart(since_ms=since_ms)
