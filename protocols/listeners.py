"""Listening sockets: accepting TCP and TLS streams, each handed to a connection of its own.

What a stream does once it is open is in `protocols.streams`. Protocols are elsewhere: a listener knows only that its
`ConnectionFactory` makes something for each stream; the admin port's, which is another kind, that uvicorn serves it.
WebSocket is elsewhere too (`protocols.websocket`): to a listener it is one more connection.

TLS listeners run an accept loop of their own instead of `create_server(ssl=...)`, which does not count handshakes that
never end, cannot refuse a stream before its handshake has cost us, and never takes a new certificate.
"""

import asyncio
import socket
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

from protocols.errors import ListenerNotStarted
from protocols.streams import FLUSH_S, Stream
from protocols.tls import CertificateUser, TlsFiles, user_of
from protocols.transports import ConnectionFactory, PeerInfo

BACKLOG: Final = 4096  # streams the kernel holds for us; a fleet that reconnects at once must not see refusals
# Per listener, unless told otherwise. An idle stream costs 1.4 KB with uvloop, 24 KB with TLS (1.9 KB and 284 KB with
# asyncio's own loop, which gives each TLS stream a buffer of 256 KiB); what the connection holds comes on top.
CONNECTIONS_MAX: Final = 100_000
TLS_HANDSHAKE_S: Final = 10.0  # a client that has not finished by then is gone or hostile; asyncio waits 60 s
ACCEPT_PAUSE_S: Final = 0.1  # until the next accept after one failed; asyncio waits 1 s


class BaseListener(ABC):
    """One address that accepts streams. Stopping it closes no open stream: their owner says goodbye on them.

    Counters, for metrics: `connection_count` now open, handshakes included; `accepted_count` ever accepted;
    `refused_count` closed at once because `connections_max` were open; `handshake_failed_count` lost to TLS.
    """

    def __init__(
        self,
        *,
        name: str,
        host: str | None,
        port: int,
        tls: TlsFiles | None = None,
        connections_max: int = CONNECTIONS_MAX,
        tls_handshake_s: float = TLS_HANDSHAKE_S,
    ) -> None:
        """Host None is every interface, port 0 one that the kernel picks. Raises TlsFilesRefused."""
        self.name = name
        self.connections_max = connections_max
        self.connection_count = 0
        self.accepted_count = 0
        self.refused_count = 0
        self.handshake_failed_count = 0
        self._host = host
        self._port = port
        self._bound_port = 0  # 0: not listening
        self._tls = tls
        self._tls_context = None if tls is None else tls.context()
        self._tls_handshake_s = tls_handshake_s
        self.on_handshake_failed: Callable[[str, str], None] | None = None  # is told the client's address, and why
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()  # the loop itself holds tasks weakly

    def __repr__(self) -> str:
        return f"Listener({self.name!r}, port={self._bound_port}, open={self.connection_count})"

    @property
    def port(self) -> int:
        """The port bound, the same on every address. Raises ListenerNotStarted."""
        if self._bound_port == 0:
            raise ListenerNotStarted(f"listener {self.name!r} is not started")
        return self._bound_port

    @property
    def certificate(self) -> Path | None:
        """The file of the certificate that it shows; None without TLS."""
        return None if self._tls is None else self._tls.certificate

    async def start(self) -> None:
        """Bind, then accept. Raises OSError when the address is taken, or not one of this machine."""
        loop = asyncio.get_running_loop()
        bound = await _bind(self._host, self._port)
        self._bound_port = cast(int, bound[0].getsockname()[1])
        acceptor = _TcpAcceptor(self)
        for listening in bound:
            if self._tls_context is None:
                self._servers.append(await loop.create_server(lambda: acceptor, sock=listening, backlog=BACKLOG))
            else:
                listening.listen(BACKLOG)
                self._spawn(self._accept_tls(listening))

    async def stop(self) -> None:
        """Accept no more, and give up handshakes under way. Open connections stay open. Idempotent."""
        self._bound_port = 0
        for server in self._servers:
            server.close()
        self._servers = []
        await asyncio.sleep(0)  # a task cancelled before its first step would never give its place back
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def read_tls(self) -> ssl.SSLContext | None:
        """Read the TLS files again, for `use_tls`; None without TLS. Raises TlsFilesRefused; nothing changes here."""
        return None if self._tls is None else self._tls.context()

    def use_tls(self, context: ssl.SSLContext | None) -> None:
        """Have later handshakes use what `read_tls` gave."""
        self._tls_context = context

    def admit(self) -> bool:
        """Count one more stream, unless the listener is full."""
        self.accepted_count += 1
        if self.connection_count >= self.connections_max:
            self.refused_count += 1
            return False
        self.connection_count += 1
        return True

    def dismiss(self) -> None:
        """One admitted stream is gone."""
        self.connection_count -= 1

    @abstractmethod
    def open(self, transport: asyncio.Transport) -> None:
        """Take over an admitted stream, and `dismiss` it when it is gone."""

    async def _accept_tls(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with listening:
            while True:
                try:
                    accepted, _ = await loop.sock_accept(listening)
                except ConnectionAbortedError:
                    continue  # the client left between its SYN and our accept
                except OSError:  # no file descriptor or no memory left; some may be free again in a moment
                    await asyncio.sleep(ACCEPT_PAUSE_S)
                    continue
                if self.admit():
                    self._spawn(self._shake_hands(accepted))
                else:
                    accepted.close()

    async def _shake_hands(self, accepted: socket.socket) -> None:
        """Run one TLS handshake. The acceptor is called when it succeeds, before any data is."""
        acceptor = _TlsAcceptor(self)
        host = _address_of(accepted)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: acceptor,
                accepted,
                ssl=self._tls_context,
                ssl_handshake_timeout=self._tls_handshake_s,
                ssl_shutdown_timeout=FLUSH_S,
            )
        except OSError as error:  # ssl.SSLError and TimeoutError are OSErrors
            self.handshake_failed_count += 1
            if self.on_handshake_failed is not None:
                self.on_handshake_failed(host, str(error) or type(error).__name__)
        finally:
            if not acceptor.has_opened:
                self.dismiss()

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class Listener(BaseListener):
    """Gives each stream a connection of a protocol of ours."""

    def __init__(
        self,
        *,
        name: str,
        host: str | None,
        port: int,
        connect: ConnectionFactory,
        tls: TlsFiles | None = None,
        connections_max: int = CONNECTIONS_MAX,
        tls_handshake_s: float = TLS_HANDSHAKE_S,
    ) -> None:
        """Host None is every interface, port 0 one that the kernel picks. Raises TlsFilesRefused."""
        super().__init__(
            name=name,
            host=host,
            port=port,
            tls=tls,
            connections_max=connections_max,
            tls_handshake_s=tls_handshake_s,
        )
        self._connect = connect
        self._dismiss = self.dismiss  # one for all streams, which keep it
        self.certificate_user = CertificateUser.COMMON_NAME if tls is None else tls.certificate_user

    def open(self, transport: asyncio.Transport) -> None:
        """Give an admitted stream a connection, and let it begin. An exception of the connection ends the stream."""
        try:
            stream = Stream(transport, self._connect(), self._dismiss)
        except Exception as error:
            self.dismiss()
            _report(error, "a connection could not be made", transport)
            return
        try:
            stream.begin(_peer(self.name, transport, self.certificate_user))
        except Exception as error:
            _report(error, "a connection failed as it opened", transport)


