"""MQTT sessions: selected by client identifier, and described as operators see them."""

from sluicegate.actors.messages.queues import QueueOverview
from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.gateway.operations.clients.connections import expiry_of, will_view
from sluicegate.gateway.views.clients.sessions import MqttSessionView, SessionQuery
from sluicegate.gateway.views.text import name_pattern
from sluicegate.protocols.mqtt.session.session import NEVER_EXPIRES, Session


def wanted_sessions(vpn: MessageVpn, question: SessionQuery) -> list[Session]:
    """Return the sessions that match a query, of all pages, by client identifier."""
    wanted = name_pattern(question.client_id)
    found = [
        each
        for each in vpn.session_directory().sessions()
        if wanted.fullmatch(each.client_id) and question.connected in (None, each.connection is not None)
    ]
    return sorted(found, key=lambda each: each.client_id)


def session_view(session: Session, overview: QueueOverview | None) -> MqttSessionView:
    """Return a session; `overview` is that of its queue, None: it has none."""
    away = session.away if session.connection is None else None
    disconnected_ms = away.closed_wall_ms if away is not None and away.closed_wall_ms else None
    expires = disconnected_ms is not None and session.expiry_s != NEVER_EXPIRES
    partitions = [] if overview is None else overview.partitions
    return MqttSessionView(
        client_id=session.client_id,
        client_username=session.user,
        connected=session.connection is not None,
        expiry_s=expiry_of(session.expiry_s),
        disconnected_ms=disconnected_ms,
        expires_ms=disconnected_ms + session.expiry_s * 1000 if disconnected_ms is not None and expires else None,
        subscriptions_count=len(session.table.by_filter) + len(session.shares) + len(session.queues),
        queue=None if session.queue is None else session.queue.name,
        ready_count=sum(each.ready_count for each in partitions),
        unacked_count=sum(each.in_flight_count for each in partitions),
        spooled_bytes=sum(each.waiting_bytes for each in partitions),
        unreleased_count=session.received_count,
        will=will_view(None if away is None else away.will),
    )
