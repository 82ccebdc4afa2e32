"""Where a queue takes the partition key of a message from whose publisher gave none.

MQTT 3.1 and 3.1.1 know no properties, so their publishers cannot say a key: it is a level of the topic, or the
publisher's client id. What a queue makes of it, and of a key that the publisher gave, is `messaging.message.keys`.
"""

import re
from typing import Final, final

from sluicegate.messaging.message.partitioning import key_hash

PROPERTY: Final = "property"  # the key that the publisher gave, and no other
CLIENT_ID: Final = "client-id"
TOPIC_LEVEL_MAX: Final = 200  # as many as a topic may have
FORM: Final = re.compile(r"property|client-id|topic-level:([1-9][0-9]{0,2})")
ALLOWED: Final = f"{PROPERTY}, {CLIENT_ID}, or topic-level:N with N from 1 to {TOPIC_LEVEL_MAX}"
NO_HASH: Final = -1


class KeySourceInvalid(ValueError):
    """A text names no source of keys."""


@final
class KeySource:
    """A source that is looked at when a publisher gave no key."""

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
    """Return the source that a text names, None for the property alone. Raises KeySourceInvalid."""
    found = FORM.fullmatch(text)
    level = 0 if found is None or found[1] is None else int(found[1])
    if found is None or level > TOPIC_LEVEL_MAX:
        raise KeySourceInvalid(f"{text!r} is no source of keys; allowed: {ALLOWED}")
    return None if text == PROPERTY else KeySource(level)
