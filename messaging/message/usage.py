"""What a message counts for against quotas and limits of memory.

A message counts for all that somebody has to keep for it: payload, topic, properties, and a share for its record. So
a message without payload is not free. The rule is additive: whatever cuts a batch in two, the two count what it did.
"""

from typing import Final

from mypy_extensions import i64

from sluicegate.messaging.message.headers import Headers

# Beside its bytes, of each message. On disk: its share of a record of its own, of its sequence and settlement. In
# memory: the objects that hold a message which came alone. A durable queue writes to pages what memory has no room for.
STORED_MESSAGE_BYTES: Final = 128
MEMORY_MESSAGE_BYTES: Final = 512


SELECTOR_FACTOR: Final = 50  # of a selector's text, for what it is compiled to

WIDE_CHARACTER_BYTES: Final = 4  # of each character of a text that is not ASCII: what Python may need for it


def text_bytes(text: str) -> i64:
    """Return what a text counts for: its characters, four times as many unless all are ASCII."""
    size: i64 = len(text)
    return size if text.isascii() else WIDE_CHARACTER_BYTES * size


def topics_bytes(topic: str, topics: list[str] | None, count: i64) -> i64:
    """Return what the topics of `count` messages count for: all have `topic`, or each has one of `topics`."""
    if topics is None:
        return text_bytes(topic) * count
    size: i64 = 0
    for each in topics:
        size += text_bytes(each)
    return size


def share_bytes(share_name: str) -> int:
    """Return what the name of its group counts for, beside its filter, with each member of a shared subscription."""
    return int(2 * text_bytes(share_name))


def selector_bytes(text: str) -> int:
    """Return what a selector counts for with its subscription: its text, and what that is compiled to."""
    return SELECTOR_FACTOR * len(text)


def headers_bytes(column: list[Headers | None]) -> i64:
    """Return what the headers of messages count for, also where several share them: on disk each has its own."""
    size: i64 = 0
    for headers in column:
        if headers is not None:
            size += headers.memory_bytes()
    return size
