"""Make views of what queues and cursors answer about themselves."""

from collections.abc import Iterable

from sluicegate.actors.messages.directory import LocalQueue
from sluicegate.actors.messages.queues import INACTIVE, FlowOverview, QueueOverview, QueueTotals
from sluicegate.actors.messages.readers import CursorOverview
from sluicegate.gateway.views.node.figures import (
    QueueFigures,
    QueuesQuery,
)
from sluicegate.gateway.views.queues.cursors import CursorPartitionView, CursorState, CursorView
from sluicegate.gateway.views.queues.queues import (
    FlowView,
    PartitionStatus,
    PartitionView,
    QueueMoveView,
    QueueView,
    RebalanceStatus,
    ScaleStatus,
)
from sluicegate.gateway.views.text import name_pattern
from sluicegate.messaging.message.outcomes import TO_DMQ_FAILED
from sluicegate.messaging.message.refusals import REFUSAL_COUNTERS
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.messaging.queues.definition import MEGABYTE, is_named
from sluicegate.messaging.routing.queue_ways import QueueWays
from sluicegate.protocols.network.moves.moves import MoveOverview


def queue_view(handle: LocalQueue, overview: QueueOverview, incarnation: str, rate: float, *, now_ms: int) -> QueueView:
    """Return a queue as operators see it; `rate` is the rate of incoming messages."""
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
                dead_waiting_count=partition.dead_waiting_count,
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
        refusals=_by_reason(overview.totals.refusals),
        drops=_by_reason(overview.totals.drops),
        bind_refusals=overview.totals.bind_refusals,
        kept_bytes=sum(each.kept_bytes for each in overview.partitions),
        spool_incarnation=incarnation,
        partitions=tuple(partitions),
        flows=tuple([flow_view(flow) for flow in overview.flows]),
    )


def lost_dead_messages(view: QueueView, ways: QueueWays, vpn: str) -> str:
    """Return a warning if dead messages of a queue are lost: no way leads to a dead message queue."""
    dead = view.config.dead_msg_queue
    if not (view.durable and is_named(view.name) and dead):
        return ""
    way = ways.to(dead)
    if way.target is not None or way.waits:
        return ""
    return (
        f"the dead message queue {dead} does not exist, so messages that are rejected, expire or fail too often are "
        f"deleted; create it: sluicegate queue create '{dead}'{'' if vpn == DEFAULT_VPN else f' --vpn {vpn}'}"
    )


def flow_view(flow: FlowOverview) -> FlowView:
    """Return a flow as operators see it."""
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
        broker=flow.broker,
    )


def _discards(totals: QueueTotals) -> dict[str, int]:
    """Count messages that left a queue unconsumed, by reason and outcome: `_discarded`, `_to_dmq`, `_to_dmq_failed`."""
    counts = {
        reason if reason.endswith(TO_DMQ_FAILED) else f"{reason}_discarded": count
        for reason, count in totals.discards.items()
    }
    return counts | {f"{reason}_to_dmq": count for reason, count in totals.dead_lettered.items()}


def _by_reason(verdicts: dict[int, int]) -> dict[str, int]:
    """Count messages that a queue did not take, by the reason of its verdict."""
    return {REFUSAL_COUNTERS[verdict]: count for verdict, count in verdicts.items()}


def wanted_queues(handles: Iterable[LocalQueue], question: QueuesQuery) -> list[LocalQueue]:
    """Return the queues that match a query, of all pages, by name."""
    wanted = name_pattern(question.name)
    found = [each for each in handles if wanted.fullmatch(each.name) and not each.is_received]
    if question.is_named_only:
        found = [each for each in found if is_named(each.name)]
    if question.without:
        found = [each for each in found if each.name not in question.without]
    return sorted(found, key=lambda handle: handle.name)


def queue_figures(handle: LocalQueue, overview: QueueOverview) -> QueueFigures:
    """Return the figures of a queue."""
    partitions, totals = overview.partitions, overview.totals
    return QueueFigures(
        name=handle.name,
        access_type=overview.config.access_type,
        durable=handle.durable,
        partition_count=len(partitions) if overview.config.partitioned() else 0,
        flows_count=len(overview.flows),
        ready_count=sum(each.ready_count for each in partitions),
        unacked_count=sum(each.in_flight_count for each in partitions),
        spooled_bytes=overview.usage_bytes,
        quota_bytes=overview.config.max_msg_spool_usage * MEGABYTE,
        accepted_total=totals.accepted_count,
        delivered_total=totals.delivered_count,
        redelivered_total=totals.redelivered_count,
        settled_total=totals.settled_count,
        discarded_total=sum(totals.discards.values()),
        to_dmq_total=sum(totals.dead_lettered.values()),
        dead_msg_queue=overview.config.dead_msg_queue,
        refused_total=sum(totals.refusals.values()),
        dropped_total=sum(totals.drops.values()),
        rebalance_status=overview.rebalance_status,
        moving_to="" if handle.move is None else handle.move.broker,
    )


def move_view(overview: MoveOverview) -> QueueMoveView:
    """Return a move as operators see it."""
    return QueueMoveView(
        name=overview.queue,
        broker=overview.to,
        begun_ms=overview.begun_ms,
        moved_count=overview.moved_count,
        left_count=overview.left_count,
        switching=overview.is_switching,
        waits_for=overview.waits_for,
    )


def cursor_view(overview: CursorOverview) -> CursorView:
    """Return a cursor as operators see it."""
    state = CursorState.BOUND if overview.bound else CursorState.UNBOUND
    return CursorView(
        name=overview.name,
        mode=overview.mode,
        state=CursorState.EXCEEDED if overview.exceeded else state,
        epoch=overview.epoch,
        instance=overview.instance,
        batch_ref=overview.batch_ref,
        lag_count=sum(max(0, each.next_sequence - each.acked) for each in overview.positions),
        lag_bytes=sum(each.lag_bytes for each in overview.positions),
        lag_bytes_max=overview.limits.lag_bytes_max,
        lag_time_ms_max=overview.limits.lag_time_ms_max,
        heartbeat_ms=overview.limits.heartbeat_ms,
        partitions=tuple(
            CursorPartitionView(
                number=each.number,
                low=each.low,
                acked=each.acked,
                next_sequence=each.next_sequence,
                lag_bytes=each.lag_bytes,
            )
            for each in overview.positions
        ),
    )
