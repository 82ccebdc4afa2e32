"""The admin application on a socket: uvicorn inside the node's own loop, started and stopped by the node."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from actors.events import Events
from gateway.admin.app import build_app
from gateway.admin_accounts import AdminAccounts
from gateway.config.listeners import is_loopback
from gateway.ports import NodePort

CONNECTIONS_MAX: Final = 128  # operators, probes and scrapers; more are answered with 503
KEEP_ALIVE_S: Final = 15  # above the usual scrape interval of a health probe
SHUTDOWN_S: Final = 3  # for answers under way


class AdminServer:
    """The admin port of one node. `start` binds and returns once requests are served; `stop` ends it."""

    def __init__(self, app: ASGIApp, *, host: str, port: int) -> None:
        self._host = host
        self._wanted_port = port
        self._server = _Embedded(
            uvicorn.Config(
                app,
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,  # else whoever guesses passwords on this machine names another host each time
                server_header=False,
                limit_concurrency=CONNECTIONS_MAX,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=SHUTDOWN_S,
            )
        )
        self._task: asyncio.Task[None] | None = None
        self.port = port  # the one bound, after `start`

    async def start(self) -> None:
        """Bind and serve. Raises OSError when the address cannot be had."""
        bound = _bind(self._host, self._wanted_port)
        self.port = bound.getsockname()[1]
        self._task = asyncio.create_task(self._server.serve([bound]), name="admin")
        started = asyncio.create_task(self._server.serving.wait())
        await asyncio.wait({self._task, started}, return_when=asyncio.FIRST_COMPLETED)
        if not started.done():
            started.cancel()
            await self._task  # raises what went wrong
            raise RuntimeError("the admin server ended while it started")

    async def stop(self) -> None:
        """Take no further requests, finish those under way, close the socket."""
        if self._task is not None:
            self._server.should_exit = True
            await self._task
            self._task = None


async def serve_admin(
    node: NodePort,
    host: str,
    port: int,
    *,
    accounts: AdminAccounts,
    events: Events,
    queue_label_max: int = 1000,
    probes_only: bool = False,
) -> AdminServer:
    """Start the admin port of a node, or its port for probes; port 0 takes any free one, `.port` tells which."""
    app = build_app(
        node,
        accounts=accounts,
        events=events,
        queue_label_max=queue_label_max,
        loopback_only=is_loopback(host),
        probes_only=probes_only,
    )
    server = AdminServer(app, host=host, port=port)
    await server.start()
    return server


class _Embedded(uvicorn.Server):
    """A server that is a guest in somebody's loop: signals are the node's, and starting up can be awaited."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.serving = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.serving.set()


def _bind(host: str, port: int) -> socket.socket:
    # Bound here and not by uvicorn, which ends the process when it cannot.
    family, _, _, _, address = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
    return socket.create_server(address[:2], family=family, backlog=CONNECTIONS_MAX)
