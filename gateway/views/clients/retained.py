"""Retained messages as operators see them."""

import base64
from dataclasses import dataclass
from typing import Final, Literal

RETAINED_MAX: Final = 10_000  # of one answer
RETAINED_DEFAULT: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RetainedMessageView:
    """The retained message of one topic, without its payload."""

    topic: str
    size_bytes: int  # of the payload
    qos: int
    publisher: str  # the client; empty: the broker, or unknown since a restart
    published_ms: int  # wall clock
    expires_ms: int | None  # wall clock; None: never
    content_type: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetainedMessagesView:
    """One page of retained messages, by topic."""

    total_count: int  # of those that were asked for, on this page or not
    messages: tuple[RetainedMessageView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetainedContentView:
    """A retained message with its payload, and the beginning of its properties."""

    message: RetainedMessageView
    payload: str
    payload_encoding: Literal["text", "base64"]  # base64: it is no UTF-8
    correlation_id: str | None
    reply_to: str | None
    user_properties: tuple[tuple[str, str], ...]  # in the publisher's order, names may repeat
    properties_truncated: bool = False  # one of these texts is cut, or user properties are left out


@dataclass(frozen=True, slots=True, kw_only=True)
class RetainedQuery:
    """Which retained messages to return.

    `topic` is a topic filter of MQTT if it has `+` or `#`, which no topic has. Without them it is a pattern of topics:
    `*` stands for any characters, `?` for one. Empty: all. As in MQTT, topics that begin with `$` are only found by a
    filter or a pattern that begins with it [MQTT 4.7.2-1].
    """

    topic: str = ""
    after: int = 0  # messages to pass over
    limit: int = RETAINED_DEFAULT


def whole_payload(payload: bytes) -> tuple[str, Literal["text", "base64"]]:
    """Return a payload as text where it is UTF-8, else in base64."""
    try:
        return payload.decode(), "text"
    except UnicodeDecodeError:
        return base64.b64encode(payload).decode("ascii"), "base64"
