"""The base of all protocol servers: their listeners, their open connections, and the clock tick of these.

The servers of the protocols are `mqtt`, `amqp`, `flow` and `http`.
"""

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar, Generic, Protocol, TypeVar

from sluicegate.actors.runtime.actor import SupervisorActor
from sluicegate.actors.runtime.runtime import ActorCell, Behaviour, Role
from sluicegate.actors.runtime.supervision import ONE_CONNECTION, VITAL
from sluicegate.actors.runtime.ticker import Ticker
from sluicegate.gateway.config.sections.listeners import TlsListener
from sluicegate.gateway.node.os_limits import files_for_clients
from sluicegate.gateway.node.servers.listening import make_listener, report_failed_handshakes
from sluicegate.gateway.node.servers.watched_connection import WatchedConnection
from sluicegate.gateway.node.services import NodeServices
from sluicegate.gateway.node.siblings import Siblings
from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.gateway.views.errors import opening
from sluicegate.protocols.connection.counters import ProtocolCounters, Traffic
from sluicegate.protocols.connection.forwarding import Forwarding
from sluicegate.protocols.connection.identity import Identity
from sluicegate.protocols.connection.message_vpns import MessageVpns, VpnServices
from sluicegate.protocols.connection.read_control import ReadControl
from sluicegate.protocols.transport.interface import Connection, ConnectionFactory, PeerInfo, PeerRecord
from sluicegate.protocols.transport.listeners import Listener
from sluicegate.protocols.transport.origins import OriginRefusal, WebPages
from sluicegate.protocols.transport.stream.stream import Origin, adopt

TICK_MS = 500  # between checks of time limits: keep alive, heartbeats, handshakes


class ClientConnection(Connection, Protocol):
    """A connection as its server sees it."""

    identity: Identity

    @property
    def read_control(self) -> ReadControl | None:
        """What decides whether the client is read from; None: reading was never paused."""

    @property
    def traffic(self) -> Traffic:
        """What has come and gone over it."""

    @property
    def is_writing_paused(self) -> bool:
        """Whether the client reads more slowly than we write."""

    def peer_name(self) -> str:
        """Return the address of the client."""

    def tick(self, now_ms: int) -> None:
        """Check time limits."""

    def stalled(self, stall_ms: int, now_ms: int) -> None:
        """Give back to the client's time limits a time in which this broker did not read what it sent."""

    def send_away(self, reason: str, *, node_stops: bool = False) -> None:
        """Close the connection, with the reason if the protocol has a place for one."""

    def fail(self) -> None:
        """End the connection at once."""


C = TypeVar("C", bound=ClientConnection)
S = TypeVar("S", bound=VpnServices)


