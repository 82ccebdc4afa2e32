"""Which connections can be traced, and what reads the packets of each protocol."""

from typing import Final, TypeAlias, final

from sluicegate.gateway.node.servers.server import ClientConnection
from sluicegate.gateway.operations.traces.amqp_frames import AmqpFrames
from sluicegate.gateway.operations.traces.flow_frames import FlowFrames
from sluicegate.gateway.operations.traces.http_messages import http_messages
from sluicegate.gateway.operations.traces.mqtt_packets import MqttPackets
from sluicegate.gateway.operations.traces.words import PacketsRead, PacketWords
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


@final
class ToMqttClient:
    """The packets to an MQTT client: how they are read depends on its CONNECT, which may not have come yet."""

    def __init__(self, connection: MqttConnection) -> None:
        self._connection: Final = connection
        self._packets: MqttPackets | None = None

    def read(self, data: bytes) -> list[tuple[PacketWords, int]]:
        """Return the packets that are known by now."""
        if self._packets is None:
            self._packets = MqttPackets(int(self._connection.engine.level))
        return self._packets.read(data)


def packets_of(connection: TracedConnection, vpn: str) -> tuple[PacketsRead, PacketsRead]:
    """Return what reads the packets of a connection, from its client and to it, as far as they are of a message VPN."""
    if isinstance(connection, HttpConnection):
        return http_messages(connection, vpn)
    if isinstance(connection, MqttConnection):
        return MqttPackets(int(connection.engine.level)), ToMqttClient(connection)
    return (AmqpFrames(), AmqpFrames()) if isinstance(connection, AmqpConnection) else (FlowFrames(), FlowFrames())
