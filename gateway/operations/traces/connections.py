"""Which connections can be traced, and what reads the packets of each protocol."""

from typing import TypeAlias

from sluicegate.gateway.node.servers.server import ClientConnection
from sluicegate.gateway.operations.traces.amqp_frames import AmqpFrames
from sluicegate.gateway.operations.traces.flow_frames import FlowFrames
from sluicegate.gateway.operations.traces.mqtt_packets import MqttPackets
from sluicegate.gateway.operations.traces.words import PacketsRead
from sluicegate.protocols.amqp.connection import AmqpConnection
from sluicegate.protocols.flow.connection import FlowConnection
from sluicegate.protocols.mqtt.connection import MqttConnection

TracedConnection: TypeAlias = MqttConnection | AmqpConnection | FlowConnection


def traceable(connection: ClientConnection) -> TracedConnection | None:
    """Return a connection if it can be traced. One that is a link between brokers cannot: it writes by itself."""
    if isinstance(connection, FlowConnection):
        return connection if connection.link is None else None
    return connection if isinstance(connection, MqttConnection | AmqpConnection) else None


def packets_of(connection: TracedConnection) -> PacketsRead:
    """Return what reads the packets of one direction of a connection."""
    if isinstance(connection, MqttConnection):
        return MqttPackets(int(connection.engine.level))
    return AmqpFrames() if isinstance(connection, AmqpConnection) else FlowFrames()
