"""What helpers return: messages as they lie in a queue, and what a queue holds. Plain values, which can be compared."""

from dataclasses import dataclass, field

from sluicegate.messaging.message.headers import UserPropertyValue


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    """A message in a queue, or one that was taken out of it."""

    payload: bytes
    topic: str  # it was published to; `$queue/NAME` for a queue by name
    key: str | None = None  # partition key
    priority: int = 4  # 0, the lowest, to 9
    properties: tuple[tuple[str, UserPropertyValue], ...] = ()  # user properties, in the publisher's order
    content_type: str | None = None
    message_id: str | None = None
    correlation: bytes | None = None
    reply_to: str | None = None  # a topic, or `#q/` and the name of a queue
    received_ms: int = 0  # when the broker got it, by the broker's clock: ms since 1970
    expires_at_ms: int = 0  # by the same clock; 0: never
    delivery_count: int = 0  # how often it was handed to a consumer
    is_held: bool = False  # a consumer has it, and has not settled it
    partition: int = 0  # number of the partition it lies in
    sequence: int = 0  # its number in its partition, for good
    dead_reason: str = ""  # in a dead message queue: expired, max_redelivery_exceeded, rejected or undeliverable
    dead_queue: str = ""  # where it died

    @property
    def text(self) -> str:
        """The payload as text. Raises UnicodeDecodeError unless it is UTF-8."""
        return self.payload.decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """What a queue holds at one moment, and what has gone through it since the broker was started."""

    name: str
    message_count: int  # all messages: ready, held by consumers, and delayed
    ready_count: int  # a consumer may get them now
    unacked_count: int  # consumers hold them, and have not settled them
    consumers: tuple[str, ...] = ()  # client names, one for each consumer
    subscriptions: tuple[str, ...] = ()  # topics whose messages go to it
    accepted_total: int = 0  # messages taken into it
    delivered_total: int = 0  # deliveries to consumers, repeated ones included
    redelivered_total: int = 0
    settled_total: int = 0  # messages that a consumer accepted
    attributes: dict[str, object] = field(default_factory=dict)  # as in docs/concepts/queues.md
