"""What is asked of queues and partitions to explain where messages are. What else they are told is in `messages`."""

from dataclasses import dataclass


@dataclass(slots=True)
class ExplainKey:
    """Ask of a partition, or of a queue that asks its partition: where a key stands. Answered with a KeyStanding."""

    key: str
    partition_number: int
