"""The MQTT side of a node: its listeners, the connections on them, and the sessions behind them."""

import asyncio
from typing import TYPE_CHECKING

from actors.cell import ActorCell
from actors.runtime import TimerHandle
from actors.supervision import ONE_CONNECTION, VITAL
from gateway.accounts import make_authenticator
from gateway.config import Config
from gateway.listening import make_listener, start_listener
from gateway.queue_kinds import session_queue
from gateway.tree import SupervisorActor
from protocols.listeners import Listener
from protocols.mqtt.connection import MqttConnection
from protocols.mqtt.connection_actor import MqttConnectionActor
from protocols.mqtt.directory import SessionDirectory
from protocols.mqtt.limits import MqttLimits
from protocols.mqtt.messages import RestoreSessions
from protocols.mqtt.services import MqttCounters, MqttServices
from protocols.transports import Connection

if TYPE_CHECKING:
    from gateway.node import Node

TICK_MS = 500  # how often keep alive and connect timeouts are looked at; both are in whole seconds
SCHEMES = {"mqtt": "mqtt", "mqtt_tls": "mqtts", "mqtt_websocket": "ws", "mqtt_websocket_tls": "wss"}
# In our order of preference: 3.1 clients knew the second name only [MQTT 6.0.0-3] [MQTT 6.0.0-4].
SUBPROTOCOLS = ("mqtt", "mqttv3.1")
LEVEL3_CLIENT_ID_CHARS = 23  # the standard's limit for 3.1


