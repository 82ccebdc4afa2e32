"""The operator ports: the admin port, the same in TLS, and the health port.

The code behind them is a third of all that a node imports, and clients do not need it. So it is imported after the
ports of clients are open, one module at a time while no client sends: a client waits for one module at most.
"""

import asyncio
import socket
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final, final

from sluicegate.actors.runtime.events import Events
from sluicegate.gateway.admin.access.places import Places
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.config.sections.admin import Admin, AdminTls
from sluicegate.gateway.config.sections.listeners import HTTP_ALPN
from sluicegate.gateway.config.sections.node import Health
from sluicegate.gateway.node.environment import OperatorPorts
from sluicegate.gateway.node.node import Node
from sluicegate.gateway.observability.metrics.metric import Sample
from sluicegate.gateway.security.operators import Operators
from sluicegate.gateway.views.errors import opening
from sluicegate.protocols.transport.listeners import BaseListener, bind

if TYPE_CHECKING:
    from sluicegate.gateway.admin.server import AdminServer
    from sluicegate.gateway.operations.interface import NodeInterface
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
    "sluicegate.gateway.admin.rest.vpn.queues",
    "sluicegate.gateway.admin.rest.vpn.provisioned",
    "sluicegate.gateway.admin.app",
    "sluicegate.gateway.admin.server",
)

CLIENTS_FIRST_MS: Final = 1000  # in total; after that, operators' ports open however busy clients are


@final
class ServedPorts:
    """The ports that a configuration enables, from the time they are bound: whose operations they serve, they are told.

    A node has them, or the supervisor of a machine with several brokers.
    """

    def __init__(self, config: Callable[[], Config]) -> None:
        """`config` returns the configuration in force. Ports keep their addresses until a restart."""
        self._config = config
        self._bound: dict[str, list[socket.socket]] = {}  # bound but not served yet, by name
        self._places = {name: Places() for name in ("health", "admin.tls", "admin")}
        self._accounts: Operators | None = None  # who may log in, once the ports are served
        self.servers: dict[str, AdminServer] = {}  # open ports, by name

    async def bind(self) -> None:
        """Bind the addresses and load the certificate. Raises CannotStart."""
        for name, section in self._configured():
            with opening(name, section.host, section.port):
                if isinstance(section, AdminTls):
                    section.tls(alpn=HTTP_ALPN).context()
                self._bound[name] = await bind(section.host.strip("[]"), section.port)

    @property
    def is_bound(self) -> bool:
        """Whether an address waits to be served."""
        return bool(self._bound)

    async def serve(self, operations: "NodeInterface", *, accounts: Operators, events: Events) -> None:
        """Serve at the bound addresses. Raises CannotStart."""
        self._accounts = accounts
        if self._bound.keys() - {"health"}:  # nobody logs in at the health port
            accounts.token_keys.start()
        for name, section in self._configured():
            with opening(name, section.host, section.port):
                self.servers[name] = await self._serve(operations, name, section, accounts, events)
            del self._bound[name]

    async def stop(self) -> None:
        """Close the ports; requests in progress are finished."""
        for bound in self._bound.values():
            for each in bound:
                each.close()
        for server in self.servers.values():
            await server.stop()
        if self._accounts is not None:
            await self._accounts.token_keys.close()

    def listeners(self) -> list[BaseListener]:
        """Return the listeners of the open ports."""
        return [server.listener for server in self.servers.values()]

    def endpoints(self) -> list[tuple[str, str]]:
        """Return name and URL of each open port."""
        return [(name, server.url) for name, server in self.servers.items()]

    @property
    def admin_port(self) -> int | None:
        """The admin port, None if it is not open."""
        return self.servers["admin"].port if "admin" in self.servers else None

    def samples(self) -> list[Sample]:
        """Return how many requests each open port has refused, and the keys of operators' tokens."""
        samples = [
            Sample("sluicegate_operator_requests_refused_total", count, (name, reason))
            for name, server in self.servers.items()
            for reason, count in {
                **self._places[name].refused_counts,
                "connections": server.listener.refused_count,
            }.items()
        ]
        if self._accounts is not None:
            keys = self._accounts.token_keys
            fetches = "sluicegate_operator_token_keys_fetches_total"
            samples += [Sample(fetches, count, (outcome,)) for outcome, count in keys.counts().items()]
            if (age_s := keys.age_s()) is not None:
                samples.append(Sample("sluicegate_operator_token_keys_age_seconds", age_s))
        return samples

    def _configured(self) -> Iterator[tuple[str, Admin | AdminTls | Health]]:
        config = self._config()
        for name, each in (("health", config.health), ("admin.tls", config.admin.tls), ("admin", config.admin)):
            if each.enabled:
                yield name, each

    async def _serve(
        self,
        operations: "NodeInterface",
        name: str,
        section: Admin | AdminTls | Health,
        accounts: Operators,
        events: Events,
    ) -> "AdminServer":
        from sluicegate.gateway.admin.server import serve_admin  # late: see the module docstring

        config = self._config()
        return await serve_admin(
            operations,
            section.host,
            section.port,
            name=name,
            tls=section.tls(alpn=HTTP_ALPN) if isinstance(section, AdminTls) else None,
            accounts=accounts,
            events=events,
            queue_label_max=config.metrics.queue_label_max,
            probes_only=isinstance(section, Health),
            allowed_hosts=lambda: self._config().node.allowed_hosts,
            places=self._places[name],
            body_timeout_s=config.admin.body_timeout_s,
            bound=self._bound[name],
        )


class AdminPorts(OperatorPorts):
    """The operators' ports of one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.ports = ServedPorts(lambda: node.services.config)
        self._operations: NodeOperations | None = None  # made by `open`

    async def bind(self) -> None:
        """Bind the addresses and load the certificate. Raises CannotStart."""
        await self.ports.bind()

    async def open(self) -> None:
        """Serve at the bound addresses. Raises CannotStart."""
        node = self._node
        now_ms = node.services.clock.now_ms
        until_ms = now_ms() + CLIENTS_FIRST_MS
        for module in IMPORTED if self.ports.is_bound else ():
            await wait_until_idle(self._received_bytes, now_ms, until_ms)
            import_module(module)
        # One for all ports: they share running operations, such as a backup.
        view = self._operations = make_operations(node)
        await self.ports.serve(view, accounts=node.operators, events=node.services.runtime.events)

    def end_streams(self) -> None:
        """End the answers that go on for as long as somebody reads: the node stops."""
        if self._operations is not None:
            self._operations.followers.end()

    async def stop(self) -> None:
        """Close the ports; requests in progress are finished."""
        await self.ports.stop()

    def listeners(self) -> list[BaseListener]:
        """Return the listeners of the open ports."""
        return self.ports.listeners()

    def endpoints(self) -> list[tuple[str, str]]:
        """Return name and URL of each open port."""
        return self.ports.endpoints()

    def samples(self) -> list[Sample]:
        """Return what the ports measure."""
        return self.ports.samples()

    def _received_bytes(self) -> int:
        return sum([server.counters.bytes_received for server in self._node.servers])


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
