"""The server of an operators' port: uvicorn's HTTP protocol on a listener of the node, plain or with TLS."""

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from email.utils import formatdate
from typing import Any, Final, cast

import h11
from starlette.types import ASGIApp, Scope
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from sluicegate.actors.runtime.events import Events
from sluicegate.gateway.admin.access.places import REQUESTS_MAX, Places
from sluicegate.gateway.admin.access.turnstile import is_known
from sluicegate.gateway.admin.app import build_app
from sluicegate.gateway.config.sections.listeners import is_loopback
from sluicegate.gateway.node.servers.listening import report_failed_handshakes
from sluicegate.gateway.operations.interface import NodeInterface
from sluicegate.gateway.security.operators import Operators
from sluicegate.protocols.security.login_queue import network_of
from sluicegate.protocols.transport.listeners import BaseListener
from sluicegate.protocols.transport.origins import WebPages
from sluicegate.protocols.transport.tls.context import TlsFiles

CONNECTIONS_MAX: Final = 4 * REQUESTS_MAX  # above it, the network with the most anonymous connections loses one
KEEP_ALIVE_S: Final = 15  # above the usual scrape interval of a health probe
UNREAD_S: Final = 30.0  # for a client to read its response, so that no place is held without end
HEAD_S: Final = 15.0  # for a request to begin, so that idle connections do not keep operators out
SHUTDOWN_S: Final = 3  # for responses in progress
_NONE_YET: Final = object()  # no request that was answered


