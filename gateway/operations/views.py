"""What actors say of queues, messages and themselves, in the form in which operators see it."""

from sluicegate.actors.messages.directory import QueueHandle
from sluicegate.actors.messages.partitions import BrowsedMessage
from sluicegate.actors.messages.queues import INACTIVE, FlowOverview, QueueOverview, QueueTotals
from sluicegate.actors.runtime.runtime import ActorOverview
from sluicegate.gateway.views.queues import (
    ActorView,
    DeathView,
    EventView,
    FlowView,
    MessageView,
    PartitionStatus,
    PartitionView,
    QueueView,
    RebalanceStatus,
    ScaleStatus,
    payload_preview,
)
from sluicegate.messaging.message.headers import DeadLetter
from sluicegate.messaging.message.keys import KeySource, key_in
from sluicegate.messaging.message.outcomes import TO_DMQ_FAILED
from sluicegate.messaging.observability.events import NOBODY, Event


def queue_view(
    handle: QueueHandle, overview: QueueOverview, incarnation: str, rate: float, *, now_ms: int
) -> QueueView:
    """Return a queue as operators see it; `rate` is that of the messages that come in."""
    clients = {flow.flow_id: flow.client for flow in overview.flows}
    partitions = []
    for partition, (status, flow_id, epoch) in zip(overview.partitions, overview.partition_statuses, strict=True):
        partitions.append(
            PartitionView(
                number=partition.number,
                status=PartitionStatus(status),
                ready_count=partition.ready_count,
                unacked_count=partition.in_flight_count,
                spooled_bytes=partition.waiting_bytes,
                next_sequence=partition.next_sequence,
                kept_from=partition.kept_from,
                kept_bytes=partition.kept_bytes,
                assignment_epoch=epoch,
                held_count=partition.held_count,
                flow_id=str(flow_id) if flow_id else None,
                client=clients.get(flow_id),
            )
        )
    return QueueView(
        config=overview.config,
        at_ms=now_ms,
        durable=handle.durable,
        definition_lost=handle.definition_lost,
        subscriptions=handle.definition.subscriptions,
        ready_count=sum(each.ready_count for each in overview.partitions),
        unacked_count=sum(each.in_flight_count for each in overview.partitions),
        spooled_bytes=overview.usage_bytes,
        spooled_count=overview.usage_count,
        partition_operational_count=len(partitions) if overview.config.partitioned() else 0,
        scale_status=ScaleStatus(overview.scale_status),
        rebalance_status=RebalanceStatus(overview.rebalance_status),
        accepted_total=overview.totals.accepted_count,
        accepted_rate=rate,
        delivered_total=overview.totals.delivered_count,
        redelivered_total=overview.totals.redelivered_count,
        settled_total=overview.totals.settled_count,
        discards=_discards(overview.totals),
        bind_refusals=overview.totals.bind_refusals,
        kept_bytes=sum(each.kept_bytes for each in overview.partitions),
        spool_incarnation=incarnation,
        partitions=tuple(partitions),
        flows=tuple([_flow_view(flow) for flow in overview.flows]),
    )


def _flow_view(flow: FlowOverview) -> FlowView:
    return FlowView(
        id=str(flow.flow_id),
        client=flow.client,
        protocol=flow.protocol,
        window=flow.window,
        unacked_count=flow.unacked_count,
        active=flow.activity != INACTIVE,
        activity=flow.activity,
        partitions=tuple(flow.partitions),
        selector=flow.selector or None,
    )


def message_view(message: BrowsedMessage, key_source: KeySource | None) -> MessageView:
    """Return a message that was browsed."""
    batch = message.batch
    headers = batch.headers_of(message.row)
    payload = batch.payloads()[message.row]
    text, encoding, truncated = payload_preview(payload)
    return MessageView(
        id=f"{message.partition_number}:{message.sequence}",
        partition=message.partition_number,
        sequence=message.sequence,
        topic=batch.topic_of(message.row),
        size_bytes=len(payload),
        delivery_count=max(message.delivery_count + message.in_flight, 1 if message.redelivered else 0),
        received_ms=batch.received_ms,
        key=key_in(key_source, batch, message.row),
        payload=text,
        payload_encoding=encoding,
        payload_truncated=truncated,
        dead=None if headers is None or headers.dead is None else _death_view(headers.dead),
    )


def _death_view(dead: DeadLetter) -> DeathView:
    return DeathView(
        reason=dead.reason,
        queue=dead.queue,
        partition=dead.partition,
        delivery_count=dead.delivery_count,
        time_ms=dead.died_ms,
        client=dead.client or None,
        cause=dead.cause or None,
        via=dead.via,
    )


def _discards(totals: QueueTotals) -> dict[str, int]:
    """Return what left a queue unconsumed, by reason and outcome: `_discarded`, `_to_dmq`, `_to_dmq_failed`."""
    counts = {
        reason if reason.endswith(TO_DMQ_FAILED) else f"{reason}_discarded": count
        for reason, count in totals.discards.items()
    }
    return counts | {f"{reason}_to_dmq": count for reason, count in totals.buried.items()}


def actor_view(overview: ActorOverview, parent_path: str) -> ActorView:
    """Return an actor with what it supervises."""
    path = f"{parent_path}/{overview.name}" if parent_path else overview.name
    batches = overview.batches_count
    return ActorView(
        name=overview.name,
        path=path,
        kind=overview.kind,
        state=overview.state,
        inbox_depth=overview.inbox_depth,
        handled_count=overview.handled_count,
        batch_count=batches,
        batch_size_mean=overview.handled_count / batches if batches else 0.0,
        handling_time_us=overview.handling_ns / 1000 / batches if batches else 0.0,
        restart_count=overview.restarts_count,
        children=tuple(actor_view(child, path) for child in overview.children),
    )


def event_view(number: int, event: Event) -> EventView:
    """Return an event as operators see it."""
    return EventView(
        number=number,
        time_ms=event.wall_ms,
        level=event.kind.level.lower(),
        scope=event.kind.scope,
        event=event.kind.name,
        text=event.text(),
        vpn=None if event.vpn == NOBODY else event.vpn,
        client=None if event.client == NOBODY else event.client,
    )
