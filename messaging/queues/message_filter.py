"""Select messages of a queue for an operation: by id, or by their properties.

The id of a message is the number of its partition and its sequence, `3:1207` in text.
"""

from typing import Final, NamedTuple, final

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.queues.attributes import PARTITION_COUNT_MAX
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.messaging.selectors.selector import Selector
from sluicegate.messaging.topics.syntax import TopicFilter, matches

SEQUENCE_MAX: Final = (1 << 63) - 1
_DIGITS_MAX: Final = 19


class MessageId(NamedTuple):
    """One message of a queue."""

    partition: int  # number of the partition; 0 in a queue without partitions
    sequence: int

    def text(self) -> str:
        """Return the form that `parse_message_id` reads."""
        return f"{self.partition}:{self.sequence}"


def parse_message_id(text: str) -> MessageId:
    """Parse the text of an id. Raises QueueInvalid."""
    partition, _, sequence = text.partition(":")
    if _is_number(partition) and _is_number(sequence):
        found = MessageId(int(partition), int(sequence))
        if found.partition < PARTITION_COUNT_MAX and 0 < found.sequence <= SEQUENCE_MAX:
            return found
    raise QueueInvalid("ids", f"{text!r} is no message id", "PARTITION:SEQUENCE as browsing shows it, such as 0:17")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX


@final
class MessageFilter:
    """Conditions on messages; an unset field is not checked."""

    def __init__(
        self,
        *,
        topic_filter: TopicFilter | None = None,
        selector: Selector | None = None,
        key: str = "",
        received_from_ms: int = 0,
        received_before_ms: int = 0,
        dead_reason: str = "",
        dead_queue: str = "",
    ) -> None:
        self.topic_filter = topic_filter
        self.selector = selector
        self.key = key  # partition key of the message
        self.received_from_ms = received_from_ms  # wall clock, likewise
        self.received_before_ms = received_before_ms  # wall clock, of the arrival in this queue; 0: any time
        self.dead_reason = dead_reason  # why it died
        self.dead_queue = dead_queue  # where it died

    def matches(self, batch: MessageBatch, row: int) -> bool:
        """Return whether the message in a row of a batch meets all conditions."""
        if self.received_before_ms > 0 and batch.received_ms >= self.received_before_ms:
            return False
        if batch.received_ms < self.received_from_ms:
            return False
        if self.key:
            keyed = batch.headers_of(row)
            if keyed is None or keyed.partition_key != self.key:
                return False
        if self.dead_reason or self.dead_queue:
            headers = batch.headers_of(row)
            dead = None if headers is None else headers.dead
            if dead is None or (self.dead_reason and dead.reason != self.dead_reason):
                return False
            if self.dead_queue and dead.queue != self.dead_queue:
                return False
        if self.topic_filter is not None and not matches(self.topic_filter, batch.topic_of(row)):
            return False
        return self.selector is None or self.selector.matches(batch, row)
