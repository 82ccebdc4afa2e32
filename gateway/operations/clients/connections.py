"""One client with all that its connections know of it: a part for each protocol."""

from collections.abc import Sequence
from typing import Final

from sluicegate.gateway.operations.clients.clients import ClientFlow, FoundClient, client_views
from sluicegate.gateway.operations.queues.views import flow_view
from sluicegate.gateway.views.clients.connections import (
    AmqpConnectionView,
    AmqpLinkView,
    ClientFlowView,
    ConnectionView,
    FlowConnectionView,
    FlowPublisherView,
    MqttConnectionView,
    WillView,
)
from sluicegate.protocols.amqp.codec.performatives import SENDER_SETTLED, SENDER_UNSETTLED
from sluicegate.protocols.amqp.codec.termini import DURABLE_NONE, Coordinator
from sluicegate.protocols.amqp.connection import AmqpConnection
from sluicegate.protocols.amqp.engine.link import ATTACHED, PENDING, IncomingLink, OutgoingLink
from sluicegate.protocols.flow.connection import FlowConnection
from sluicegate.protocols.http.connection import HttpConnection
from sluicegate.protocols.mqtt.codec.events import Will
from sluicegate.protocols.mqtt.connection import MqttConnection
from sluicegate.protocols.mqtt.requests.connect import LEVEL_NAMES
from sluicegate.protocols.mqtt.session.session import NEVER_EXPIRES
from sluicegate.protocols.transport.interface import PeerInfo

COORDINATOR: Final = "$coordinator"  # the target of links that declare transactions
SETTLE_MODES: Final = {SENDER_SETTLED: "settled", SENDER_UNSETTLED: "unsettled"}  # any other: mixed
LINK_STATES: Final = {PENDING: "attaching", ATTACHED: "attached"}  # any other: ending


def connection_views(
    found: list[FoundClient], flows: Sequence[ClientFlow], *, now_ms: int, wall_ms: int
) -> tuple[ConnectionView, ...]:
    """Return the connections of one client; `flows` include its own."""
    clients = client_views(found, flows, now_ms=now_ms)
    views = []
    for each, client in zip(found, clients, strict=True):
        connection, name = each.connection, each.rights.client
        peer = _peer_of(connection)
        its = [
            ClientFlowView(queue=queue, flow=flow_view(flow))
            for queue, flow in flows
            if (flow.protocol, flow.client) == (each.protocol, name)
        ]
        views.append(
            ConnectionView(
                client=client,
                protocol_version=_version_of(connection),
                listener="" if peer is None else peer.listener,
                tls=peer is not None and peer.is_encrypted,
                websocket=None if peer is None else peer.subprotocol,
                certificate_name=None if peer is None else peer.certificate_name,
                connected_ms=wall_ms - (now_ms - each.rights.admitted_ms),
                is_slow=connection.is_writing_paused,
                unread_bytes=_unread_bytes(connection),
                dropped_count=_dropped_count(connection),
                flows=tuple(its),
                mqtt=_mqtt_view(connection) if isinstance(connection, MqttConnection) else None,
                amqp=_amqp_view(connection) if isinstance(connection, AmqpConnection) else None,
                flow=_flow_view(connection) if isinstance(connection, FlowConnection) else None,
            )
        )
    return tuple(views)


def _peer_of(connection: object) -> PeerInfo | None:
    if isinstance(connection, FlowConnection):
        return connection.peer_info
    return connection.peer if isinstance(connection, MqttConnection | AmqpConnection | HttpConnection) else None


def _unread_bytes(connection: object) -> int:
    if not isinstance(connection, MqttConnection | AmqpConnection | FlowConnection | HttpConnection):
        return 0
    stream = connection.stream
    return 0 if stream is None else stream.buffered_bytes()


def _dropped_count(connection: object) -> int:
    control = connection.write_control if isinstance(connection, MqttConnection) else None
    if isinstance(connection, FlowConnection):
        control = connection.subscriptions.write_control
    return 0 if control is None else control.dropped_count


def _version_of(connection: object) -> str:
    if isinstance(connection, MqttConnection):
        return LEVEL_NAMES.get(connection.engine.level, "")
    return {AmqpConnection: "1.0", FlowConnection: "1", HttpConnection: "1.1"}.get(type(connection), "")


def will_view(will: Will | None) -> WillView | None:
    """Return a will as operators see it."""
    if will is None:
        return None
    return WillView(
        topic=will.topic, size_bytes=len(will.payload), qos=will.qos, retain=will.retain, delay_s=will.delay_s
    )


def expiry_of(expiry_s: int) -> int | None:
    """Return the expiry of a session in seconds, None for never."""
    return None if expiry_s == NEVER_EXPIRES else expiry_s


def _mqtt_view(connection: MqttConnection) -> MqttConnectionView:
    engine, session = connection.engine, connection.session
    return MqttConnectionView(
        clean_start=engine.clean_start,
        keep_alive_s=engine.keep_alive_s,
        session_expiry_s=0 if session is None else expiry_of(session.expiry_s),
        receive_maximum=connection.receive_maximum,
        maximum_packet_size=engine.client_packet_bytes_max or None,
        topic_alias_maximum=engine.topic_alias_maximum,
        reason_strings=engine.tells_reasons,
        will=will_view(connection.will),
    )


def _amqp_view(connection: AmqpConnection) -> AmqpConnectionView:
    engine = connection.engine
    links: list[AmqpLinkView] = []
    for channel, session in sorted(engine.sessions.by_channel.items()):
        both: list[IncomingLink | OutgoingLink] = [*session.incoming.values(), *session.outgoing.values()]
        links += [_link_view(channel, link) for link in sorted(both, key=lambda each: each.handle)]
    return AmqpConnectionView(
        container_id=connection.container_id,
        max_frame_size=engine.sessions.frame_bytes_max,
        heartbeat_ms=engine.heartbeat_ms,
        sessions_count=len(engine.sessions.by_channel),
        links=tuple(links),
    )


def _link_view(channel: int, link: IncomingLink | OutgoingLink) -> AmqpLinkView:
    attach = link.attach
    sends = isinstance(link, IncomingLink)
    terminus = attach.target if sends else attach.source
    return AmqpLinkView(
        name=link.name,
        role="sender" if sends else "receiver",
        channel=channel,
        handle=link.handle,
        address=COORDINATOR if isinstance(terminus, Coordinator) else None if terminus is None else terminus.address,
        state=LINK_STATES.get(link.state, "ending"),
        credit=link.credit,
        delivery_count=link.delivery_count,
        settle_mode=SETTLE_MODES.get(attach.sender_settle_mode, "mixed"),
        durable=not sends and attach.source is not None and attach.source.durable != DURABLE_NONE,
    )


def _flow_view(connection: FlowConnection) -> FlowConnectionView:
    publishers = [
        FlowPublisherView(
            id=flow.flow_id,
            name="" if flow.named is None else flow.named.name,
            epoch=flow.epoch,
            window=flow.window,
            received_through=flow.received_through,
            answered_through=flow.answered_through,
            unanswered_count=flow.unanswered_count,
        )
        for flow in connection.publishers.flows.values()
    ]
    return FlowConnectionView(
        keep_alive_ms=connection.engine.keep_alive_ms,
        compresses=connection.engine.compresses,
        publishers=tuple(publishers),
    )
