"""What is noted of traced messages while they pass: small records, of which spans are made elsewhere, later.

Times are wall clock milliseconds. A span that others are below has its id from here, as 64 bits; the others get theirs
when they are made. Names and attributes of spans are `gateway.observability.trace_spans`.
"""

from typing import Final, final

from sluicegate.messaging.observability.trace_context import TraceContext

WRITTEN: Final = "written"  # its commit is on disk
ELIDED: Final = "elided"  # its consumers had settled it before it had to be written
NOT_STORED: Final = "not_stored"  # the store could not take it, and the publisher was told
GIVEN_BACK: Final = "given_back"  # its consumer went, or took too long: the queue has it again


@final
class PublishTraced:
    """Messages of one context came in a batch, and were handed to everybody who is to have them, or refused."""

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
    ) -> None:
        self.context = context
        self.vpn = vpn
        self.topic = topic  # of the first of them
        self.client = client
        self.qos = qos
        self.received_ms = received_ms
        self.is_begun = is_begun  # the context is ours: its parent id is that of this very span
        self.count = 1
        self.payload_bytes = payload_bytes  # of all of them
        self.refusal = ""  # what the publisher was told; empty: nothing was refused
        self.is_routed = True  # False: nobody is there for them

    def add(self, payload_bytes: int) -> None:
        """Count one more of them."""
        self.count += 1
        self.payload_bytes += payload_bytes


@final
class SpoolTraced:
    """Messages of one context reached the store, or need it no more."""

    def __init__(self, context: TraceContext, *, received_ms: int, done_ms: int, outcome: str) -> None:
        self.context = context
        self.count = 1
        self.received_ms = received_ms
        self.done_ms = done_ms
        self.outcome = outcome  # WRITTEN, ELIDED or NOT_STORED


@final
class DeliveryTraced:
    """A message left a queue for a consumer, and what that said of it, once it has."""

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
        self.delivery_id = delivery_id  # of the span of the delivery, under which that of the settlement is
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
    """What became of a delivery."""

    def __init__(self, delivery: DeliveryTraced, *, outcome: str, settled_ms: int) -> None:
        self.delivery = delivery
        self.outcome = outcome  # of messaging.message.outcomes.OUTCOMES, or GIVEN_BACK
        self.settled_ms = settled_ms


@final
class MoveTraced:
    """A message is on its way from a queue to another: dead, or because an operator wants it so."""

    def __init__(self, context: TraceContext, *, vpn: str, queue: str, target: str, reason: str, moved_ms: int) -> None:
        self.context = context
        self.vpn = vpn
        self.queue = queue
        self.target = target
        self.reason = reason  # why it is dead; empty: it is not
        self.moved_ms = moved_ms


TraceRecord = PublishTraced | SpoolTraced | DeliveryTraced | SettlementTraced | MoveTraced


@final
class TraceBuffer:
    """Records that wait to be made into spans. Beyond its bound they are dropped, and counted."""

    def __init__(self, *, records_max: int) -> None:
        self.records_max = records_max
        self.dropped_count = 0
        self._records: list[TraceRecord] = []

    def add(self, record: TraceRecord) -> None:
        """Keep a record, if there is room."""
        if len(self._records) < self.records_max:
            self._records.append(record)
        else:
            self.dropped_count += 1

    def take(self) -> list[TraceRecord]:
        """Return everything that waits; it waits no more."""
        records = self._records
        self._records = []
        return records
