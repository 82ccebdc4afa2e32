"""The admin application on a port of the node: uvicorn's HTTP on a listener like those of clients, plain or in TLS."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from actors.events import Events
from gateway.admin.app import build_app
from gateway.admin_accounts import AdminAccounts
from gateway.config.listeners import is_loopback
from gateway.listening import tell_failed_handshakes
from gateway.ports import NodePort
from protocols.listeners import BaseListener
from protocols.tls import TlsFiles

REQUESTS_MAX: Final = 128  # operators, probes and scrapers; more are answered with 503
CONNECTIONS_MAX: Final = 4 * REQUESTS_MAX  # more are closed at once
KEEP_ALIVE_S: Final = 15  # above the usual scrape interval of a health probe
HEAD_S: Final = 15.0  # in which a request has to begin: who sends none would keep its place from operators
SHUTDOWN_S: Final = 3  # for answers under way


class AdminServer:
    """The admin port of one node. `start` binds, and requests are served; `stop` ends it."""

    def __init__(self, app: ASGIApp, *, name: str, host: str, port: int, tls: TlsFiles | None) -> None:
        """Raises TlsFilesRefused."""
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,  # else whoever guesses passwords on this machine names another host each time
            server_header=False,
            limit_concurrency=REQUESTS_MAX,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=SHUTDOWN_S,
        )
        self._server = _Guest(config)
        self.listener = _HttpListener(self._server, name=name, host=host.strip("[]"), port=port, tls=tls)
        self._task: asyncio.Task[None] | None = None
        self._origin = f"{'http' if tls is None else 'https'}://{host}"

    @property
    def port(self) -> int:
        """The port bound. Raises ListenerNotStarted."""
        return self.listener.port

    @property
    def url(self) -> str:
        """Where it is. Raises ListenerNotStarted."""
        return f"{self._origin}:{self.port}"

    async def start(self) -> None:
        """Bind and serve. Raises OSError when the address cannot be had."""
        await self.listener.start()
        self._task = asyncio.create_task(self._server.serve([]), name=self.listener.name)

    async def stop(self) -> None:
        """Take no further requests, finish those under way, close the socket."""
        await self.listener.stop()
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
    name: str = "admin",
    tls: TlsFiles | None = None,
    queue_label_max: int = 1000,
    probes_only: bool = False,
) -> AdminServer:
    """Start the admin port of a node, or its port for probes; port 0 takes any free one, `.port` tells which.

    Raises OSError when the address cannot be had, and TlsFilesRefused.
    """
    app = build_app(
        node,
        accounts=accounts,
        events=events,
        queue_label_max=queue_label_max,
        loopback_only=is_loopback(host),
        probes_only=probes_only,
    )
    server = AdminServer(app, name=name, host=host, port=port, tls=tls)
    tell_failed_handshakes(server.listener, events, "operator")
    await server.start()
    return server


class _HttpListener(BaseListener):
    """Gives each stream to uvicorn's HTTP."""

    def __init__(self, server: uvicorn.Server, *, name: str, host: str, port: int, tls: TlsFiles | None) -> None:
        super().__init__(name=name, host=host, port=port, tls=tls, connections_max=CONNECTIONS_MAX)
        self._server = server

    def open(self, transport: asyncio.Transport) -> None:
        """Have an admitted stream served."""
        protocol = _HttpProtocol(self._server, self.dismiss)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)


class _HttpProtocol(H11Protocol):
    """One stream. It ends when no whole head of a request comes, which uvicorn waits for without end; and says so."""

    def __init__(self, server: uvicorn.Server, on_closed: Callable[[], None]) -> None:
        super().__init__(config=server.config, server_state=server.server_state, app_state={})
        self._on_closed = on_closed
        self._answered: object = None  # the request before, when it was last looked
        self._look: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._look is not None:
            self._look.cancel()
        super().connection_lost(exc)
        self._on_closed()

    def _look_later(self) -> None:
        self._look = self.loop.call_later(HEAD_S, self._end_if_silent)

    def _end_if_silent(self) -> None:
        if self.conn.their_state is h11.IDLE and self.cycle is self._answered:
            self.timeout_keep_alive_handler()
            return
        self._answered = self.cycle
        self._look_later()


class _Guest(uvicorn.Server):
    """A server that is a guest in somebody's loop: its signals are the node's, and so are its sockets."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
