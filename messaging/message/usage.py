"""The usage of a message: what it counts for against quotas and memory limits.

A message counts for everything that is stored for it: payload, topic, properties, and a share for its record. So a
message without payload is not free. The rule is additive: the parts of a split batch count as much as the batch.
"""

from typing import Final

from mypy_extensions import i64

from sluicegate.messaging.message.headers import Headers

# For each message, beside its bytes. On disk: its share of a record, of its sequence and of its settlement. In memory:
# the objects of a message that came alone. A durable queue writes to pages what memory has no room for.
STORED_MESSAGE_BYTES: Final = 128
MEMORY_MESSAGE_BYTES: Final = 512


SELECTOR_FACTOR: Final = 50  # of a selector's text, for its compiled form

WIDE_CHARACTER_BYTES: Final = 4  # of each character of a text that is not ASCII: the most that Python may need for it


def text_bytes(text: str) -> i64:
    """Return the usage of a text: its characters, times four unless all are ASCII."""
    size: i64 = len(text)
    return size if text.isascii() else WIDE_CHARACTER_BYTES * size


def topics_bytes(topic: str, topics: list[str] | None, count: i64) -> i64:
    """Return the usage of the topics of `count` messages: all have `topic`, or each has one of `topics`."""
    if topics is None:
        return text_bytes(topic) * count
    size: i64 = 0
    for each in topics:
        size += text_bytes(each)
    return size


def share_bytes(share_name: str) -> int:
    """Return the usage of a share name, beside its filter, for each member of a shared subscription."""
    return int(2 * text_bytes(share_name))


def selector_bytes(text: str) -> int:
    """Return the usage of a selector with its subscription: its text, and its compiled form."""
    return SELECTOR_FACTOR * len(text)


def headers_bytes(column: list[Headers | None]) -> i64:
    """Return the usage of the headers of messages, also where several share them: on disk each has its own."""
    size: i64 = 0
    for headers in column:
        if headers is not None:
            size += headers.memory_bytes()
    return size
