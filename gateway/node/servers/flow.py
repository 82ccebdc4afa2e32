"""The server of the flow protocol: makes the connections of its clients and their services."""

from collections.abc import Mapping
from typing import ClassVar

from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.gateway.build import VERSION
from sluicegate.gateway.node.os_limits import files_for_clients
from sluicegate.gateway.node.servers.server import ProtocolServer
from sluicegate.gateway.node.services import NodeServices
from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.protocols.connection.passed_client import decode_client
from sluicegate.protocols.flow.codec.limits import FlowLimits
from sluicegate.protocols.flow.connection import FlowConnection
from sluicegate.protocols.flow.links import LinkAcceptor
from sluicegate.protocols.flow.peer import FlowServices
from sluicegate.protocols.transport.interface import Connection, PeerRecord
from sluicegate.protocols.transport.passing.passed_peer import PUBLISHER


class FlowServer(ProtocolServer[FlowConnection, FlowServices]):
    """The server of the flow protocol in one node."""

    name = "flow"
    schemes: ClassVar = {"flow": "flow", "flow_tls": "flows"}
    alpn = "gfp/1"
    subprotocols = ()

    def __init__(self, services: NodeServices, message_vpns: Mapping[str, MessageVpn], links: LinkAcceptor) -> None:
        self._links = links
        super().__init__(services, message_vpns)

    async def start(self) -> None:
        """Open the listeners, and take links of other brokers of this machine. Raises CannotStart."""
        await super().start()
        siblings = self._services.environment.siblings
        if siblings is not None:
            siblings.take_links(self.adopt)
            siblings.take_clients(PUBLISHER, self._adopt_publisher)

    def _adopt_publisher(self, fd: int, peer: PeerRecord, data: bytes) -> None:
        """Serve a named publisher that is at home here, for a client of another broker of this machine."""
        visitor, frames = decode_client(data)

        def connect() -> Connection:
            connection = self.make()
            connection.visit(visitor)
            return connection

        self.adopt_visitor(fd, peer, frames, connect)

    @property
    def message_bytes_max(self) -> int:
        """A frame need not be cut, so the longest frame."""
        return self._services.config.flow.max_frame_size

    def make_connection(self, cell: ActorCell) -> FlowConnection:
        """Return the behaviour of the connection of a stream that was just accepted."""
        return FlowConnection(cell, self.vpns)

    def make_services(self, vpn: MessageVpn) -> FlowServices:
        """Return the services that connections to a message VPN use."""
        services = self._services
        flow = services.config.flow
        return FlowServices(
            events=vpn.events,
            space=vpn.space,
            queues=vpn.queues,
            publishers=vpn.publishers,
            router=vpn.router,
            cursors=vpn.cursors,
            staging=vpn.staging,
            incarnation=services.recovered.incarnation,
            spool=services.spool.inbox,
            authenticator=vpn.accounts.authenticator,
            clients=vpn.clients,
            limits=FlowLimits(
                frame_bytes_max=flow.max_frame_size,
                flows_max=flow.max_flows,
                window=flow.publish_window,
                unsettled_max=flow.unsettled_max,
                keep_alive_ms=flow.keep_alive_s_max * 1000,
                connect_timeout_ms=flow.connect_timeout_s * 1000,
                compresses=flow.compression,
            ),
            counters=self.counters,
            unfinished=services.unfinished,
            credit=services.credit,
            selectors=services.selectors,
            connection_buffer_bytes_max=services.config.backpressure.connection_buffer_bytes_max,
            slow_subscriber_stall_ms=services.config.backpressure.slow_subscriber_stall_ms,
            product=f"sluicegate {VERSION}",
            allows_plain_unencrypted=flow.allow_plain_without_tls,
            links=self._links,
            homes=services.environment.siblings,
            files_max=files_for_clients(),
        )