class ProtocolServer(ABC, Generic[C, S]):
    """The server of one protocol in one node. Start it, reload it, tick it, stop it."""

    name: ClassVar[str]  # in metrics, and among the actors
    schemes: ClassVar[dict[str, str]]  # of the URLs of its listeners, by the listener's name in the configuration
    alpn: ClassVar[str]
    subprotocols: ClassVar[tuple[str, ...]]  # over WebSocket, in our order of preference

    def __init__(self, services: NodeServices, message_vpns: Mapping[str, MessageVpn]) -> None:
        self._services = services
        self._message_vpns = message_vpns  # the node's: it changes while the node runs
        self.counters = ProtocolCounters()
        siblings = services.environment.siblings
        self.forwarding = None if siblings is None else self.make_forwarding(siblings)
        self.listeners: dict[str, Listener] = {}
        self.connections = services.runtime.spawn(
            SupervisorActor, kind="listeners", name=self.name, policy=VITAL, parent=services.root
        )
        self._role = Role("connection", self.name, ONE_CONNECTION, self.make_connection, self.connections)
        self._ticker = Ticker(services.runtime.clock.now_ns, services.runtime.after, TICK_MS, self.tick)
        self._accepted_count = 0
        self.watchers: list[Callable[[C], Connection | None]] = []  # of new connections: traces
        self._is_running = False  # between start and stop
        self.pages = {
            listener: self._pages(listener) for listener in self.schemes
        }  # that may use its port, by listener
        self.vpns: MessageVpns[S]
        self._make_vpns()

    def make_forwarding(self, siblings: Siblings) -> Forwarding | None:
        """Return how connections reach the other brokers of this machine; None: they stay where they come in."""
        return None

    @property
    @abstractmethod
    def message_bytes_max(self) -> int:
        """The most bytes of one WebSocket message: the longest packet or frame of a client."""

    @property
    def allowed_origins(self) -> tuple[str, ...]:
        """The web pages that may use its ports; none unless the protocol runs over HTTP."""
        return ()

    @property
    def connection_factory(self) -> ConnectionFactory:
        """What the listeners make connections by."""
        return self._connect

    @abstractmethod
    def make_connection(self, cell: ActorCell) -> Behaviour:
        """Return the behaviour of the connection of a stream that was just accepted."""

    @abstractmethod
    def make_services(self, vpn: MessageVpn) -> S:
        """Return the services that connections to a message VPN use."""

    async def start(self) -> None:
        """Open the listeners. Raises CannotStart for a port that cannot be bound, or an unusable certificate.

        A retired broker has none: it serves the clients that others pass to it.
        """
        for name, config in self._services.config.listeners.enabled().items():
            if name in self.schemes and not self._services.environment.is_retired:
                with opening(f"listeners.{name}", config.host, config.port):
                    listener = make_listener(
                        name,
                        config,
                        self.connection_factory,
                        environment=self._services.environment,
                        alpn=self.alpn,
                        subprotocols=self.subprotocols,
                        message_bytes_max=self.message_bytes_max,
                        pages=self.pages[name],
                        on_foreign=self._refused_a_page,
                        unfinished=self._services.unfinished,
                    )
                    if self._services.limits is not None:
                        self._services.limits.share_listener(listener)
                    await listener.start()
                report_failed_handshakes(listener, self._services.runtime.events, f"{self.name} client")
                self.listeners[name] = listener
        self.tick()
        self._ticker.start()
        self._is_running = True

    async def stop(self, *, within_s: float) -> None:
        """Accept no more clients, disconnect those there are, and wait until they are gone, for `within_s` at most."""
        self._is_running = False
        for listener in self.listeners.values():
            await listener.stop()
        if self.forwarding is not None:
            self.forwarding.end()
        self._ticker.stop()
        for connection in self.open_connections():
            connection.send_away("the gateway stops", node_stops=True)
        deadline = self._services.clock.now_ms() + int(within_s * 1000)
        while self.connections.children and self._services.clock.now_ms() < deadline:
            await asyncio.sleep(0.01)

    def adopt(self, fd: int, peer: PeerRecord, data: bytes = b"", *, connect: ConnectionFactory | None = None) -> None:
        """Serve the peer of an open socket that another process has accepted; `data` is what it has read of it.

        `connect` makes the connection, if that is not an ordinary one.
        The peer is as that process describes it. It has a place of the listener that it names, if that is open here:
        without one left it is closed at once, as at that listener. A stopped server closes it, too.
        """
        listener = self.listeners.get(peer.listener)
        if not self._is_running:
            os.close(fd)
        elif listener is None:
            adopt(fd, peer, connect or self._connect, data, Origin(peer.listener, lambda: None))
        else:
            listener.adopt(fd, peer, connect or self._connect, data)

    def adopt_visitor(self, fd: int, peer: PeerRecord, data: bytes, connect: ConnectionFactory) -> None:
        """Serve a part of what a client does whose connection another broker of this machine has, with its places.

        It is closed at once where this process may open no more files for clients.
        """
        if self._is_running and fd < files_for_clients():
            adopt(fd, peer, connect, data, Origin(peer.listener, lambda: None))
        else:
            os.close(fd)

    def reload(self) -> None:
        """Put a changed configuration in force, for new connections."""
        before = self.vpns
        self._make_vpns()
        before.successor = self.vpns
        for name, listener in self.listeners.items():
            listener.connections_max = self._services.config.listeners.by_name()[name].max_connections

    def vpn_created(self, vpn: MessageVpn) -> None:
        """Let clients find a message VPN, on connections that are open as well."""
        self.vpns.put(vpn.name, self.make_services(vpn))

    def vpn_deleted(self, name: str) -> None:
        """Let no client find a message VPN any more."""
        self.vpns.remove(name)

    def connections_in(self, vpn: str) -> list[C]:
        """Return the open connections whose clients are in a message VPN."""
        return [each for each in self.open_connections() if each.identity.vpn == vpn]

    def endpoints(self) -> list[tuple[str, str]]:
        """Return name and URL of each open listener."""
        urls = []
        for name, listener in self.listeners.items():
            config = self._services.config.listeners.enabled()[name]
            path = getattr(config, "path", "")
            urls.append((name, f"{self.schemes[name]}://{config.host}:{listener.port}{path}"))
        return urls

    def open_connections(self) -> list[C]:
        """Return the open connections."""
        return [cell.behaviour for cell in self.connections.children or ()]

    def clients_count(self) -> int:
        """Return the number of open connections of clients that have their places at this broker."""
        return sum(1 for each in self.open_connections() if each.identity.counts_here)

    def send_away(self, vpn: str, reason: str, users: frozenset[str] | None = None) -> None:
        """Disconnect the clients of a message VPN, or those of these users only."""
        for connection in self.open_connections():
            identity = connection.identity
            if identity.vpn == vpn and (users is None or identity.user in users):
                connection.send_away(reason)

    def disconnect(self, vpn: str, client: str, reason: str) -> bool:
        """Disconnect a client of a message VPN. Return whether it was connected."""
        found = False
        for connection in self.open_connections():
            rights = connection.identity.admitted()
            if rights is not None and connection.identity.vpn == vpn and rights.client == client:
                connection.send_away(reason)
                found = True
        return found

    def tick(self, stall_ms: int = 0) -> None:
        """Let every connection check its time limits, without the time for which the event loop has stood still."""
        now_ms = self._services.clock.now_ms()
        for cell in list(self.connections.children or ()):
            if cell.is_stopped():
                continue  # closed by the tick of another connection
            connection: C = cell.behaviour
            try:
                if connection.read_control is not None:
                    connection.read_control.tick(now_ms)
                if stall_ms:
                    connection.stalled(stall_ms, now_ms)
                connection.tick(now_ms)
            except Exception as error:  # it costs this connection only, not the others
                cell.failed(error)

    def _make_vpns(self) -> None:
        listeners = self._services.config.listeners.by_name()
        self.vpns = MessageVpns({}, {name: each.vpn for name, each in listeners.items()})
        for name, vpn in self._message_vpns.items():
            self.vpns.put(name, self.make_services(vpn))  # which may refer to all of them

    def _pages(self, listener: str) -> WebPages:
        services, vpns = self._services, self._message_vpns
        config = services.config.listeners.by_name()[listener]  # its host and kind change only with a restart
        return WebPages(
            is_tls=isinstance(config, TlsListener),
            origins_setting=f"{self.name}.allowed_origins",
            origins=lambda: self.allowed_origins,
            hosts=lambda: (config.host.lower(), *services.config.node.allowed_hosts),
            is_open=lambda: any(vpn.accounts.authenticator.admits_anonymous(listener) for vpn in vpns.values()),
        )

    def _refused_a_page(self, peer: PeerInfo, foreign: OriginRefusal) -> None:
        """Count and report a WebSocket that was refused before a connection was made in it."""
        text = f"{foreign.status} {foreign.title}: {self.name} client at {peer.host}:{peer.port}: {foreign.detail}"
        self.vpns.of_listener(peer.listener).clients.denials.deny(foreign.reason, "", text)
        self.counters.count(self.counters.refused, foreign.reason)

    def _connect(self) -> Connection:
        return self.watched(self.make())

    def make(self) -> C:
        """Return a new connection, which nobody watches."""
        self._accepted_count += 1
        cell = self._services.runtime.spawn_as(self._role, self._accepted_count)
        connection: C = cell.behaviour
        return connection

    def watched(self, connection: C) -> Connection:
        """Return what stands for a new connection, so that it is watched from the first byte on."""
        return WatchedConnection(connection, self.watchers) if self.watchers else connection
