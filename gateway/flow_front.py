"""The flow protocol's side of a node: the connections of its clients, and the publishers they have by name."""

from typing import TYPE_CHECKING, ClassVar

from actors.cell import ActorCell
from actors.supervision import VITAL
from gateway.protocol_front import ProtocolFront
from gateway.version import VERSION
from protocols.flow.connection import FlowConnection
from protocols.flow.connection_actor import FlowConnectionActor
from protocols.flow.directory import PublisherDirectory
from protocols.flow.limits import FlowLimits
from protocols.flow.messages import RestorePublishers
from protocols.flow.services import FlowServices

if TYPE_CHECKING:
    from gateway.node import Node


class FlowFront(ProtocolFront[FlowConnection]):
    """Everything of the flow protocol in one node."""

    name = "flow"
    schemes: ClassVar = {"flow": "flow", "flow_tls": "flows"}
    alpn = "gfp/1"
    subprotocols = ()

    def __init__(self, node: "Node") -> None:
        super().__init__(node)
        self.directory = self._spawn_directory()
        self.services = self._make_services()

    async def restore(self, rows: dict[bytes, bytes]) -> None:
        """Bring back the publishers that the store knows."""
        await self.directory.ask(RestorePublishers(dict(rows)))

    @property
    def message_bytes_max(self) -> int:
        """A frame need not be cut, so the longest frame."""
        return self._node.config.flow.max_frame_size

    def make_actor(self, cell: ActorCell) -> FlowConnectionActor:
        """Return the actor of a connection that was just accepted."""
        return FlowConnectionActor(cell, services=self.services)

    def take_configuration(self) -> None:
        """Take over a changed configuration: of publishers at once, of the rest for the next client."""
        self.services = self._make_services()
        directory = self.directory.actor
        assert isinstance(directory, PublisherDirectory)
        directory.publishers_max = self._node.config.flow.publishers_max
        directory.remembered_ms = self._node.config.flow.publishers_remembered_s * 1000

    def _spawn_directory(self) -> ActorCell:
        node = self._node
        flow = node.config.flow
        return node.runtime.spawn(
            lambda cell: PublisherDirectory(
                cell,
                spool=node.spool.inbox,
                publishers_max=flow.publishers_max,
                remembered_ms=flow.publishers_remembered_s * 1000,
            ),
            kind="publishers",
            name="flow-publishers",
            policy=VITAL,
            parent=node.root,
        )

    def _make_services(self) -> FlowServices:
        node = self._node
        flow = node.config.flow
        return FlowServices(
            runtime=node.runtime,
            space=node.space,
            queues=node.queues,
            publishers=self.directory,
            router=node.router,
            cursors=node.cursors,
            staging=node.staging,
            incarnation=node.recovered.incarnation,
            spool=node.spool.inbox,
            authenticator=node.authenticator,
            clients=node.clients,
            limits=FlowLimits(
                frame_bytes_max=flow.max_frame_size,
                flows_max=flow.max_flows,
                window=flow.publish_window,
                unsettled_max=flow.unsettled_max,
                keep_alive_ms=flow.keep_alive_s_max * 1000,
                connect_timeout_ms=flow.connect_timeout_s * 1000,
            ),
            counters=self.counters,
            credit=node.credit,
            selectors=node.selectors,
            connection_buffer_bytes_max=node.config.backpressure.connection_buffer_bytes_max,
            slow_subscriber_stall_ms=node.config.backpressure.slow_subscriber_stall_ms,
            product=f"sluicegate {VERSION}",
            allows_plain_unencrypted=flow.allow_plain_without_tls,
        )
