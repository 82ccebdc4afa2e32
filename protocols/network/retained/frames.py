"""The bodies of LINK_RETAINED: what `messaging.network.retained.exchange` decides to send, as bytes.

Flow: links. A head of 24 bytes, `u8 kind | u8 0 | u16 0 | u32 count | u64 number | u64 sent`, then by kind:

- DIGESTS: 256 times u64, or nothing for a broker without retained messages.
- LIST: entries. The neighbor asks for the messages that it lacks.
- WANTED: topics, each `u16 bytes | topic`.
- CHANGES: entries, each followed by `u32 bytes | message`, the message as it is at rest; no bytes for a deletion.
- ACK: nothing; `number` is that of a LIST or CHANGES which is stored, with all before it.

An entry is `u64 time | u32 counter | u8 deleted | u8 0 | u16 broker bytes | u16 topic bytes`, broker, topic.
"""

import struct
from typing import Final, NamedTuple

from sluicegate.messaging.network.digests import BUCKETS
from sluicegate.messaging.network.retained.exchange import ENTRIES_MAX, RetainedEntry
from sluicegate.messaging.network.retained.versions import Version
from sluicegate.messaging.topics.syntax import TopicError, check_topic_syntax

DIGESTS: Final = 1
LIST: Final = 2
WANTED: Final = 3
CHANGES: Final = 4
ACK: Final = 5

HEAD_BYTES: Final = 24
_HEAD: Final = struct.Struct(">BBHIQQ")
_ENTRY: Final = struct.Struct(">QIBBHH")
_U16: Final = struct.Struct(">H")
_U32: Final = struct.Struct(">I")
_BROKER_BYTES_MAX: Final = 255


class RetainedPart(NamedTuple):
    """The contents of one LINK_RETAINED. What its kind does not have is empty."""

    kind: int
    number: int = 0  # of LIST and CHANGES, from 1 on with each connection
    sent_ms: int = 0  # of CHANGES and DIGESTS: on the sender's wall clock; times in the messages are of that
    digests: tuple[int, ...] = ()
    entries: tuple[RetainedEntry, ...] = ()
    topics: tuple[str, ...] = ()
    messages: tuple[bytes, ...] = ()  # of CHANGES, one for each entry


def digests_body(digests: list[int], sent_ms: int) -> bytes:
    """Return the bytes of the digests of what this broker has; none: it has nothing."""
    return _HEAD.pack(DIGESTS, 0, 0, len(digests), 0, sent_ms) + struct.pack(f">{len(digests)}Q", *digests)


def list_body(number: int, entries: list[bytes]) -> bytes:
    """Return the bytes of a list; each entry is made by `entry_bytes`."""
    return b"".join([_HEAD.pack(LIST, 0, 0, len(entries), number, 0), *entries])


def wanted_body(topics: list[bytes]) -> bytes:
    """Return the bytes of a question for messages; each topic is made by `sized_text`."""
    return b"".join([_HEAD.pack(WANTED, 0, 0, len(topics), 0, 0), *topics])


def changes_body(number: int, sent_ms: int, changes: list[bytes]) -> bytes:
    """Return the bytes of changes, each made by `change_bytes`."""
    return b"".join([_HEAD.pack(CHANGES, 0, 0, len(changes), number, sent_ms), *changes])


def change_bytes(entry: RetainedEntry, message: bytes) -> bytes:
    """Return the bytes of one change: a message as it is at rest, or none for a deletion."""
    return entry_bytes(entry) + _U32.pack(len(message)) + message


def ack_body(number: int) -> bytes:
    """Return the bytes of an acknowledgement."""
    return _HEAD.pack(ACK, 0, 0, 0, number, 0)


def entry_bytes(entry: RetainedEntry) -> bytes:
    """Return the bytes of a topic with its version."""
    version = entry.version
    broker, topic = version.broker.encode("utf-8"), entry.topic.encode("utf-8")
    head = _ENTRY.pack(version.wall_ms, version.counter, entry.is_deleted, 0, len(broker), len(topic))
    return head + broker + topic