class _TcpAcceptor(asyncio.Protocol):
    """Stands in for every stream of a TCP listener until it is admitted; one serves them all."""

    def __init__(self, listener: BaseListener) -> None:
        self._listener = listener

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        accepted = cast(asyncio.Transport, transport)
        if self._listener.admit():
            self._listener.open(accepted)
        else:
            accepted.close()


class _TlsAcceptor(asyncio.Protocol):
    """Stands in for one stream, admitted already, until its handshake is over."""

    def __init__(self, listener: BaseListener) -> None:
        self.has_opened = False
        self._listener = listener

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.has_opened = True
        self._listener.open(cast(asyncio.Transport, transport))


async def _bind(host: str | None, port: int) -> list[socket.socket]:
    """Return a bound, not yet listening socket for every address of the host, all on one port."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    bound: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            listening = socket.socket(family, kind, protocol)
            bound.append(listening)
            listening.setblocking(False)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                # Else [::] takes the IPv4 side of the port too, and 0.0.0.0 beside it cannot bind.
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listening.bind((address[0], port, *address[2:]))
            port = cast(int, listening.getsockname()[1])
    except OSError:
        for listening in bound:
            listening.close()
        raise
    return bound


def _address_of(accepted: socket.socket) -> str:
    try:
        return str(accepted.getpeername()[0])
    except OSError:  # it is gone already
        return "?"


def _peer(listener: str, transport: asyncio.Transport, certificate_user: CertificateUser) -> PeerInfo:
    # None when the peer is gone already: its `closed` follows at once.
    address = transport.get_extra_info("peername") or ("", 0)
    secured: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    if secured is None:
        return PeerInfo(listener=listener, host=address[0], port=address[1])
    return PeerInfo(
        listener=listener,
        host=address[0],
        port=address[1],
        is_encrypted=True,
        alpn=secured.selected_alpn_protocol(),
        certificate_name=user_of(secured.getpeercert(), certificate_user),
    )


def _report(error: Exception, what: str, transport: asyncio.Transport) -> None:
    """End one stream for a fault of ours, and let the loop's exception handler say so."""
    transport.abort()
    asyncio.get_running_loop().call_exception_handler({"message": what, "exception": error, "transport": transport})
