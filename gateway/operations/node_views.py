"""Make views of a node as a whole: its actors, its events, its totals, its spool."""

from collections.abc import Iterable, Sequence

from sluicegate.actors.messages.staging import StagingOverview
from sluicegate.actors.runtime.runtime import ActorOverview
from sluicegate.gateway.build import VERSION
from sluicegate.gateway.config.reload import Changes
from sluicegate.gateway.node.node import Node
from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.gateway.views.node.figures import (
    NodeFigures,
    ProcessFigures,
    ProtocolFigures,
)
from sluicegate.gateway.views.node.runtime import ActorView, EventView, ReloadView
from sluicegate.gateway.views.node.spool import SpoolView, incarnation_text
from sluicegate.messaging.observability.events import NOBODY, Event


def actor_view(overview: ActorOverview, parent_path: str) -> ActorView:
    """Return an actor with those that it supervises."""
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


def reload_view(changes: Changes, vpns: Iterable[MessageVpn] = ()) -> ReloadView:
    """Return what a reload has changed, with the warnings of message VPNs."""
    return ReloadView(
        taken_over=tuple(str(change) for change in changes.reloadable),
        restart_needed=tuple(str(change) for change in changes.restart_needed),
        warnings=tuple(text for vpn in vpns for text in vpn.warnings),
    )


def node_figures(node: Node) -> NodeFigures:
    """Return a node's totals."""
    usage = node.services.environment.process()
    return NodeFigures(
        name=node.services.config.node.name,
        version=VERSION,
        at_ms=node.services.clock.now_ms(),
        wall_ms=node.services.clock.wall_ms(),
        spool_commits_total=node.services.spool_actor().commits_count,
        process=(
            None if usage is None else ProcessFigures(memory_bytes=usage.memory_bytes, cpu_ms_total=usage.cpu_ms_total)
        ),
        protocols=tuple(
            ProtocolFigures(
                protocol=server.name,
                connections_count=server.clients_count(),
                messages_received_total=server.counters.messages_received,
                messages_sent_total=server.counters.messages_sent,
                bytes_received_total=server.counters.bytes_received,
                bytes_sent_total=server.counters.bytes_sent,
            )
            for server in node.servers
        ),
    )


def spool_view(node: Node, staging: Sequence[StagingOverview]) -> SpoolView:
    """Return the spool as operators see it; `staging` is that of every message VPN."""
    usage = node.services.store.usage()
    return SpoolView(
        incarnation=incarnation_text(node.services.recovered.incarnation),
        used_bytes=usage.used_bytes,
        limit_bytes=usage.map_bytes_max,
        messages_bytes=node.services.spool_gate.usage_bytes,
        messages_bytes_max=node.services.spool_gate.usage_bytes_max,
        blocked=node.services.spool_gate.blocked,
        staged_bytes=sum(each.staged_bytes for each in staging),
        transactions_open=sum(each.open_count for each in staging),
        messages_count=node.services.spool_gate.usage_count,
        messages_count_max=node.services.spool_gate.usage_count_max,
        unacked_count=node.services.credit.used,
        unacked_count_max=node.services.credit.limit,
        memory_bytes=node.services.memory.used_bytes,
        memory_bytes_max=node.services.memory.bytes_max,
        file_bytes=usage.file_bytes,
        disk_free_bytes=usage.disk_free_bytes,
        log_bytes=usage.log_bytes,
        journal_records=usage.log_records,
        pages=usage.page_entries,
        quarantined=usage.quarantine_entries,
    )
