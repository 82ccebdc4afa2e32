"""The admin application on a port of the node: uvicorn's HTTP on a listener like those of clients, plain or in TLS."""

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
from sluicegate.protocols.transport.tls_context import TlsFiles

CONNECTIONS_MAX: Final = 4 * REQUESTS_MAX  # with more of them the largest crowd of strangers loses one
KEEP_ALIVE_S: Final = 15  # above the usual scrape interval of a health probe
UNREAD_S: Final = 30.0  # in which a client has to take what waits of its answer: no place is held without end
HEAD_S: Final = 15.0  # in which a request has to begin: who sends none would keep its place from operators
SHUTDOWN_S: Final = 3  # for answers under way
_NONE_YET: Final = object()  # no request that was answered


class AdminServer:
    """The admin port of one node. `start` binds, and requests are served; `stop` ends it."""

    def __init__(self, app: ASGIApp, *, name: str, host: str, port: int, tls: TlsFiles | None) -> None:
        """Raises TlsFilesRefused."""
        config = Config(
            app,
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,  # else whoever guesses passwords on this machine names another host each time
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
        """Where it is. Raises ListenerNotStarted."""
        return f"{self._origin}:{self.port}"

    async def start(self, bound: Sequence[socket.socket] = ()) -> None:
        """Bind, unless what `protocols.transport.listeners.bind` returned is given, and serve.

        Raises OSError when the address cannot be had.
        """
        await self.listener.start(bound)

    async def stop(self) -> None:
        """Take no further requests, finish those under way, close the sockets."""
        await self.listener.stop()
        for connection in list(self._state.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(SHUTDOWN_S):
                await self.listener.empty()
                if self._state.tasks:  # of clients that have gone, or whose answer has just been written
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
    """Start the admin port of a node, or its port for probes; port 0 takes any free one, `.port` tells which.

    `places` bounds the requests under way, and a body has to come to its end within `body_timeout_s`. `allowed_hosts`
    returns the names by which browsers may call the node. `bound` is what `protocols.transport.listeners.bind` returned
    for that address, if it was bound before.

    Raises OSError when the address cannot be had, and TlsFilesRefused.
    """
    loopback_only = is_loopback(host)
    app = build_app(
        node,
        accounts=accounts,
        events=events,
        queue_label_max=queue_label_max,
        pages=WebPages(
            is_tls=tls is not None,
            origins_setting="",  # the console comes from here, and nobody else's page administers a node
            origins=tuple,
            hosts=allowed_hosts,
            is_open=lambda: loopback_only,  # probes take no account, and without accounts nothing does
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
    """Gives each stream to uvicorn's HTTP."""

    def __init__(
        self, config: Config, state: ServerState, *, name: str, host: str, port: int, tls: TlsFiles | None
    ) -> None:
        super().__init__(name=name, host=host, port=port, tls=tls, connections_max=CONNECTIONS_MAX)
        self._config = config
        self._state = state
        self._streams: dict[_HttpProtocol, None] = {}  # in the order in which they came
        self._dismissed = asyncio.Event()

    def admit(self) -> bool:
        """Count one more stream. Where the listener is full it takes the place of one of the largest crowd.

        So nobody shuts probes and operators out with connections.
        """
        if self.connection_count >= self.connections_max:
            self._make_room()
        return super().admit()

    def _make_room(self) -> None:
        """End the oldest connection of the network that has most of them, but for those of known ones."""
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
        """Have an admitted stream served."""
        protocol = _HttpProtocol(self._config, self._state, self._closed)
        self._streams[protocol] = None
        transport.set_protocol(protocol)
        protocol.connection_made(transport)

    def dismiss(self) -> None:
        """One admitted stream is gone."""
        super().dismiss()
        self._dismissed.set()

    def _closed(self, protocol: "_HttpProtocol") -> None:
        """Give the place of a stream up, unless it had to already."""
        if protocol in self._streams:
            del self._streams[protocol]
            self.dismiss()

    async def empty(self) -> None:
        """Wait until no stream is open."""
        while self.connection_count:
            self._dismissed.clear()
            await self._dismissed.wait()


class _HttpProtocol(H11Protocol):
    """One stream. It ends when no whole head of a request comes, or a body trickles on behind its answer; and says so.

    uvicorn waits for either without end.
    """

    def __init__(self, config: Config, state: ServerState, on_closed: "Callable[[_HttpProtocol], None]") -> None:
        super().__init__(config=config, server_state=state, app_state={})
        self.network = ""
        self._on_closed = on_closed
        self._unread: asyncio.TimerHandle | None = None  # what waits of an answer has to be taken until then
        self._answered: object = None  # the request before, if it was answered when it was last looked
        self._look: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        self.network = network_of(self.client[0]) if self.client is not None else ""
        self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._look is not None:
            self._look.cancel()
        if self._unread is not None:
            self._unread.cancel()
        super().connection_lost(exc)  # which has whoever writes go on
        self._on_closed(self)

    def is_known(self) -> bool:
        """Return whether a request is under way of somebody who may be here."""
        return self.cycle is not None and not self.cycle.response_complete and is_known(cast(Scope, self.scope))

    def pause_writing(self) -> None:
        """Have whoever writes wait for the client, for so long."""
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD_S, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on: the client has taken what waited."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def handle_events(self) -> None:
        """Answer what has come. Answers say when they were made: else uvicorn's server gives protocols the date."""
        self.server_state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
        super().handle_events()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no request. A request whose body it is has no other answer: its application hears no more.

        uvicorn lets that answer too, and fails over it in the log; nor does it look whether an answer is under way.
        """
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def _look_later(self) -> None:
        self._look = self.loop.call_later(HEAD_S, self._end_if_silent)

    def _end_if_silent(self) -> None:
        is_answered = self.cycle is None or self.cycle.response_complete
        if is_answered and self.cycle is self._answered and self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self.timeout_keep_alive_handler()
            return
        self._answered = self.cycle if is_answered else _NONE_YET
        self._look_later()
