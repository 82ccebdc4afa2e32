"""Views of messages of a queue, and of what operators do to them: actions on selected messages, and re-drives."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from sluicegate.messaging.message.headers import PRIORITY_DEFAULT, UserPropertyValue

PREVIEW_BYTES_MAX: Final = 4096  # of one payload; a page of 100 messages stays below half a megabyte
PROPERTIES_CHARS_MAX: Final = 4096  # of names and values of the user properties of one message
TEXT_CHARS_MAX: Final = 1024  # of each other property: in AMQP and the flow protocol they may have megabytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DeathView:
    """Why a message is in a dead message queue."""

    reason: str  # expired, max_redelivery_exceeded, rejected or undeliverable
    queue: str  # where it died
    partition: int
    delivery_count: int
    time_ms: int  # wall clock
    client: str | None = None  # the last consumer that held it
    cause: str | None = None  # what that consumer gave as the reason when it rejected the message
    via: tuple[str, ...] = ()  # dead message queues it has left since


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePropertiesView:
    """What a message carries beside topic, key and payload, under one name for all protocols. Long texts are cut."""

    priority: int = PRIORITY_DEFAULT  # 0 to 9
    expires_ms: int | None = None  # wall clock; None: never
    not_before_ms: int | None = None  # wall clock: no queue delivers it earlier; None: at once
    content_type: str | None = None
    message_id: str | None = None
    correlation_id: str | None = None
    reply_to: str | None = None  # a topic, or a queue: `#q/` and its name
    sent_ms: int | None = None  # wall clock of the sender; None: not set
    dmq_eligible: bool = False
    user_id: str | None = None  # AMQP: user-id
    reply_to_group_id: str | None = None  # AMQP: reply-to-group-id
    user_properties: tuple[tuple[str, str], ...] = ()  # in the publisher's order, names may repeat
    truncated: bool = False  # a text is cut, or user properties are left out


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageView:
    """A message in a queue, with the beginning of its payload and of its user properties."""

    id: str  # `partition:sequence`
    partition: int
    sequence: int
    topic: str
    size_bytes: int  # of the whole payload
    delivery_count: int  # times it was handed to a consumer
    received_ms: int  # wall clock
    key: str | None = None  # partition key
    payload: str = ""
    payload_encoding: Literal["text", "base64"] = "text"
    payload_truncated: bool = False
    qos: int = 1  # 0, 1 or 2, as published
    publisher: str = ""  # the client; empty: unknown
    properties: MessagePropertiesView = MessagePropertiesView()
    dead: DeathView | None = None
    broker: str = ""  # the neighbor that has it; empty: this broker

    @property
    def redelivered(self) -> bool:
        """Whether the next delivery carries the redelivered flag."""
        return self.delivery_count > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSearchView:
    """Messages that a search found in one request, and where the next one goes on."""

    messages: tuple[MessageView, ...]
    scanned_count: int  # messages that were examined
    position: str | None  # `partition:sequence` of the last one that was; None: the search is complete


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenView:
    """The result of an action on selected messages."""

    done_count: int
    kept: dict[str, int]  # reason -> messages that were selected and left as they were
    not_found: tuple[str, ...] = ()  # ids of no message that is in the queue


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveView:
    """The progress of the re-drive of a queue."""

    queue: str
    to: str | None  # None: each message goes to the queue it died in
    state: str  # running, done, cancelled or failed
    done_count: int
    kept: dict[str, int]  # reason -> messages that stay
    position: str  # `partition:sequence` up to which everything was looked at
    started_ms: int  # wall clock
    ended_ms: int | None
    rate: int  # messages per second; 0: as fast as it goes
    limit: int  # most messages; 0: all
    failure: str = ""


class PropertiesPreview:
    """Makes texts of the properties of one message. No more of a value is converted than is shown of it."""

    def __init__(self) -> None:
        self.truncated = False  # a text was cut, or user properties were left out

    def text(self, value: UserPropertyValue) -> str | None:
        """Return the beginning of a value as text; None: the message has none."""
        if value is None:
            return None
        text, is_cut = value_text(value, TEXT_CHARS_MAX)
        self.truncated = self.truncated or is_cut
        return text

    def correlation(self, data: bytes | None) -> str | None:
        """Return the beginning of the correlation data, which may be any bytes, as text."""
        if data is None:
            return None
        self.truncated = self.truncated or len(data) > TEXT_CHARS_MAX
        return self.text(data[:TEXT_CHARS_MAX].decode(errors="backslashreplace"))

    def user_properties(
        self, properties: Iterable[tuple[str, UserPropertyValue]] | None
    ) -> tuple[tuple[str, str], ...]:
        """Return the first user properties, `PROPERTIES_CHARS_MAX` characters of them."""
        shown: list[tuple[str, str]] = []
        left = PROPERTIES_CHARS_MAX
        for name, value in properties or ():
            text, is_cut = value_text(value, max(0, left - len(name)))
            if is_cut or len(name) > left:
                if len(name) < left:
                    shown.append((name, text))
                self.truncated = True
                break
            shown.append((name, text))
            left -= len(name) + len(text)
        return tuple(shown)


def value_text(value: UserPropertyValue, chars_max: int) -> tuple[str, bool]:
    """Return the beginning of a property's value as text, and whether there is more of it.

    Bytes are shown in hexadecimal digits, truth as `true` or `false`, and no value as an empty text.
    """
    if value is None:
        return "", False
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, bytes):
        text = value[: chars_max // 2 + 1].hex()
    else:
        text = str(value)
    return text[:chars_max], len(text) > chars_max


def payload_preview(payload: bytes) -> tuple[str, Literal["text", "base64"], bool]:
    """Return the beginning of a payload as (text, encoding, truncated); readable text where it is UTF-8."""
    head = payload[:PREVIEW_BYTES_MAX]
    truncated = len(payload) > PREVIEW_BYTES_MAX
    try:
        return head.decode(), "text", truncated
    except UnicodeDecodeError as problem:
        # A character cut by the limit does not make the text binary: UTF-8 uses at most four bytes.
        if truncated and problem.reason == "unexpected end of data" and problem.start >= PREVIEW_BYTES_MAX - 3:
            return head[: problem.start].decode(), "text", True
        return base64.b64encode(head).decode("ascii"), "base64", truncated
