"""The AMQP server: makes the connections of AMQP clients and their services."""

from collections.abc import Mapping
from typing import ClassVar

from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.gateway.build import VERSION
from sluicegate.gateway.node.servers.server import ProtocolServer
from sluicegate.gateway.node.services import NodeServices
from sluicegate.gateway.node.siblings import Siblings
from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.gateway.provisioning.queues import subscription_queue
from sluicegate.protocols.amqp.client import AmqpServices
from sluicegate.protocols.amqp.connection import AmqpConnection
from sluicegate.protocols.amqp.datapath.transaction import TransactionAccounts
from sluicegate.protocols.amqp.limits import AmqpLimits
from sluicegate.protocols.connection.forwarding import Forwarding
from sluicegate.protocols.connection.passed_client import decode_client
from sluicegate.protocols.transport.interface import Connection, PeerRecord
from sluicegate.protocols.transport.passing.passed_peer import AMQP_CLIENT


class AmqpServer(ProtocolServer[AmqpConnection, AmqpServices]):
    """The server of AMQP in one node."""

    name = "amqp"
    schemes: ClassVar = {"amqp": "amqp", "amqp_tls": "amqps", "amqp_websocket": "ws", "amqp_websocket_tls": "wss"}
    alpn = "amqp"
    # The standard's name, and earlier ones that clients of Azure and examples of rhea ask for.
    subprotocols = ("amqp", "AMQPWSB10", "binary")

    def __init__(self, services: NodeServices, message_vpns: Mapping[str, MessageVpn]) -> None:
        self.transactions = TransactionAccounts()
        super().__init__(services, message_vpns)

    def make_forwarding(self, siblings: Siblings) -> Forwarding:
        """Return how connections reach the homes of their containers."""
        return Forwarding(AMQP_CLIENT, siblings.container_homes, siblings.passage_to)

    async def start(self) -> None:
        """Open the listeners, and take clients from other brokers of this machine. Raises CannotStart."""
        await super().start()
        siblings = self._services.environment.siblings
        if siblings is not None:
            siblings.take_clients(AMQP_CLIENT, self._adopt_client)

    def _adopt_client(self, fd: int, peer: PeerRecord, message: bytes) -> None:
        """Serve a client that another broker of this machine has authenticated."""
        client, data = decode_client(message)

        def connect() -> Connection:
            connection = self.make()
            connection.passed(client)
            return self.watched(connection)

        self.adopt(fd, peer, data, connect=connect)

    @property
    def message_bytes_max(self) -> int:
        """A frame need not be cut, so the longest frame."""
        return self._services.config.amqp.max_frame_size

    @property
    def allowed_origins(self) -> tuple[str, ...]:
        """The web pages that may use its ports."""
        return self._services.config.amqp.allowed_origins

    def make_connection(self, cell: ActorCell) -> AmqpConnection:
        """Return the behaviour of the connection of a stream that was just accepted."""
        return AmqpConnection(cell, self.vpns)

    def tick(self, stall_ms: int = 0) -> None:
        """Let every connection check its time limits, and expire links that wait for clients to return."""
        super().tick(stall_ms)
        for vpn in self._message_vpns.values():
            vpn.amqp_registry.resumable.tick(self._services.clock.now_ms() - stall_ms)  # clients may have returned

    async def stop(self, *, within_s: float) -> None:
        """Disconnect all clients, and return what is kept for those that are away: it counts as delivered."""
        await super().stop(within_s=within_s)
        for vpn in self._message_vpns.values():
            vpn.amqp_registry.resumable.end()

    def send_away(self, vpn: str, reason: str, users: frozenset[str] | None = None) -> None:
        """Disconnect the clients of a message VPN, or those of these users only, and forget those that are away."""
        super().send_away(vpn, reason, users)
        self._message_vpns[vpn].amqp_registry.resumable.end(users)

    def make_services(self, vpn: MessageVpn) -> AmqpServices:
        """Return the services that connections to a message VPN use."""
        services = self._services
        amqp = services.config.amqp
        return AmqpServices(
            events=vpn.events,
            space=vpn.space,
            router=vpn.router,
            queues=vpn.queues,
            spool=services.spool.inbox,
            authenticator=vpn.accounts.authenticator,
            clients=vpn.clients,
            limits=AmqpLimits(
                frame_bytes_max=amqp.max_frame_size,
                channel_max=amqp.channel_max,
                handle_max=amqp.handle_max,
                message_bytes_max=amqp.max_message_size,
                partial_bytes_max=2 * amqp.max_message_size,
                idle_timeout_ms=amqp.idle_timeout_s * 1000,
                connect_timeout_ms=amqp.connect_timeout_s * 1000,
                link_credit=amqp.link_credit,
                transactions_max=amqp.max_transactions,
                transaction_operations_max=amqp.max_transaction_messages,
                transaction_bytes_max=amqp.max_transaction_size,
                transactions_bytes_max=amqp.max_open_transactions_size,
                transaction_timeout_ms=amqp.transaction_timeout_s * 1000,
            ),
            counters=self.counters,
            unfinished=services.unfinished,
            credit=services.credit,
            transactions=self.transactions,
            suspended_senders=vpn.amqp_links,
            container_id=services.config.node.name,
            version=VERSION,
            allows_plain_unencrypted=amqp.allow_plain_without_tls,
            registry=vpn.amqp_registry,
            forwarding=self.forwarding,
            selectors=services.selectors,
            subscription_queue=subscription_queue,
        )