def retained_part(body: bytes) -> RetainedPart:
    """Return the contents of a body. Raises ValueError."""
    try:
        return _part(body)
    except struct.error as error:
        raise ValueError(f"LINK_RETAINED of {len(body)} bytes: {error}") from None


def _part(body: bytes) -> RetainedPart:
    head: tuple[int, int, int, int, int, int] = _HEAD.unpack_from(body)
    kind, _, _, count, number, sent_ms = head
    if kind == DIGESTS:
        if count not in (0, BUCKETS) or len(body) != HEAD_BYTES + 8 * count:
            raise ValueError(f"LINK_RETAINED with {count} digests in {len(body)} bytes; there are none or {BUCKETS}")
        return RetainedPart(kind, sent_ms=sent_ms, digests=struct.unpack_from(f">{count}Q", body, HEAD_BYTES))
    if count > ENTRIES_MAX:
        raise ValueError(f"LINK_RETAINED with {count} topics; at most {ENTRIES_MAX} are taken")
    at = HEAD_BYTES
    entries: list[RetainedEntry] = []
    topics: list[str] = []
    messages: list[bytes] = []
    if kind not in (LIST, WANTED, CHANGES, ACK) or (kind == ACK and count):
        raise ValueError(f"LINK_RETAINED of kind {kind} with {count} topics")
    for _ in range(count):
        if kind == WANTED:
            topic, at = _text(body, at + 2, _U16.unpack_from(body, at)[0])
            topics.append(topic)
            continue
        at = _read_entry(body, at, entries)
        if kind == CHANGES:
            at = _read_message(body, at, entries[-1], messages)
    if at != len(body):
        raise ValueError(f"LINK_RETAINED: {len(body) - at} bytes behind its last topic")
    return RetainedPart(kind, number, sent_ms, (), tuple(entries), tuple(topics), tuple(messages))


def _read_entry(body: bytes, at: int, entries: list[RetainedEntry]) -> int:
    """Append the entry at a place; return the place behind it."""
    head: tuple[int, int, int, int, int, int] = _ENTRY.unpack_from(body, at)
    wall_ms, counter, deleted, _, broker_bytes, topic_bytes = head
    if broker_bytes > _BROKER_BYTES_MAX or deleted > 1:
        raise ValueError(f"LINK_RETAINED: an entry with a broker's name of {broker_bytes} bytes, deleted: {deleted}")
    broker, at = _text(body, at + _ENTRY.size, broker_bytes)
    topic, at = _text(body, at, topic_bytes)
    try:
        check_topic_syntax(topic)
    except TopicError as error:
        raise ValueError(f"LINK_RETAINED: {error}") from None
    entries.append(RetainedEntry(topic, Version(wall_ms, counter, broker), deleted == 1))
    return at


def _read_message(body: bytes, at: int, entry: RetainedEntry, messages: list[bytes]) -> int:
    """Append the message at a place; return the place behind it."""
    size: int = _U32.unpack_from(body, at)[0]
    at += _U32.size
    if at + size > len(body):
        raise ValueError(f"LINK_RETAINED ends within a message, {at + size - len(body)} bytes early")
    if entry.is_deleted != (size == 0):
        raise ValueError(
            f"LINK_RETAINED: {size} bytes of a message on {entry.topic!r:.80}, deleted: {entry.is_deleted}"
        )
    messages.append(body[at : at + size])
    return at + size


def _text(body: bytes, at: int, size: int) -> tuple[str, int]:
    if at + size > len(body):
        raise ValueError(f"LINK_RETAINED ends within a name, {at + size - len(body)} bytes early")
    return body[at : at + size].decode("utf-8"), at + size


def sized_text(text: str) -> bytes:
    """Return a topic behind its size."""
    encoded = text.encode("utf-8")
    return _U16.pack(len(encoded)) + encoded
