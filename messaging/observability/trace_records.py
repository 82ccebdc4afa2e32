"""Records of traced messages: small values from which spans are made later, elsewhere.

Times are wall clock milliseconds. A span with children gets its id here, as 64 bits; other spans get theirs when they
are made. `gateway.observability.trace_spans` has the names and attributes of spans.
"""

from typing import Final, final

from sluicegate.messaging.observability.trace_context import TraceContext

WRITTEN: Final = "written"  # its commit is on disk
ELIDED: Final = "elided"  # its consumers settled it before it had to be written
NOT_STORED: Final = "not_stored"  # the store refused it, and the publisher was told
GIVEN_BACK: Final = "given_back"  # its consumer disconnected, or took too long: it is in the queue again


@final
class PublishTraced:
    """Messages of one context arrived in a batch, and were routed to all their destinations, or refused."""

    def __init__(
        self,
        context: TraceContext,
        *,
        vpn: str,
        topic: str,
        client: str,
        qos: int,
        received_ms: int,
        payload_bytes: int,
        is_begun: bool,
        neighbor: str,
    ) -> None:
        self.context = context
        self.vpn = vpn
        self.neighbor = neighbor  # the broker that they came from; empty: a client published them here
        self.topic = topic  # of the first message
        self.client = client
        self.qos = qos
        self.received_ms = received_ms
        self.is_begun = is_begun  # the context was made here: its parent id is the id of this span
        self.count = 1
        self.payload_bytes = payload_bytes  # of all messages
        self.refusal = ""  # the reason given to the publisher; empty: not refused
        self.is_routed = True  # False: no destination exists for them

    def add(self, payload_bytes: int) -> None:
        """Count one more message."""
        self.count += 1
        self.payload_bytes += payload_bytes


@final
class SpoolTraced:
    """Messages of one context reached the store, or no longer need it."""

    def __init__(self, context: TraceContext, *, received_ms: int, done_ms: int, outcome: str) -> None:
        self.context = context
        self.count = 1
        self.received_ms = received_ms
        self.done_ms = done_ms
        self.outcome = outcome  # WRITTEN, ELIDED or NOT_STORED


@final
class DeliveryTraced:
    """A message left a queue for a consumer."""

    def __init__(
        self,
        context: TraceContext,
        *,
        delivery_id: int,
        vpn: str,
        queue: str,
        partition: int,
        sequence: int,
        topic: str,
        client: str,
        protocol: str,
        delivery_count: int,
        redelivered: bool,
        arrived_ms: int,
        delivered_ms: int,
    ) -> None:
        self.context = context
        self.delivery_id = delivery_id  # of the delivery's span, the parent of the settlement's
        self.vpn = vpn
        self.queue = queue
        self.partition = partition
        self.sequence = sequence
        self.topic = topic
        self.client = client
        self.protocol = protocol
        self.delivery_count = delivery_count
        self.redelivered = redelivered
        self.arrived_ms = arrived_ms  # in this queue
        self.delivered_ms = delivered_ms


@final
class SettlementTraced:
    """The outcome of a delivery."""

    def __init__(self, delivery: DeliveryTraced, *, outcome: str, settled_ms: int) -> None:
        self.delivery = delivery
        self.outcome = outcome  # of messaging.message.outcomes.OUTCOMES, or GIVEN_BACK
        self.settled_ms = settled_ms


@final
class MoveTraced:
    """A message moves from a queue to another: dead-lettered, or moved by an operator."""

    def __init__(self, context: TraceContext, *, vpn: str, queue: str, target: str, reason: str, moved_ms: int) -> None:
        self.context = context
        self.vpn = vpn
        self.queue = queue
        self.target = target
        self.reason = reason  # why it is dead-lettered; empty: it is not
        self.moved_ms = moved_ms


TraceRecord = PublishTraced | SpoolTraced | DeliveryTraced | SettlementTraced | MoveTraced


@final
class TraceBuffer:
    """Records that wait to become spans. Beyond its limit they are dropped and counted."""

    def __init__(self, *, records_max: int) -> None:
        self.records_max = records_max
        self.dropped_count = 0
        self._records: list[TraceRecord] = []

    def add(self, record: TraceRecord) -> None:
        """Add a record, if there is room."""
        if len(self._records) < self.records_max:
            self._records.append(record)
        else:
            self.dropped_count += 1

    def take(self) -> list[TraceRecord]:
        """Return all records and clear the buffer."""
        records = self._records
        self._records = []
        return records
