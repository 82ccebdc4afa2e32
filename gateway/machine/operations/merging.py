"""Make one view of the views of several brokers: totals are added up, pages are joined, states are the worst of all."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from sluicegate.gateway.views.clients.clients import ClientQuery, ClientsView
from sluicegate.gateway.views.clients.connections import ClientSubscriptionsView, SubscriptionsQuery
from sluicegate.gateway.views.clients.message_vpns import MessageVpnView
from sluicegate.gateway.views.clients.sessions import MqttSessionsView, SessionQuery
from sluicegate.gateway.views.clients.subscriptions import SmrpQuery, SmrpSubscriptionsView
from sluicegate.gateway.views.links import LinksView
from sluicegate.gateway.views.node.backups import BackupState, BackupView
from sluicegate.gateway.views.node.figures import (
    NodeFigures,
    ProcessFigures,
    ProtocolFigures,
    QueuesFigures,
    QueuesQuery,
)
from sluicegate.gateway.views.node.listeners import ListenersView, ListenerView
from sluicegate.gateway.views.node.runtime import Health, ReloadView
from sluicegate.gateway.views.node.spool import SpoolView

T = TypeVar("T")

# Of a message VPN: what each broker has of its own. Retained messages are in all of them, and count once.
VPN_SUMS = (
    *("connection_count", "subscription_count", "subscription_bytes"),
    *("session_count", "kept_session_count", "session_bytes", "spooled_msg_count", "msg_spool_usage_bytes"),
)
SPOOL_SUMS = (
    *("used_bytes", "limit_bytes", "messages_bytes", "staged_bytes", "transactions_open", "messages_count"),
    *("unacked_count", "memory_bytes", "memory_bytes_max", "file_bytes", "log_bytes"),
    *("journal_records", "pages", "quarantined"),
)
LISTENER_SUMS = (
    *("connections_count", "accepted_total", "refused_total", "beyond_files_total", "failed_handshakes_total"),
)
# Of a backup, the state that counts is the first of these that one of its parts has.
WORST_FIRST = (BackupState.FAILED, BackupState.RUNNING, BackupState.CANCELLED, BackupState.DONE)


def _sums(views: Sequence[Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: sum([getattr(view, name) for view in views]) for name in names}


def _page(parts: Sequence[Sequence[T]], key: Callable[[T], Any], after: int, limit: int) -> tuple[T, ...]:
    """Return a page of lists that each have the first `after + limit` of their own, in the order of the key."""
    return tuple(sorted([each for part in parts for each in part], key=key)[after : after + limit])


def merged_vpn(views: Sequence[MessageVpnView], brokers_count: int) -> MessageVpnView:
    """Return a message VPN of all brokers. It is up when it is up at every one.

    Each broker has a queue in it for the link to each other one, which operators do not see.
    """
    endpoint_counts = [max(0, view.endpoint_count - (brokers_count - 1)) for view in views]
    return replace(
        views[0],
        up=all(view.up for view in views),
        retained_message_count=max([view.retained_message_count for view in views]),
        retained_message_bytes=max([view.retained_message_bytes for view in views]),
        endpoint_count=sum(endpoint_counts),
        **_sums(views, VPN_SUMS),
    )


def merged_figures(views: Sequence[NodeFigures]) -> NodeFigures:
    """Return the totals of all brokers, under the name of the first."""
    processes = [view.process for view in views if view.process is not None]
    protocols: dict[str, list[ProtocolFigures]] = {}
    for view in views:
        for each in view.protocols:
            protocols.setdefault(each.protocol, []).append(each)
    counters = [name for name in ProtocolFigures.__dataclass_fields__ if name != "protocol"]
    return replace(
        views[0],
        spool_commits_total=sum([view.spool_commits_total for view in views]),
        process=ProcessFigures(**_sums(processes, ("memory_bytes", "cpu_ms_total"))) if processes else None,
        protocols=tuple([replace(each[0], **_sums(each, counters)) for each in protocols.values()]),
    )


def merged_page_of_queues(pages: Sequence[QueuesFigures], question: QueuesQuery) -> QueuesFigures:
    """Return a page of the figures of all queues, by name."""
    return QueuesFigures(
        at_ms=pages[0].at_ms,
        total_count=sum([page.total_count for page in pages]),
        queues=_page([page.queues for page in pages], lambda each: each.name, question.after, question.limit),
    )


def merged_clients(pages: Sequence[ClientsView], question: ClientQuery) -> ClientsView:
    """Return a page of all clients, by name."""
    return ClientsView(
        total_count=sum([page.total_count for page in pages]),
        clients=_page([page.clients for page in pages], lambda each: each.name, question.after, question.limit),
    )


def merged_subscriptions(pages: Sequence[SmrpSubscriptionsView], question: SmrpQuery) -> SmrpSubscriptionsView:
    """Return a page of all subscriptions, by destination."""
    return SmrpSubscriptionsView(
        vpn_name=pages[0].vpn_name,
        exported=any(page.exported for page in pages),
        complete_percent=min([page.complete_percent for page in pages]),
        total_count=sum([page.total_count for page in pages]),
        subscriptions=_page(
            [page.subscriptions for page in pages],
            lambda each: (each.destination_name, each.subscription, each.dto_priority),
            question.after,
            question.limit,
        ),
    )


def merged_client_subscriptions(
    pages: Sequence[ClientSubscriptionsView], question: SubscriptionsQuery
) -> ClientSubscriptionsView:
    """Return a page of the subscriptions that a client has at several brokers."""
    return ClientSubscriptionsView(
        client=pages[0].client,
        total_count=sum([page.total_count for page in pages]),
        subscriptions=_page(
            [page.subscriptions for page in pages], lambda each: each.subscription, question.after, question.limit
        ),
    )


def merged_sessions(pages: Sequence[tuple[str, MqttSessionsView]], question: SessionQuery) -> MqttSessionsView:
    """Return a page of all MQTT sessions, by client identifier, each with its broker."""
    named = [[replace(each, broker=broker) for each in page.sessions] for broker, page in pages]
    return MqttSessionsView(
        total_count=sum([page.total_count for _, page in pages]),
        sessions=_page(named, lambda each: each.client_id, question.after, question.limit),
    )


def merged_listeners(views: Sequence[ListenersView]) -> ListenersView:
    """Return the listeners of all brokers, which share their ports and the limits on their connections."""
    by_name: dict[str, list[ListenerView]] = {}
    for view in views:
        for each in view.listeners:
            by_name.setdefault(each.name, []).append(each)
    return ListenersView(
        listeners=tuple([replace(each[0], **_sums(each, LISTENER_SUMS)) for _, each in sorted(by_name.items())])
    )


def merged_links(views: Sequence[LinksView], here: Collection[str]) -> LinksView:
    """Return the links to brokers that are not `here`; of each the first broker's. Refusals are added up."""
    refusals: dict[str, int] = {}
    for view in views:
        for reason, count in view.refusals.items():
            refusals[reason] = refusals.get(reason, 0) + count
    links = {link.name: link for view in reversed(views) for link in view.links if link.name not in here}
    missing = {(each.name, each.vpn_name): each for view in reversed(views) for each in view.missing_links}
    first = views[0]
    in_order = [link for _, link in sorted(links.items())]
    return LinksView(first.broker, first.network, refusals, in_order, [each for _, each in sorted(missing.items())])


