"""The key of a message on one queue: the key that its publisher set, else the key from the queue's key source.

A key from a key source is not stored with the message: topic and publisher are, and each queue has its own source.
"""

import re
from typing import Final, final

import xxhash

from sluicegate.messaging.message.batch import MessageBatch

PROPERTY: Final = "property"  # the key that the publisher set, and no other
CLIENT_ID: Final = "client-id"
TOPIC_LEVEL_MAX: Final = 200  # more than the topics in use have
FORM: Final = re.compile(r"property|client-id|topic-level:([1-9][0-9]{0,2})")
ALLOWED: Final = f"{PROPERTY}, {CLIENT_ID}, or topic-level:N with N from 1 to {TOPIC_LEVEL_MAX}"
NO_HASH: Final = -1


class KeySourceInvalid(ValueError):
    """A text is not a key source."""


@final
class KeySource:
    """The part of a message that serves as its partition key when the publisher set none.

    MQTT 3.1 and 3.1.1 have no properties, so their publishers cannot set a key: it is a level of the topic, or the
    client identifier of the publisher.
    """

    __slots__ = ("topic_level",)

    def __init__(self, topic_level: int) -> None:
        self.topic_level = topic_level  # counted from 1; 0: the client id

    def key(self, topic: str, publisher: str) -> str:
        """Return the key of a message; empty when it has none, because its topic has too few levels for one."""
        level = self.topic_level
        if level == 0:
            return publisher
        levels = topic.split("/", level)
        return levels[level - 1] if len(levels) >= level else ""

    def hash_of(self, topic: str, publisher: str) -> int:
        """Return the hash of a message's key, or NO_HASH."""
        key = self.key(topic, publisher)
        return key_hash(key) if key else NO_HASH


def key_source_from(text: str) -> KeySource | None:
    """Return the key source that a text names, None for the property alone. Raises KeySourceInvalid."""
    found = FORM.fullmatch(text)
    level = 0 if found is None or found[1] is None else int(found[1])
    if found is None or level > TOPIC_LEVEL_MAX:
        raise KeySourceInvalid(f"{text!r} is not a key source; allowed: {ALLOWED}")
    return None if text == PROPERTY else KeySource(level)


def key_hashes(source: KeySource, batch: MessageBatch) -> list[int]:
    """Return the hash for each row, or NO_HASH: computed once for each topic, or for the publisher."""
    topics = batch.topics
    if topics is None or source.topic_level == 0:
        return [source.hash_of(batch.topic, batch.publisher)] * batch.count
    by_topic = {topic: source.hash_of(topic, batch.publisher) for topic in set(topics)}
    return [by_topic[topic] for topic in topics]


def key_hash_in(source: KeySource | None, batch: MessageBatch, row: int) -> int:
    """Return the hash of a message's key on a queue with this source; NO_HASH without one."""
    headers = batch.headers_of(row)
    if headers is not None and headers.key_hash >= 0:
        return headers.key_hash
    return NO_HASH if source is None else source.hash_of(batch.topic_of(row), batch.publisher)


def key_in(source: KeySource | None, batch: MessageBatch, row: int) -> str | None:
    """Return a message's key on a queue with this source; None without one."""
    headers = batch.headers_of(row)
    if headers is not None and headers.partition_key is not None:
        return headers.partition_key
    return None if source is None else source.key(batch.topic_of(row), batch.publisher) or None


HASH_SLOTS: Final = 1 << 16


def key_hash(partition_key: str) -> int:
    """Return the 16-bit hash of a partition key: xxh3_64 of its UTF-8 bytes, folded by exclusive or.

    The hash selects the partition through the map of hash slots. It is stored with the message, so that re-routing
    after a rescale or into a dead message queue needs no key.
    """
    wide: int = xxhash.xxh3_64_intdigest(partition_key.encode())
    wide ^= wide >> 32
    return (wide ^ (wide >> 16)) & 0xFFFF
