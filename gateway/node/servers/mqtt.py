"""The MQTT server: makes the connections of MQTT clients and their services."""

from collections.abc import Mapping
from typing import ClassVar

from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.config.sections.node import Mqtt
from sluicegate.gateway.node.servers.server import ProtocolServer
from sluicegate.gateway.node.services import NodeServices
from sluicegate.gateway.node.siblings import Siblings
from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.gateway.provisioning.queues import session_queue
from sluicegate.protocols.connection.forwarding import Forwarding
from sluicegate.protocols.mqtt.client import MqttServices
from sluicegate.protocols.mqtt.codec.limits import MqttLimits
from sluicegate.protocols.mqtt.connection import MqttConnection
from sluicegate.protocols.mqtt.reception import Reception
from sluicegate.protocols.transport.interface import ConnectionFactory
from sluicegate.protocols.transport.passing.passed_peer import MQTT_CLIENT

LEVEL3_CLIENT_ID_CHARS = 23  # the standard's limit for 3.1


class MqttServer(ProtocolServer[MqttConnection, MqttServices]):
    """The server of MQTT in one node."""

    name = "mqtt"
    schemes: ClassVar = {"mqtt": "mqtt", "mqtt_tls": "mqtts", "mqtt_websocket": "ws", "mqtt_websocket_tls": "wss"}
    alpn = "mqtt"
    subprotocols = ("mqtt", "mqttv3.1")  # 3.1 clients knew the second name only [MQTT 6.0.0-3] [MQTT 6.0.0-4]

    @property
    def message_bytes_max(self) -> int:
        """A packet need not be cut, so the longest packet."""
        return self._services.config.mqtt.maximum_packet_size

    @property
    def allowed_origins(self) -> tuple[str, ...]:
        """The web pages that may use its ports."""
        return self._services.config.mqtt.allowed_origins

    def __init__(self, services: NodeServices, message_vpns: Mapping[str, MessageVpn]) -> None:
        self._siblings = services.environment.siblings
        super().__init__(services, message_vpns)
        self.reception: Reception | None = None  # None: there is one broker on this machine, which serves all clients
        if self.forwarding is not None:
            self.reception = Reception(
                self.forwarding,
                self._connect,
                limits=_limits(services.config.mqtt),
                counters=self.counters,
                unfinished=services.unfinished,
                later=lambda work: services.runtime.after(0, work),
            )

    def make_forwarding(self, siblings: Siblings) -> Forwarding:
        """Return how connections reach the homes of their client identifiers."""
        return Forwarding(MQTT_CLIENT, siblings.homes, siblings.passage_to)

    @property
    def connection_factory(self) -> ConnectionFactory:
        """What the listeners make connections by."""
        return self._connect if self.reception is None else self.reception.connect

    async def start(self) -> None:
        """Open the listeners, and take clients from other brokers of this machine. Raises CannotStart."""
        await super().start()
        if self._siblings is not None:
            self._siblings.take_clients(MQTT_CLIENT, self.adopt)

    async def stop(self, *, within_s: float) -> None:
        """Accept no more clients, disconnect those there are, and wait until they are gone, for `within_s` at most."""
        if self.reception is not None:
            self.reception.end()
        await super().stop(within_s=within_s)

    def reload(self) -> None:
        """Put a changed configuration in force, for new connections. A broker that has moved sends 5.0 clients away."""
        super().reload()
        if self._services.config.mqtt.server_moved:
            for connection in self.open_connections():
                connection.server_moved()
        if self.reception is not None:
            self.reception.use(_limits(self._services.config.mqtt))

    def make_connection(self, cell: ActorCell) -> MqttConnection:
        """Return the behaviour of the connection of a stream that was just accepted."""
        return MqttConnection(cell, self.vpns)

    def make_services(self, vpn: MessageVpn) -> MqttServices:
        """Return the services that connections to a message VPN use."""
        services = self._services
        config: Config = services.config
        mqtt = config.mqtt
        servers = vpn.other_servers  # which connections have that are open, too
        servers.reference, servers.has_moved = mqtt.server_reference, mqtt.server_moved
        return MqttServices(
            vpns=self.vpns,
            runtime=services.runtime,
            events=vpn.events,
            space=vpn.space,
            router=vpn.router,
            queues=vpn.queues,
            sessions=vpn.sessions,
            session_quota=vpn.session_quota,
            spool=services.spool.inbox,
            authenticator=vpn.accounts.authenticator,
            clients=vpn.clients,
            limits=_limits(mqtt),
            counters=self.counters,
            unfinished=services.unfinished,
            selectors=services.selectors,
            credit=services.credit,
            window_v3=mqtt.unacknowledged_window_v3,
            session_expiry_s_max=mqtt.session_expiry_s_max,
            keep_alive_s_max=mqtt.keep_alive_s_max,
            allows_no_client_id=mqtt.allow_zero_length_client_id,
            other_servers=servers,
            response_information=mqtt.response_information,
            connection_buffer_bytes_max=config.backpressure.connection_buffer_bytes_max,
            slow_subscriber_stall_ms=config.backpressure.slow_subscriber_stall_ms,
            homes=None if self._siblings is None else self._siblings.homes,
            session_queue=session_queue,
        )


def _limits(mqtt: Mqtt) -> MqttLimits:
    return MqttLimits(
        packet_bytes_max=mqtt.maximum_packet_size,
        receive_maximum=mqtt.receive_maximum,
        topic_alias_maximum=mqtt.topic_alias_maximum,
        maximum_qos=mqtt.maximum_qos,
        retain_available=mqtt.retain_available,
        connect_timeout_ms=mqtt.connect_timeout_s * 1000,
        connect_bytes_max=min(512 * 1024, mqtt.maximum_packet_size),
        client_id_bytes_max=mqtt.client_id_bytes_max,
        level3_client_id_chars_max=LEVEL3_CLIENT_ID_CHARS if mqtt.strict_client_id_3_1 else 0,
        topic_levels_max=mqtt.topic_levels_max,
        refuse_control_characters=mqtt.reject_control_characters,
    )
