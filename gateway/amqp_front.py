"""The AMQP side of a node: its listeners, and the connections on them."""

import asyncio
from typing import TYPE_CHECKING

from actors.cell import ActorCell
from actors.runtime import TimerHandle
from actors.supervision import ONE_CONNECTION, VITAL
from gateway.accounts import make_authenticator
from gateway.listening import make_listener, start_listener
from gateway.queue_kinds import subscription_queue
from gateway.tree import SupervisorActor
from gateway.version import VERSION
from protocols.amqp.connection import AmqpConnection
from protocols.amqp.connection_actor import AmqpConnectionActor
from protocols.amqp.limits import AmqpLimits
from protocols.amqp.services import AmqpCounters, AmqpServices
from protocols.listeners import Listener
from protocols.transports import Connection

if TYPE_CHECKING:
    from gateway.node import Node

TICK_MS = 500  # how often heartbeats, silence and handshakes are looked at
SCHEMES = {"amqp": "amqp", "amqp_tls": "amqps", "amqp_websocket": "ws"}
SUBPROTOCOLS = ("amqp",)


class AmqpFront:
    """Everything of AMQP in one node."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self.counters = AmqpCounters()
        self.services = self._make_services()
        self.connections = node.runtime.spawn(
            SupervisorActor, kind="listeners", name="amqp", policy=VITAL, parent=node.root
        )
        self.listeners: dict[str, Listener] = {}
        self._ticker: TimerHandle | None = None
        self._names = 0

    async def start(self) -> None:
        """Open the listeners. Raises CannotStart when a port cannot be had, or a certificate not be used."""
        for name, config in self._node.config.listeners.enabled().items():
            if name in SCHEMES:
                listener = make_listener(
                    name,
                    config,
                    self._connect,
                    surroundings=self._node.surroundings,
                    alpn="amqp",
                    subprotocols=SUBPROTOCOLS,
                    message_bytes_max=self._node.config.amqp.max_frame_size,
                )
                await start_listener(listener, config)
                self.listeners[name] = listener
        self._tick()

    async def stop(self, *, within_s: float) -> None:
        """Take no more clients, close the connections there are, and wait until they are gone."""
        for listener in self.listeners.values():
            await listener.stop()
        if self._ticker is not None:
            self._ticker.cancel()
        for connection in self.open_connections():
            connection.shut_down()
        deadline = self._node.clock.now_ms() + int(within_s * 1000)
        while self._open() and self._node.clock.now_ms() < deadline:
            await asyncio.sleep(0.01)

    def reload(self) -> None:
        """Take over a changed configuration: for the next connection, and for the next TLS handshake."""
        self.services = self._make_services()
        for name, listener in self.listeners.items():
            listener.connections_max = self._node.config.listeners.by_name()[name].max_connections
            listener.reload_tls()

    def endpoints(self) -> list[str]:
        """Return a URL for each open listener."""
        urls = []
        for name, listener in self.listeners.items():
            config = self._node.config.listeners.enabled()[name]
            path = getattr(config, "path", "")
            urls.append(f"{SCHEMES[name]}://{config.host}:{listener.port}{path}")
        return urls

    def open_connections(self) -> list[AmqpConnection]:
        """Return the connections there are now."""
        actors = [cell.actor for cell in self._open()]
        return [actor.connection for actor in actors if isinstance(actor, AmqpConnectionActor)]

    def look_at_the_clock(self) -> None:
        """Bring time to every connection."""
        now_ms = self._node.clock.now_ms()
        for connection in self.open_connections():
            connection.tick(now_ms)

    def _open(self) -> list[ActorCell]:
        return list((self.connections.children or {}).values())

    def _tick(self) -> None:
        self.look_at_the_clock()
        self._ticker = self._node.runtime.after(TICK_MS, self._tick)

    def _connect(self) -> Connection:
        """Make the actor of a connection that was just accepted."""
        self._names += 1
        cell = self._node.runtime.spawn(
            lambda cell: AmqpConnectionActor(cell, services=self.services),
            kind="connection",
            name=f"amqp-{self._names}",
            policy=ONE_CONNECTION,
            parent=self.connections,
        )
        actor = cell.actor
        assert isinstance(actor, AmqpConnectionActor)
        return actor.connection

    def _make_services(self) -> AmqpServices:
        node = self._node
        amqp = node.config.amqp
        return AmqpServices(
            runtime=node.runtime,
            space=node.space,
            router=node.router,
            queues=node.queues,
            spool=node.spool.inbox,
            authenticator=make_authenticator(node.config, node.runtime.rng),
            limits=AmqpLimits(
                frame_bytes_max=amqp.max_frame_size,
                channel_max=amqp.channel_max,
                handle_max=amqp.handle_max,
                message_bytes_max=amqp.max_message_size,
                partial_bytes_max=2 * amqp.max_message_size,
                idle_timeout_ms=amqp.idle_timeout_s * 1000,
                connect_timeout_ms=amqp.connect_timeout_s * 1000,
                link_credit=amqp.link_credit,
            ),
            counters=self.counters,
            credit=node.credit,
            container_id=node.config.node.name,
            version=VERSION,
            allows_plain_unencrypted=amqp.allow_plain_without_tls,
            subscription_queue=subscription_queue,
        )
