"""The HTTP side of a node: the connections of its publishers. The port of operators is `gateway.admin`."""

from typing import TYPE_CHECKING, ClassVar

from actors.cell import ActorCell
from gateway.protocol_front import ProtocolFront
from protocols.http.connection import HttpConnection
from protocols.http.connection_actor import HttpConnectionActor
from protocols.http.engine import HttpEngine
from protocols.http.services import HttpLimits, HttpServices

if TYPE_CHECKING:
    from gateway.node import Node


class HttpFront(ProtocolFront[HttpConnection]):
    """Everything of HTTP messaging in one node."""

    name = "http"
    schemes: ClassVar = {"http": "http", "http_tls": "https"}
    alpn = "http/1.1"
    subprotocols = ()

    def __init__(self, node: "Node") -> None:
        super().__init__(node)
        self._engine = HttpEngine(keep_alive_s=node.config.http.keep_alive_s)
        self.services = self._make_services()

    @property
    def message_bytes_max(self) -> int:
        """There is no WebSocket."""
        return 0

    def make_actor(self, cell: ActorCell) -> HttpConnectionActor:
        """Return the actor of a connection that was just accepted."""
        return HttpConnectionActor(cell, services=self.services)

    def take_configuration(self) -> None:
        """Take over a changed configuration, for the next client."""
        self.services = self._make_services()

    def look_at_the_clock(self) -> None:
        """Bring time to every connection, and the time of day to what they answer."""
        self._engine.tick(self._node.clock.wall_ms())
        super().look_at_the_clock()

    def _make_services(self) -> HttpServices:
        node = self._node
        http = node.config.http
        return HttpServices(
            runtime=node.runtime,
            space=node.space,
            router=node.router,
            spool=node.spool.inbox,
            authenticator=node.authenticator,
            limits=HttpLimits(
                body_bytes_max=http.max_body_size,
                message_bytes_max=http.max_message_size,
                batch_messages_max=http.batch_messages_max,
                head_timeout_ms=http.head_timeout_s * 1000,
                body_timeout_ms=http.body_timeout_s * 1000,
                allowed_origins=frozenset(http.allowed_origins),
            ),
            counters=self.counters,
            engine=self._engine,
        )