def merged_spool(views: Sequence[tuple[str, SpoolView]]) -> SpoolView:
    """Return all spools together; the incarnation is that of the first."""
    blocked = [f"{broker}: {view.blocked}" for broker, view in views if view.blocked]
    spools = [view for _, view in views]
    return replace(
        spools[0],
        blocked="; ".join(blocked),
        disk_free_bytes=min([view.disk_free_bytes for view in spools]),
        **_sums(spools, SPOOL_SUMS),
    )


def merged_backup(views: Sequence[BackupView]) -> BackupView:
    """Return a backup of all spools, in the folder of the first."""
    state = next(state for state in WORST_FIRST if any(view.state == state for view in views))
    ended = [view.ended_ms for view in views]
    return replace(
        views[0],
        state=state,
        started_ms=min([view.started_ms for view in views]),
        ended_ms=None if state == BackupState.RUNNING or None in ended else max([each or 0 for each in ended]),
        failure="; ".join(dict.fromkeys([view.failure for view in views if view.failure])),
        **_sums(views, ("written_bytes", "expected_bytes")),
    )


def merged_reload(views: Sequence[ReloadView]) -> ReloadView:
    """Return what was taken over: most settings are the same for all brokers, and are named once."""
    return ReloadView(
        taken_over=tuple(dict.fromkeys([each for view in views for each in view.taken_over])),
        restart_needed=tuple(dict.fromkeys([each for view in views for each in view.restart_needed])),
        warnings=tuple(dict.fromkeys([each for view in views for each in view.warnings])),
    )


def merged_health(answers: Mapping[str, Health | str]) -> Health:
    """Return the health of the machine. An answer is the health of a broker, or why that has not answered.

    The machine takes traffic while one broker does: the supervisor brings the others back.
    """
    reasons: list[str] = []
    for name, answer in answers.items():
        if isinstance(answer, Health):
            reasons += [f"broker {name}: {reason}" for reason in answer.reasons]
        else:
            reasons.append(f"broker {name} {answer}")
    answered = [answer for answer in answers.values() if isinstance(answer, Health)]
    return Health(
        live=all(health.live for health in answered),
        ready=any(health.ready for health in answered),
        reasons=tuple(reasons),
    )
