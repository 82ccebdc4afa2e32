"""The key of a message on one queue: what its publisher gave, else what the queue finds in its source of keys.

What a queue finds is not written with the message: its topic and publisher are, and each queue that gets it has a
source of its own.
"""

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.key_source import NO_HASH, KeySource


def key_hashes(source: KeySource, batch: MessageBatch) -> list[int]:
    """Return what a source finds for each row, or NO_HASH: hashed once for each topic, or for the publisher."""
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
