"""Messages that operators publish, and messages on the topics that they watch."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from sluicegate.messaging.message.headers import (
    PARTITION_KEY_BYTES_MAX,
    PRIORITY_DEFAULT,
    PRIORITY_MAX,
    USER_PROPERTIES_MAX,
    UserPropertyValue,
)
from sluicegate.messaging.queues.attributes import quoted
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.messaging.topics.syntax import TopicError, check_published_topic, queue_topic

COUNT_MAX: Final = 1000  # copies of one request
EXPIRY_MS_MAX: Final = 0xFFFF_FFFF
COPIES_BYTES_MAX: Final = 64 << 20  # payloads of one request
PERSISTENT: Final = "persistent"
DIRECT: Final = "direct"
ENCODINGS: Final = ("text", "base64")

PUBLISH_PROPERTIES: Final[dict[str, object]] = {
    "topic": {"type": "string", "description": "topic to publish to; omit it with `queue`"},
    "queue": {"type": "string", "description": "queue to send to, instead of a topic"},
    "payload": {"type": "string", "default": ""},
    "payload_encoding": {"type": "string", "enum": list(ENCODINGS), "default": "text"},
    "delivery_mode": {
        "type": "string",
        "enum": [PERSISTENT, DIRECT],
        "default": PERSISTENT,
        "description": "persistent: answered when it is safe, QoS 1; direct: to those who are connected, QoS 0",
    },
    "key": {"type": "string", "description": "partition key"},
    "content_type": {"type": "string"},
    "reply_to": {"type": "string", "description": "topic for replies"},
    "correlation_id": {"type": "string"},
    "priority": {"type": "integer", "minimum": 0, "maximum": PRIORITY_MAX, "default": PRIORITY_DEFAULT},
    "expiry_ms": {
        "type": "integer",
        "minimum": 0,
        "maximum": EXPIRY_MS_MAX,
        "default": 0,
        "description": "milliseconds until it expires; 0: never",
    },
    "retain": {
        "type": "boolean",
        "default": False,
        "description": "retained on its topic; with an empty payload, deletes what is retained there",
    },
    "properties": {
        "type": "object",
        "description": "user properties: texts, numbers, true or false",
        "additionalProperties": {"type": ["string", "number", "boolean"]},
    },
    "count": {"type": "integer", "minimum": 1, "maximum": COUNT_MAX, "default": 1, "description": "copies to publish"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorMessage:
    """A message that an operator publishes, and how often."""

    topic: str  # that of the queue for a message to a queue
    payload: bytes = b""
    is_text: bool = True
    is_direct: bool = False
    key: str | None = None
    content_type: str | None = None
    reply_to: str | None = None
    correlation_id: str | None = None
    priority: int = PRIORITY_DEFAULT
    expiry_ms: int = 0  # 0: never
    retain: bool = False
    properties: tuple[tuple[str, UserPropertyValue], ...] = ()
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedView:
    """What became of the messages that an operator published."""

    published_count: int  # safe, or sent if they are direct
    unmatched_count: int  # of those: nobody got them, because nobody subscribes
    refused_count: int  # not published: those behind the first refusal
    refusal: str  # why; empty: none was refused


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedMessageView:
    """A message on a topic that an operator watches, with the beginning of its payload and its properties."""

    topic: str
    publisher: str  # the client; empty: unknown
    received_ms: int  # wall clock: when this broker got it
    qos: int
    retain: bool
    key: str | None
    content_type: str | None
    reply_to: str | None
    correlation_id: str | None
    properties: tuple[tuple[str, str], ...]
    properties_truncated: bool  # one of the texts is cut, or properties are left out
    size_bytes: int  # of the whole payload
    payload: str
    payload_encoding: Literal["text", "base64"]
    payload_truncated: bool
    dropped_count: int  # messages since the one before that are not shown: there were too many


def message_from_dict(values: Mapping[str, object]) -> OperatorMessage:
    """Return the message of a request body. Raises QueueInvalid, which names the field."""
    for name in values:
        if name not in PUBLISH_PROPERTIES:
            raise QueueInvalid(name, "there is no such field", ", ".join(PUBLISH_PROPERTIES))
    mode = _word(values, "delivery_mode", (PERSISTENT, DIRECT))
    encoding = _word(values, "payload_encoding", ENCODINGS)
    key, queue = _text(values, "key"), _text(values, "queue")
    if key is not None and len(key.encode()) > PARTITION_KEY_BYTES_MAX:
        raise QueueInvalid("key", "it is too long", f"at most {PARTITION_KEY_BYTES_MAX} bytes of UTF-8")
    retain = _truth(values, "retain")
    if retain and queue is not None:
        raise QueueInvalid("retain", "a queue retains nothing", "false, or a topic")
    message = OperatorMessage(
        topic=_destination(_text(values, "topic"), queue),
        payload=_payload(values.get("payload", ""), encoding),
        is_text=encoding == "text",
        is_direct=mode == DIRECT,
        key=key or None,
        content_type=_text(values, "content_type") or None,
        reply_to=_reply_to(values),
        correlation_id=_text(values, "correlation_id") or None,
        priority=_number(values, "priority", 0, PRIORITY_MAX, PRIORITY_DEFAULT),
        expiry_ms=_number(values, "expiry_ms", 0, EXPIRY_MS_MAX, 0),
        retain=retain,
        properties=_properties(values.get("properties")),
        count=_number(values, "count", 1, COUNT_MAX, 1),
    )
    if message.count * len(message.payload) > COPIES_BYTES_MAX:
        raise QueueInvalid("count", "the copies are too large together", f"payloads of {COPIES_BYTES_MAX} bytes in all")
    return message


def _destination(topic: str | None, queue: str | None) -> str:
    if bool(topic) == bool(queue):
        raise QueueInvalid("topic", "give a topic or a queue, not both", "topic, or queue")
    if queue:
        return queue_topic(queue)
    return _checked_topic("topic", topic or "")


def _reply_to(values: Mapping[str, object]) -> str | None:
    given = _text(values, "reply_to")
    return _checked_topic("reply_to", given) if given else None


def _checked_topic(field: str, topic: str) -> str:
    try:
        check_published_topic(topic)
    except TopicError as error:
        raise QueueInvalid(field, str(error), "a topic without wildcards") from None
    return topic


def _payload(given: object, encoding: str) -> bytes:
    if not isinstance(given, str):
        raise QueueInvalid("payload", f"{quoted(given)} is no text", "a text")
    if encoding == "text":
        return given.encode(errors="surrogatepass")
    try:
        return base64.b64decode(given, validate=True)
    except (binascii.Error, ValueError) as problem:
        raise QueueInvalid("payload", f"it is not base64: {problem}", "base64") from None


def _properties(given: object) -> tuple[tuple[str, UserPropertyValue], ...]:
    allowed = f"at most {USER_PROPERTIES_MAX} names, each with a text, a number, true or false"
    if given is None:
        return ()
    if not isinstance(given, dict) or len(given) > USER_PROPERTIES_MAX:
        raise QueueInvalid("properties", f"{quoted(given)} is not allowed", allowed)
    for name, value in given.items():
        if not name or not isinstance(value, (str, int, float, bool)):
            raise QueueInvalid("properties", f"{name!r}: {quoted(value)} is not allowed", allowed)
    return tuple(given.items())


def _text(values: Mapping[str, object], name: str) -> str | None:
    value = values.get(name)
    if value is not None and not isinstance(value, str):
        raise QueueInvalid(name, f"{quoted(value)} is not allowed", "a text")
    return value


def _word(values: Mapping[str, object], name: str, allowed: tuple[str, ...]) -> str:
    value = values.get(name, allowed[0])
    if not isinstance(value, str) or value not in allowed:
        raise QueueInvalid(name, f"{quoted(value)} is not allowed", ", ".join(allowed))
    return value


def _truth(values: Mapping[str, object], name: str) -> bool:
    value = values.get(name, False)
    if not isinstance(value, bool):
        raise QueueInvalid(name, f"{quoted(value)} is not allowed", "true or false")
    return value


def _number(values: Mapping[str, object], name: str, low: int, high: int, default: int) -> int:
    value = values.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise QueueInvalid(name, f"{quoted(value)} is not allowed", f"a whole number from {low} to {high}")
    return value