class MqttFront:
    """Everything of MQTT in one node."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self.counters = MqttCounters()
        self.services = self._make_services()
        self.directory = self._spawn_directory()
        self.connections = node.runtime.spawn(
            SupervisorActor, kind="listeners", name="mqtt", policy=VITAL, parent=node.root
        )
        self._listeners: dict[str, Listener] = {}
        self._ticker: TimerHandle | None = None
        self._names = 0

    async def restore(self, rows: dict[bytes, bytes]) -> None:
        """Bring back the sessions that the store knows."""
        await self.directory.ask(RestoreSessions(dict(rows)))

    async def start(self) -> None:
        """Open the listeners. Raises CannotStart when a port cannot be had, or a certificate not be used."""
        for name, config in self._node.config.listeners.enabled().items():
            if name in SCHEMES:
                listener = make_listener(
                    name,
                    config,
                    self._connect,
                    surroundings=self._node.surroundings,
                    alpn="mqtt",
                    subprotocols=SUBPROTOCOLS,
                    message_bytes_max=self._node.config.mqtt.maximum_packet_size,
                )
                await start_listener(listener, config)
                self._listeners[name] = listener
        self._tick()

    async def stop(self, *, within_s: float) -> None:
        """Take no more clients, tell those there are, and wait until their sessions are put away."""
        for listener in self._listeners.values():
            await listener.stop()
        if self._ticker is not None:
            self._ticker.cancel()
        for cell in self._open():
            actor = cell.actor
            assert isinstance(actor, MqttConnectionActor)
            actor.connection.shut_down()
        deadline = self._node.clock.now_ms() + int(within_s * 1000)
        while self._open() and self._node.clock.now_ms() < deadline:
            await asyncio.sleep(0.01)

    def reload(self) -> None:
        """Take over a changed configuration: for the next CONNECT, and for the next TLS handshake."""
        config = self._node.config
        self.services = self._make_services()
        for name, listener in self._listeners.items():
            listener.connections_max = config.listeners.by_name()[name].max_connections
            listener.reload_tls()

    def endpoints(self) -> list[str]:
        """Return a URL for each open listener."""
        urls = []
        for name, listener in self._listeners.items():
            config = self._node.config.listeners.enabled()[name]
            path = getattr(config, "path", "")
            urls.append(f"{SCHEMES[name]}://{config.host}:{listener.port}{path}")
        return urls

    def things_to_try(self) -> list[str]:
        """Return lines that show a newcomer the first three commands."""
        listener = self._listeners.get("mqtt")
        if listener is None:
            return []
        admin = self._node.admin
        port = "" if listener.port == 1883 else f" --port {listener.port}"
        url = "" if admin is None or admin.port == 8080 else f" --url http://127.0.0.1:{admin.port}"
        return [
            "Try, in another terminal (in .venv/bin when it was made by `make run`):",
            f"  sluicegate queue create orders --partitions 4 --subscription 'orders/>'{url}",
            f"  sluicegate sub --queue orders{port}",
            f"  sluicegate pub --topic orders/eu --key customer-7 --message hello{port}",
        ]

    @property
    def sessions_count(self) -> int:
        """How many sessions there are."""
        actor = self.directory.actor
        assert isinstance(actor, SessionDirectory)
        return actor.sessions_count

    @property
    def listeners(self) -> dict[str, Listener]:
        """The open listeners by name."""
        return self._listeners

    def _connect(self) -> Connection:
        """Make the actor of a connection that was just accepted."""
        self._names += 1
        cell = self._node.runtime.spawn(
            lambda cell: MqttConnectionActor(cell, services=self.services, directory=self.directory),
            kind="connection",
            name=str(self._names),
            policy=ONE_CONNECTION,
            parent=self.connections,
        )
        actor = cell.actor
        assert isinstance(actor, MqttConnectionActor)
        return actor.connection

    def open_connections(self) -> list[MqttConnection]:
        """Return the connections there are now."""
        actors = [cell.actor for cell in self._open()]
        return [actor.connection for actor in actors if isinstance(actor, MqttConnectionActor)]

    def _open(self) -> list[ActorCell]:
        return list((self.connections.children or {}).values())

    def look_at_the_clock(self) -> None:
        """Bring time to every connection: keep alive, connect timeouts."""
        now_ms = self._node.clock.now_ms()
        for cell in self._open():
            actor = cell.actor
            assert isinstance(actor, MqttConnectionActor)
            actor.connection.tick(now_ms)

    def _tick(self) -> None:
        self.look_at_the_clock()
        self._ticker = self._node.runtime.after(TICK_MS, self._tick)

    def _make_services(self) -> MqttServices:
        node = self._node
        config: Config = node.config
        mqtt = config.mqtt
        return MqttServices(
            runtime=node.runtime,
            space=node.space,
            router=node.router,
            queues=node.queues,
            spool=node.spool.inbox,
            authenticator=make_authenticator(config, node.runtime.rng),
            limits=MqttLimits(
                packet_bytes_max=mqtt.maximum_packet_size,
                receive_maximum=mqtt.receive_maximum,
                topic_alias_maximum=mqtt.topic_alias_maximum,
                connect_timeout_ms=mqtt.connect_timeout_s * 1000,
                connect_bytes_max=min(512 * 1024, mqtt.maximum_packet_size),
                level3_client_id_chars_max=LEVEL3_CLIENT_ID_CHARS if mqtt.strict_client_id_3_1 else 0,
                refuse_control_characters=mqtt.reject_control_characters,
            ),
            counters=self.counters,
            credit=node.credit,
            window_v3=mqtt.unacknowledged_window_v3,
            session_expiry_s_max=mqtt.session_expiry_s_max,
            keep_alive_s_max=mqtt.keep_alive_s_max,
            allows_no_client_id=mqtt.allow_zero_length_client_id,
            connection_buffer_bytes_max=config.backpressure.connection_buffer_bytes_max,
            slow_subscriber_stall_ms=config.backpressure.slow_subscriber_stall_ms,
            session_queue=session_queue,
        )

    def _spawn_directory(self) -> ActorCell:
        node = self._node
        return node.runtime.spawn(
            lambda cell: SessionDirectory(cell, services=self.services),
            kind="sessions",
            name="mqtt-sessions",
            policy=VITAL,
            parent=node.root,
        )
