"""Which connections can be traced, and what reads the packets of each protocol."""

from typing import TypeAlias

from sluicegate.gateway.node.servers.server import ClientConnection
from sluicegate.gateway.operations.traces.amqp_frames import AmqpFrames
from sluicegate.gateway.operations.traces.flow_frames import FlowFrames
from sluicegate.gateway.operations.traces.http_messages import http_messages
from sluicegate.gateway.operations.traces.mqtt_packets import MqttPackets
from sluicegate.gateway.operations.traces.words import PacketsRead
from sluicegate.protocols.amqp.connection import AmqpConnection
from sluicegate.protocols.flow.connection import FlowConnection
from sluicegate.protocols.http.connection import HttpConnection
from sluicegate.protocols.mqtt.connection import MqttConnection

TracedConnection: TypeAlias = MqttConnection | AmqpConnection | FlowConnection | HttpConnection


def traceable(connection: ClientConnection) -> TracedConnection | None:
    """Return a connection if it can be traced. One that is a link between brokers cannot: it writes by itself."""
    if isinstance(connection, FlowConnection):
        return connection if connection.link is None else None
    return connection if isinstance(connection, MqttConnection | AmqpConnection | HttpConnection) else None


def packets_of(connection: TracedConnection, vpn: str) -> tuple[PacketsRead, PacketsRead]:
    """Return what reads the packets of a connection, from its client and to it, as far as they are of a message VPN."""
    if isinstance(connection, HttpConnection):
        return http_messages(connection, vpn)
    if isinstance(connection, MqttConnection):
        level = int(connection.engine.level)
        return MqttPackets(level), MqttPackets(level)
    return (AmqpFrames(), AmqpFrames()) if isinstance(connection, AmqpConnection) else (FlowFrames(), FlowFrames())
