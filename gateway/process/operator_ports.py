"""The operator ports: the admin port, the same in TLS, and the health port.

The code behind them is a third of all that a node imports, and clients do not need it. So it is imported after the
ports of clients are open, one module at a time while no client sends: a client waits for one module at most.
"""

import asyncio
import socket
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final

from sluicegate.gateway.admin.access.places import Places
from sluicegate.gateway.config.sections.admin import Admin, AdminTls
from sluicegate.gateway.config.sections.listeners import HTTP_ALPN
from sluicegate.gateway.config.sections.node import Health
from sluicegate.gateway.node.environment import OperatorPorts
from sluicegate.gateway.node.node import Node
from sluicegate.gateway.views.errors import opening
from sluicegate.protocols.transport.listeners import BaseListener, bind

if TYPE_CHECKING:
    from sluicegate.gateway.admin.server import AdminServer
    from sluicegate.gateway.operations.node import NodeOperations

# Ordered so that each module adds few imports of its own. The last one imports everything else.
IMPORTED: Final = (
    "click",
    "h11",
    "anyio",
    "uvicorn.config",
    "uvicorn.protocols.http.h11_impl",
    "starlette.requests",
    "starlette.applications",
    "prometheus_client",
    "sluicegate.gateway.observability.metrics.exposition",
    "scramp",  # for users that operators create, and clients that authenticate with SCRAM
    "sluicegate.gateway.views.queues.queues",
    "sluicegate.gateway.views.node.figures",
    "sluicegate.gateway.views.clients.clients",
    "sluicegate.gateway.views.queues.explanations",
    "sluicegate.gateway.views.node.spool",
    "sluicegate.gateway.views.clients.subscriptions",
    "sluicegate.gateway.operations.interface",
    "sluicegate.gateway.operations.queues.explain",
    "sluicegate.gateway.operations.metrics",
    "sluicegate.gateway.operations.node",
    "sluicegate.gateway.admin.semp.objects.attributes",
    "sluicegate.gateway.admin.semp.envelope",
    "sluicegate.gateway.admin.semp.resources",
    "sluicegate.gateway.admin.semp.actions",
    "sluicegate.gateway.admin.semp.routes",
    "sluicegate.gateway.admin.rest.openapi",
    "sluicegate.gateway.admin.rest.queues",
    "sluicegate.gateway.admin.rest.provisioned",
    "sluicegate.gateway.admin.app",
    "sluicegate.gateway.admin.server",
)

CLIENTS_FIRST_MS: Final = 1000  # in total; after that, operators' ports open however busy clients are


class AdminPorts(OperatorPorts):
    """The operators' ports of one node, as its configuration enables them."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._bound: dict[str, list[socket.socket]] = {}  # bound but not served yet, by name
        self._operations: NodeOperations | None = None  # made by `open`
        self.servers: dict[str, AdminServer] = {}  # open ports, by name
        self.places = {name: Places() for name in ("health", "admin.tls", "admin")}

    async def bind(self) -> None:
        """Bind the addresses and load the certificate. Raises CannotStart."""
        for name, config in self._configured():
            with opening(name, config.host, config.port):
                if isinstance(config, AdminTls):
                    config.tls(alpn=HTTP_ALPN).context()
                self._bound[name] = await bind(config.host.strip("[]"), config.port)

    async def open(self) -> None:
        """Serve at the bound addresses. Raises CannotStart."""
        now_ms = self._node.services.clock.now_ms
        until_ms = now_ms() + CLIENTS_FIRST_MS
        for module in IMPORTED if self._bound else ():
            await wait_until_idle(self._received_bytes, now_ms, until_ms)
            import_module(module)
        # One for all ports: they share running operations, such as a backup.
        view = self._operations = make_operations(self._node)
        for name, config in self._configured():
            with opening(name, config.host, config.port):
                self.servers[name] = await self._serve(view, name, config)
            del self._bound[name]

    def end_streams(self) -> None:
        """End the answers that go on for as long as somebody reads: the node stops."""
        if self._operations is not None:
            self._operations.followers.end()

    async def stop(self) -> None:
        """Close the ports; requests in progress are finished."""
        for bound in self._bound.values():
            for each in bound:
                each.close()
        for server in self.servers.values():
            await server.stop()

    def listeners(self) -> list[BaseListener]:
        """Return the listeners of the open ports."""
        return [server.listener for server in self.servers.values()]

    def endpoints(self) -> list[tuple[str, str]]:
        """Return name and URL of each open port."""
        return [(name, server.url) for name, server in self.servers.items()]

    def refused_counts(self) -> dict[str, dict[str, int]]:
        """Return how many requests each open port has refused, by the reason."""
        return {
            name: {**self.places[name].refused_counts, "connections": server.listener.refused_count}
            for name, server in self.servers.items()
        }

    def _configured(self) -> Iterator[tuple[str, Admin | AdminTls | Health]]:
        config = self._node.services.config
        for name, each in (("health", config.health), ("admin.tls", config.admin.tls), ("admin", config.admin)):
            if each.enabled:
                yield name, each

    def _received_bytes(self) -> int:
        return sum([server.counters.bytes_received for server in self._node.servers])

    async def _serve(self, view: "NodeOperations", name: str, config: Admin | AdminTls | Health) -> "AdminServer":
        from sluicegate.gateway.admin.server import serve_admin  # late: see the module docstring

        node = self._node
        return await serve_admin(
            view,
            config.host,
            config.port,
            name=name,
            tls=config.tls(alpn=HTTP_ALPN) if isinstance(config, AdminTls) else None,
            accounts=node.operators,
            events=node.services.runtime.events,
            queue_label_max=node.services.config.metrics.queue_label_max,
            probes_only=isinstance(config, Health),
            allowed_hosts=lambda: node.services.config.node.allowed_hosts,
            places=self.places[name],
            body_timeout_s=node.services.config.admin.body_timeout_s,
            bound=self._bound[name],
        )


def make_operations(node: Node) -> "NodeOperations":
    """Return the operations of a node, by which neighbors' operators are answered as well."""
    from sluicegate.gateway.operations.answers import act, answer  # late: see the module docstring
    from sluicegate.gateway.operations.node import NodeOperations

    view = NodeOperations(node)
    answerer = node.links.answerer
    answerer.answers = partial(answer, view)
    answerer.actions = partial(act, view, node.services.runtime.events)
    return view


async def wait_until_idle(count: Callable[[], int], now_ms: Callable[[], int], until_ms: int) -> None:
    """Run the event loop until one iteration leaves `count` unchanged, or until that time; at least one iteration."""
    while True:
        before = count()
        await asyncio.sleep(0)
        if count() == before or now_ms() >= until_ms:
            return
