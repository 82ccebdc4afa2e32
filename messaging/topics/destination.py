"""Where a publisher's messages go, whatever protocol named it."""

from typing import final


@final
class Destination:
    """Where messages go: by a topic to whoever subscribed, or by a queue's own topic into that queue."""

    __slots__ = ("is_queue", "topic")

    def __init__(self, topic: str, *, is_queue: bool) -> None:
        self.topic = topic
        self.is_queue = is_queue

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Destination) and other.topic == self.topic and other.is_queue == self.is_queue

    __hash__ = None  # type: ignore[assignment]  # compared only