class AdminServer:
    """The admin port of one node. `start` binds and serves, `stop` ends it."""

    def __init__(self, app: ASGIApp, *, name: str, host: str, port: int, tls: TlsFiles | None) -> None:
        """Raises TlsFilesRefused."""
        config = Config(
            app,
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,  # otherwise a local client that guesses passwords could name another host each time
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
        )
        self._state = ServerState()
        self.listener = _HttpListener(config, self._state, name=name, host=host.strip("[]"), port=port, tls=tls)
        self._origin = f"{'http' if tls is None else 'https'}://{host}"

    @property
    def port(self) -> int:
        """The port bound. Raises ListenerNotStarted."""
        return self.listener.port

    @property
    def url(self) -> str:
        """The URL of the port. Raises ListenerNotStarted."""
        return f"{self._origin}:{self.port}"

    async def start(self, bound: Sequence[socket.socket] = ()) -> None:
        """Serve on the given sockets of `protocols.transport.listeners.bind`, or bind first.

        Raises OSError if the address is not available.
        """
        await self.listener.start(bound)

    async def stop(self) -> None:
        """Accept no more requests, finish those in progress, and close the sockets."""
        await self.listener.stop()
        for connection in list(self._state.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(SHUTDOWN_S):
                await self.listener.empty()
                if self._state.tasks:  # of clients that left, or whose response has just been written
                    await asyncio.wait(self._state.tasks)
        except TimeoutError:
            for request in self._state.tasks:
                request.cancel()


async def serve_admin(
    node: NodeInterface,
    host: str,
    port: int,
    *,
    accounts: Operators,
    events: Events,
    name: str = "admin",
    tls: TlsFiles | None = None,
    queue_label_max: int = 1000,
    probes_only: bool = False,
    allowed_hosts: Callable[[], Collection[str]] = tuple,
    places: Places,
    body_timeout_s: float,
    bound: Sequence[socket.socket] = (),
) -> AdminServer:
    """Start the admin port of a node, or its port for probes. Port 0 takes any free port; `.port` returns it.

    `places` limits concurrent requests. A body has to arrive within `body_timeout_s`. `allowed_hosts` returns the host
    names that browsers may use for the node. `bound` are the sockets of `protocols.transport.listeners.bind`, if the
    address is bound already.

    Raises OSError if the address is not available, and TlsFilesRefused.
    """
    loopback_only = is_loopback(host)
    app = build_app(
        node,
        accounts=accounts,
        events=events,
        queue_label_max=queue_label_max,
        pages=WebPages(
            is_tls=tls is not None,
            origins_setting="",  # only the console, which comes from this port, may administer a node
            origins=tuple,
            hosts=allowed_hosts,
            is_open=lambda: loopback_only,  # whether requests without an account can be served
        ),
        loopback_only=loopback_only,
        probes_only=probes_only,
        places=places,
        body_timeout_s=body_timeout_s,
    )
    server = AdminServer(app, name=name, host=host, port=port, tls=tls)
    report_failed_handshakes(server.listener, events, "operator")
    await server.start(bound)
    return server


class _HttpListener(BaseListener):
    """Accepts connections for uvicorn's HTTP protocol."""

    def __init__(
        self, config: Config, state: ServerState, *, name: str, host: str, port: int, tls: TlsFiles | None
    ) -> None:
        super().__init__(name=name, host=host, port=port, tls=tls, connections_max=CONNECTIONS_MAX)
        self._config = config
        self._state = state
        self._streams: dict[_HttpProtocol, None] = {}  # oldest first
        self._dismissed = asyncio.Event()

    def admit(self) -> bool:
        """Count one more connection. If the listener is full, close one of the network that has the most.

        So no client can lock out probes and operators by opening connections.
        """
        if self.connection_count >= self.connections_max:
            self._make_room()
        return super().admit()

    def _make_room(self) -> None:
        """Close the oldest connection of the network with the most anonymous ones."""
        strangers = [each for each in self._streams if not each.is_known()]
        shaking = {each: network_of(address[0]) if address else "" for each, address in self._shaking.items()}
        crowds = Counter([*shaking.values(), *[each.network for each in strangers]])
        if not crowds:
            return
        [(largest, _)] = crowds.most_common(1)
        self.refused_count += 1
        for transport, network in shaking.items():
            if network == largest:
                del self._shaking[transport]
                self.dismiss()
                transport.abort()
                return
        oldest = next(each for each in strangers if each.network == largest)
        self._closed(oldest)
        oldest.transport.abort()

    def open(self, transport: asyncio.Transport, address: Any) -> None:
        """Serve an admitted connection."""
        protocol = _HttpProtocol(self._config, self._state, self._closed)
        self._streams[protocol] = None
        transport.set_protocol(protocol)
        protocol.connection_made(transport)

    def dismiss(self) -> None:
        """Count one connection less."""
        super().dismiss()
        self._dismissed.set()

    def _closed(self, protocol: "_HttpProtocol") -> None:
        """Release the place of a connection, unless `_make_room` has done so."""
        if protocol in self._streams:
            del self._streams[protocol]
            self.dismiss()

    async def empty(self) -> None:
        """Wait until no connection is open."""
        while self.connection_count:
            self._dismissed.clear()
            await self._dismissed.wait()


class _HttpProtocol(H11Protocol):
    """One connection. It closes if no complete request head arrives, or if a body continues after its response.

    uvicorn waits for either without end.
    """

    def __init__(self, config: Config, state: ServerState, on_closed: "Callable[[_HttpProtocol], None]") -> None:
        super().__init__(config=config, server_state=state, app_state={})
        self.network = ""
        self._on_closed = on_closed
        self._unread: asyncio.TimerHandle | None = None  # deadline for the client to read its response
        self._answered: object = None  # the last request, if it was answered at the last check
        self._check: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        self.network = network_of(self.client[0]) if self.client is not None else ""
        self._check_later()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._check is not None:
            self._check.cancel()
        if self._unread is not None:
            self._unread.cancel()
        super().connection_lost(exc)  # releases blocked writers
        self._on_closed(self)

    def is_known(self) -> bool:
        """Return whether an authenticated request is in progress."""
        return self.cycle is not None and not self.cycle.response_complete and is_known(cast(Scope, self.scope))

    def pause_writing(self) -> None:
        """Block writers until the client reads, and start the timeout."""
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD_S, self.transport.abort)

    def resume_writing(self) -> None:
        """Release writers: the client has read."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def handle_events(self) -> None:
        """Handle received events. Set the Date header, which otherwise uvicorn's server would set."""
        self.server_state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
        super().handle_events()

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are not HTTP. If they belong to the body of a request, its application is cancelled.

        uvicorn would let that application answer as well and log a failure. It also ignores a response in progress.
        """
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def _check_later(self) -> None:
        self._check = self.loop.call_later(HEAD_S, self._close_if_idle)

    def _close_if_idle(self) -> None:
        is_answered = self.cycle is None or self.cycle.response_complete
        if is_answered and self.cycle is self._answered and self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self.timeout_keep_alive_handler()
            return
        self._answered = self.cycle if is_answered else _NONE_YET
        self._check_later()
