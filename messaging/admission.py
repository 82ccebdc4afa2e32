"""The gate of a queue: may this be spooled here? Asked for every target of a publish before any of them takes it.

A publish to several queues is all or nothing. So admission is not a message to the queue's actor but a look at its
gate, which publishers and the queue share on the node's loop: all gates are asked, then all reserve, or none does.
The checks and their order are those of the spool the product's semantics come from; each refusal is a counter.
"""

from typing import Final, final

from messaging.batch import MessageBatch

ADMITTED: Final = 0
REFUSED_SPOOL_FULL: Final = 1  # the node's spool quota, the disk, or the LMDB map
REFUSED_QUEUE_FULL: Final = 2  # the queue's own quota
REFUSED_MESSAGE_TOO_LARGE: Final = 3
REFUSED_SHUT_DOWN: Final = 4  # the queue's ingress is off
REFUSED_NOT_FOUND: Final = 5

REFUSAL_TEXTS: Final = (
    "",
    "503 Spool Over Quota: the broker's message spool is full",
    "503 Spool Over Quota: the queue's message spool quota is used up",
    "400 Document Is Too Large: the message is larger than the queue takes",
    "503 Queue Shutdown: the queue's ingress is shut down",
    "400 Queue Not Found",
)
REFUSAL_COUNTERS: Final = (
    "",
    "spool_usage_exceeded",
    "endpoint_usage_exceeded",
    "max_msg_size_exceeded",
    "endpoint_disabled",
    "queue_not_found",
)

REJECT_NEVER: Final = 0  # drop for this queue, confirm the publisher
REJECT_WHEN_ENABLED: Final = 1  # refuse for every reason but a shut-down ingress
REJECT_ALWAYS: Final = 2


@final
class SpoolGate:
    """The node's spool: what all durable queues use of it together.

    `blocked` says why the store takes no more (disk or map full), or is empty. The spool actor sets and clears it.
    """

    def __init__(self, *, usage_bytes_max: int) -> None:
        self.usage_bytes_max = usage_bytes_max
        self.usage_bytes = 0
        self.blocked = ""


@final
class QueueGate:
    """Admission to one queue. Its usage is the payload bytes of messages spooled and not settled."""

    def __init__(
        self,
        spool: SpoolGate | None,
        *,
        usage_bytes_max: int,
        message_bytes_max: int,
        reject_behavior: int = REJECT_WHEN_ENABLED,
    ) -> None:
        self.spool = spool  # None: the queue's messages are never written
        self.usage_bytes_max = usage_bytes_max
        self.message_bytes_max = message_bytes_max
        self.reject_behavior = reject_behavior
        self.ingress_enabled = True
        self.ended = False  # the queue was deleted: what it holds is nobody's any more
        self.usage_bytes = 0
        self.usage_count = 0
        self.accepted_count = 0
        self.refusals: dict[int, int] = {}  # reason -> messages refused or dropped here

    def verdict(self, batch: MessageBatch) -> int:
        """Return ADMITTED, or why not one of these messages may be taken."""
        size = batch.payload_bytes
        spool = self.spool
        if spool is not None and (spool.blocked or spool.usage_bytes + size > spool.usage_bytes_max):
            return REFUSED_SPOOL_FULL
        if self.usage_bytes + size > self.usage_bytes_max:
            return REFUSED_QUEUE_FULL
        if (
            size > self.message_bytes_max
            and max([len(payload) for payload in batch.payloads()]) > self.message_bytes_max
        ):
            return REFUSED_MESSAGE_TOO_LARGE
        if not self.ingress_enabled:
            return REFUSED_SHUT_DOWN
        return ADMITTED

    def refuses_publisher(self, verdict: int) -> bool:
        """Return whether the publisher hears of the verdict, or the message is only dropped here."""
        if verdict == REFUSED_SPOOL_FULL:
            return True
        if verdict == REFUSED_SHUT_DOWN:
            return self.reject_behavior == REJECT_ALWAYS
        return self.reject_behavior != REJECT_NEVER

    def reserve(self, batch: MessageBatch) -> None:
        """Count a batch in, once every gate has admitted it."""
        self.usage_bytes += batch.payload_bytes
        self.usage_count += batch.count
        self.accepted_count += batch.count
        if self.spool is not None:
            self.spool.usage_bytes += batch.payload_bytes

    def restore(self, count: int, size: int) -> None:
        """Count in what a recovery found."""
        self.usage_bytes += size
        self.usage_count += count
        if self.spool is not None:
            self.spool.usage_bytes += size

    def release(self, count: int, size: int) -> None:
        """Count settled messages out."""
        self.usage_bytes -= size
        self.usage_count -= count
        assert self.usage_bytes >= 0, "more bytes released than reserved"
        assert self.usage_count >= 0, "more messages released than reserved"
        if self.spool is not None:
            self.spool.usage_bytes -= size

    def close(self) -> None:
        """Give back everything: the queue is gone. Told before its actors stop."""
        self.ended = True
        self.ingress_enabled = False
        self.release(self.usage_count, self.usage_bytes)

    def refuse(self, verdict: int, count: int) -> None:
        """Count messages that were refused or dropped here."""
        self.refusals[verdict] = self.refusals.get(verdict, 0) + count
