"""The HTTP messaging server: makes the connections of its clients and their services, and expires the flows of workers.

The HTTP port for operators is `gateway.admin`.
"""

from collections.abc import Mapping
from typing import ClassVar

from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.gateway.config.sections.listeners import HTTP_ALPN
from sluicegate.gateway.node.os_limits import files_for_clients
from sluicegate.gateway.node.servers.server import ProtocolServer
from sluicegate.gateway.node.services import NodeServices
from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.protocols.connection.passed_client import decode_client
from sluicegate.protocols.http.client import HttpLimits, HttpServices
from sluicegate.protocols.http.codec.responses import ResponseHeads
from sluicegate.protocols.http.connection import HttpConnection
from sluicegate.protocols.transport.interface import Connection, PeerRecord
from sluicegate.protocols.transport.passing.passed_peer import HTTP_CLIENT


class HttpServer(ProtocolServer[HttpConnection, HttpServices]):
    """The server of HTTP messaging in one node."""

    name = "http"
    schemes: ClassVar = {"http": "http", "http_tls": "https"}
    alpn = HTTP_ALPN
    subprotocols = ()

    def __init__(self, services: NodeServices, message_vpns: Mapping[str, MessageVpn]) -> None:
        self._heads = ResponseHeads()
        super().__init__(services, message_vpns)

    @property
    def error_responses(self) -> Mapping[int, int]:
        """How many responses had each status of 400 and above."""
        return self._heads.errors

    @property
    def message_bytes_max(self) -> int:
        """There is no WebSocket."""
        return 0

    @property
    def allowed_origins(self) -> tuple[str, ...]:
        """The web pages that may use its ports."""
        return self._services.config.http.allowed_origins

    async def start(self) -> None:
        """Open the listeners, and take requests from other brokers of this machine. Raises CannotStart."""
        await super().start()
        siblings = self._services.environment.siblings
        if siblings is not None:
            siblings.take_clients(HTTP_CLIENT, self._adopt_request)

    def _adopt_request(self, fd: int, peer: PeerRecord, message: bytes) -> None:
        """Serve a request about a flow that is here, of a client of another broker of this machine."""
        visitor, data = decode_client(message)

        def connect() -> Connection:
            connection = self.make()
            connection.visit(visitor)
            return connection

        self.adopt_visitor(fd, peer, data, connect)

    def make_connection(self, cell: ActorCell) -> HttpConnection:
        """Return the behaviour of the connection of a stream that was just accepted."""
        return HttpConnection(cell, self.vpns)

    def tick(self, stall_ms: int = 0) -> None:
        """Let connections and flows check their time limits, and set the date of response headers."""
        self._heads.tick(self._services.clock.wall_ms())
        super().tick(stall_ms)
        for vpn in self._message_vpns.values():
            vpn.http_flows.tick(self._services.clock.now_ms() - stall_ms)  # what workers say may yet have to be read

    async def stop(self, *, within_s: float) -> None:
        """Disconnect all clients, and end the flows of workers."""
        await super().stop(within_s=within_s)
        for vpn in self._message_vpns.values():
            vpn.http_flows.end("the gateway stops")

    def make_services(self, vpn: MessageVpn) -> HttpServices:
        """Return the services that connections to a message VPN use."""
        services = self._services
        http = services.config.http
        return HttpServices(
            events=vpn.events,
            space=vpn.space,
            router=vpn.router,
            queues=vpn.queues,
            flows=vpn.http_flows,
            selectors=services.selectors,
            spool=services.spool.inbox,
            authenticator=vpn.accounts.authenticator,
            clients=vpn.clients,
            pages=self.pages,
            limits=HttpLimits(
                body_bytes_max=http.max_body_size,
                message_bytes_max=http.max_message_size,
                batch_messages_max=http.batch_messages_max,
                head_timeout_ms=http.head_timeout_s * 1000,
                body_timeout_ms=http.body_timeout_s * 1000,
                body_rate_min=http.body_rate_min,
                keep_alive_ms=http.keep_alive_s * 1000,
                flows_max=http.max_flows,
                flows_per_client_max=http.max_flows_per_client,
                unsettled_max=http.unsettled_max,
                lock_ms=http.lock_s * 1000,
                lock_ms_max=http.lock_s_max * 1000,
                wait_ms_max=http.wait_s_max * 1000,
            ),
            counters=self.counters,
            unfinished=services.unfinished,
            heads=self._heads,
            brokers=services.environment.siblings,
            files_max=files_for_clients(),
            is_gateway=vpn.config.service_rest_mode == "gateway",
        )
