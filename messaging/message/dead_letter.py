"""What a dead message carries along: why it died, where, and how often it was tried.

It is a field of the headers and no user property, so that no publisher can pretend to it, and what the publisher did
write stays as it was. Consumers of every protocol see it as the properties that `properties` names. Deliberately
elsewhere: putting it on a message and taking it off (messaging.message.dead_lettering).
"""

from typing import Final, final

REASON: Final = "sluicegate-dead-reason"
QUEUE: Final = "sluicegate-dead-queue"
PARTITION: Final = "sluicegate-dead-partition"
DELIVERY_COUNT: Final = "sluicegate-dead-delivery-count"
TIME_MS: Final = "sluicegate-dead-time-ms"
CLIENT: Final = "sluicegate-dead-client"
CAUSE: Final = "sluicegate-dead-cause"
VIA: Final = "sluicegate-dead-via"

CAUSE_CHARS_MAX: Final = 256  # of what a consumer says; AMQP clients may give any text


@final
class DeadLetter:
    """The death of one message: the first one, when it died again in a dead message queue. Never changed."""

    __slots__ = ("cause", "client", "delivery_count", "died_ms", "partition", "queue", "reason", "via", "was_eligible")

    def __init__(
        self,
        *,
        reason: str,
        queue: str,
        partition: int,
        delivery_count: int,
        died_ms: int,
        client: str,
        cause: str = "",
        was_eligible: bool,
        via: tuple[str, ...],
    ) -> None:
        self.reason = reason  # a DISCARD_... of messaging.message.outcomes
        self.queue = queue  # where it could not be delivered: where a re-drive brings it back
        self.partition = partition  # number of its partition there
        self.delivery_count = delivery_count  # deliveries that failed or were rejected, as far as is known
        self.died_ms = died_ms  # wall clock
        self.client = client  # the consumer that had it last; empty when none is to blame
        self.cause = cause[:CAUSE_CHARS_MAX]  # why the consumer rejected it, in its own words; empty: it did not say
        self.was_eligible = was_eligible  # Headers.dmq_eligible as published
        self.via = via  # dead message queues it has died in since, in that order

    def properties(self) -> list[tuple[str, str | int]]:
        """Return names and values as consumers see them."""
        shown: list[tuple[str, str | int]] = [
            (REASON, self.reason),
            (QUEUE, self.queue),
            (PARTITION, self.partition),
            (DELIVERY_COUNT, self.delivery_count),
            (TIME_MS, self.died_ms),
        ]
        if self.client:
            shown.append((CLIENT, self.client))
        if self.cause:
            shown.append((CAUSE, self.cause))
        for name in self.via:
            shown.append((VIA, name))
        return shown

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeadLetter):
            return NotImplemented
        return (
            self.properties() == other.properties()
            and self.client == other.client
            and self.was_eligible == other.was_eligible
        )

    __hash__ = None  # type: ignore[assignment]  # compared by value in tests only

    def __repr__(self) -> str:
        return f"DeadLetter({self.reason} in {self.queue!r} after {self.delivery_count}, via {self.via})"
