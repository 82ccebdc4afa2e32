"""Batches, flows and publications with defaults, so that every argument a test shows matters."""

from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import AT_LEAST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.partitions.state.effects import Delivery
from sluicegate.messaging.partitions.state.flows import UNBOUNDED, Flow
from sluicegate.messaging.queues.credit import CreditWindow


def batch_of(
    payloads: list[bytes],
    *,
    expires_at_ms: list[int] | None = None,
    headers: list[Headers | None] | None = None,
    received_ms: int = 0,
    topic: str = "t",
) -> MessageBatch:
    """Return a batch with these payloads; an expiry of 0 is none."""
    if expires_at_ms is not None:
        headers = [Headers(expires_at_ms=each) if each else None for each in expires_at_ms]
    return MessageBatch(
        topic=topic,
        topics=None,
        payloads=payloads,
        headers=headers,
        qos=AT_LEAST_ONCE,
        retain=False,
        publisher="p",
        received_ms=received_ms,
        payload_bytes=sum(map(len, payloads)),
    )


def with_priority(batch: MessageBatch, priority: int) -> MessageBatch:
    """Return the same messages, published with this priority."""
    return MessageBatch(
        topic=batch.topic,
        topics=batch.topics,
        payloads=batch.payloads(),
        headers=[Headers(priority=priority) for _ in range(batch.count)],
        qos=batch.qos,
        retain=batch.retain,
        publisher=batch.publisher,
        received_ms=batch.received_ms,
        payload_bytes=batch.payload_bytes,
    )


def keyed(keys: list[str]) -> MessageBatch:
    """Return a message for each of these partition keys."""
    return MessageBatch(
        topic="t",
        topics=None,
        payloads=[b"m"] * len(keys),
        headers=[Headers(partition_key=key, key_hash=0) for key in keys],
        qos=AT_LEAST_ONCE,
        retain=False,
        publisher="p",
        received_ms=0,
        payload_bytes=len(keys),
    )


def numbered(count: int, *, start: int = 1) -> MessageBatch:
    """Return a batch of `count` messages that carry consecutive numbers."""
    return batch_of([b"%d" % number for number in range(start, start + count)])


def published(batch: MessageBatch, *, partitions_count: int = 1) -> Publication:
    """Return a publication that its partitions have not numbered yet."""
    return Publication(batch, publisher=None, token=0, partitions_count=partitions_count)


def written(publication: Publication, record_number: int = 1) -> Publication:
    """Return the publication as it is once the journal has it."""
    publication.record_number = record_number
    publication.confirmed = True
    return publication


def window_of(limit: int) -> CreditWindow[Address]:
    """Return a consumer's window."""
    return CreditWindow(limit)


def flow_of(
    flow_id: int,
    *,
    limit: int = 1000,
    window: CreditWindow[Address] | None = None,
    of_partition_max: int = UNBOUNDED,
) -> Flow:
    """Return a flow, with a window of its own unless it shares one."""
    return Flow(
        flow_id=flow_id,
        queue_name="q",
        client=f"c{flow_id}",
        address=Address(),
        window=window_of(limit) if window is None else window,
        bound_order=flow_id,
        of_partition_max=of_partition_max,
    )


def sequences_of(delivery: Delivery) -> range:
    """Return the sequences of a delivery."""
    return range(delivery.first_sequence, delivery.first_sequence + delivery.stop_row - delivery.start_row)


def delivered(deliveries: list[Delivery]) -> dict[int, list[int]]:
    """Return the sequences by flow."""
    found: dict[int, list[int]] = {}
    for each in deliveries:
        found.setdefault(each.flow.flow_id, []).extend(sequences_of(each))
    return found
