"""Listening sockets: accepting TCP and TLS streams, each for a connection of its own.

An open stream is in `protocols.transport.stream`. A listener knows of protocols only that its `ConnectionFactory` makes
a connection for each stream, and of the admin port, which is another kind, that uvicorn serves it. WebSocket
(`protocols.transport.websocket`) is one more connection to a listener.

A TLS stream has its place before its handshake, which is in `protocols.transport.tls`: a stream for which the listener
has no place costs no handshake.
"""

import asyncio
import os
import socket
import ssl
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, cast

from sluicegate.messaging.limits.totals import SharedTotal
from sluicegate.protocols.transport.deadlines import Deadlines
from sluicegate.protocols.transport.interface import ConnectionFactory, PeerInfo, PeerRecord
from sluicegate.protocols.transport.loop.acceptor import Acceptor, MakeTransport
from sluicegate.protocols.transport.loop.event_loop import running_sockets
from sluicegate.protocols.transport.loop.selector import report
from sluicegate.protocols.transport.loop.tcp import TcpTransport
from sluicegate.protocols.transport.stream.stream import Origin, Stream, TcpStream, adopt
from sluicegate.protocols.transport.tls.context import CertificateUser, TlsFiles, user_of
from sluicegate.protocols.transport.tls.transport import TlsTransport

# Per listener, unless told otherwise. An idle stream costs an eighth of a kilobyte, and 17 more in TLS; what the
# connection holds comes on top.
CONNECTIONS_MAX: Final = 100_000
TLS_HANDSHAKE_S: Final = 10.0  # a client that has not finished by then is gone or hostile; asyncio waits 60 s
_GONE: Final = ("", 0)  # the address of a peer that has left


class ListenerNotStarted(Exception):
    """The listener has no address: it was not started, or it was stopped."""


class BaseListener(ABC):
    """One address that accepts streams. Stopping it closes no open stream: their owner says goodbye on them.

    Counters, for metrics: `connection_count` now open, handshakes included; `accepted_count` ever accepted;
    `refused_count` closed at once because `connections_max` were open; `beyond_files_count` because the number of their
    file was `files_max` or above; `handshake_failed_count` lost to TLS.
    """

    def __init__(
        self,
        *,
        name: str,
        host: str | None,
        port: int,
        tls: TlsFiles | None = None,
        connections_max: int = CONNECTIONS_MAX,
        files_max: int = sys.maxsize,
        tls_handshake_s: float = TLS_HANDSHAKE_S,
        shares_port: bool = False,
    ) -> None:
        """Host None is every interface, port 0 one that the kernel picks. Raises TlsFilesRefused.

        With `shares_port`, other processes may have the same port, each with clients of its own.
        """
        self.name = name
        self.connections_max = connections_max
        self.connection_count = 0
        self.shared: SharedTotal | None = None  # the connections of other brokers of this machine count, too
        self.accepted_count = 0
        self.refused_count = 0
        self.beyond_files_count = 0
        self.handshake_failed_count = 0
        self._host = host
        self._port = port
        self._shares_port = shares_port
        self._files_max = files_max
        self._bound_port = 0  # 0: not listening
        self._tls = tls
        self._tls_context = None if tls is None else tls.context()
        self._handshakes: Final = Deadlines(tls_handshake_s)
        self.on_handshake_failed: Callable[[str, str], None] | None = None  # is told the client's address, and why
        self._acceptors: list[Acceptor] = []
        self._make_transport: MakeTransport = TcpTransport
        self._shaking: dict[TlsTransport, Any] = {}  # the addresses of those in their handshakes

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

    async def start(self, bound: Sequence[socket.socket] = ()) -> None:
        """Bind, unless what `bind` returned is given, then accept.

        Raises OSError when the address is taken, or not one of this machine.
        """
        bound = bound or await bind(self._host, self._port, shares_port=self._shares_port)
        self._bound_port = cast(int, bound[0].getsockname()[1])
        sockets = running_sockets()
        for listening in bound:
            self._acceptors.append(
                Acceptor(sockets, listening, name=self.name, on_accept=self._accept, make=self._make_transport)
            )

    async def stop(self) -> None:
        """Accept no more, and give up handshakes under way. Open connections stay open. Idempotent."""
        self._bound_port = 0
        for acceptor in self._acceptors:
            acceptor.close()
        self._acceptors = []
        for transport in self._shaking:
            transport.abort()
            self.dismiss()
        self._shaking.clear()

    def read_tls(self) -> ssl.SSLContext | None:
        """Read the TLS files again, for `use_tls`; None without TLS. Raises TlsFilesRefused; nothing changes here."""
        return None if self._tls is None else self._tls.context()

    def use_tls(self, context: ssl.SSLContext | None) -> None:
        """Have later handshakes use what `read_tls` gave."""
        self._tls_context = context

    def admit(self) -> bool:
        """Count one more stream, unless the listener is full."""
        self.accepted_count += 1
        count = self.connection_count + 1
        if count > self.connections_max or (
            self.shared is not None and not self.shared.admits(count, self.connections_max)
        ):
            self.refused_count += 1
            return False
        self.connection_count = count
        return True

    def dismiss(self) -> None:
        """One admitted stream is gone."""
        self.connection_count -= 1
        if self.shared is not None:
            self.shared.settle(self.connection_count)

    @abstractmethod
    def open(self, transport: asyncio.Transport, address: Any) -> None:
        """Take over an admitted stream of a peer at an address of the socket's kind, None: it has left.

        `dismiss` it when it is gone.
        """

    def _accept(self, stream: TcpTransport, address: Any) -> None:
        """Take over a stream that the kernel has accepted: shake hands, if it is to be in TLS, and open it."""
        transport = cast(asyncio.Transport, stream)  # it is compiled, and so of no class of asyncio's
        if stream.fileno() >= self._files_max:
            self.beyond_files_count += 1
            transport.close()
        elif not self.admit():
            transport.close()
        elif self._tls_context is None:
            self.open(transport, address)
        else:
            shaking = TlsTransport(
                transport,
                self._tls_context,
                deadlines=self._handshakes,
                on_secured=self._secured,
                on_refused=self._handshake_failed,
            )
            self._shaking[shaking] = address  # which the kernel forgets of a peer that resets its connection

    def _secured(self, transport: TlsTransport) -> None:
        self.open(transport, self._shaking.pop(transport))

    def _handshake_failed(self, transport: TlsTransport, reason: str) -> None:
        address = self._shaking.pop(transport)
        self.dismiss()
        self.handshake_failed_count += 1
        if self.on_handshake_failed is not None:
            self.on_handshake_failed(address[0] if address else "?", reason)


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
        files_max: int = sys.maxsize,
        tls_handshake_s: float = TLS_HANDSHAKE_S,
        shares_port: bool = False,
    ) -> None:
        """Arguments are those of the base. Raises TlsFilesRefused."""
        super().__init__(
            name=name,
            host=host,
            port=port,
            tls=tls,
            connections_max=connections_max,
            files_max=files_max,
            tls_handshake_s=tls_handshake_s,
            shares_port=shares_port,
        )
        self._connect = connect
        self._last_host = ""
        self._origin = Origin(name, self.dismiss)
        if tls is None:
            self._make_transport = TcpStream
        self.certificate_user = CertificateUser.COMMON_NAME if tls is None else tls.certificate_user

    def open(self, transport: asyncio.Transport, address: Any) -> None:
        """Give an admitted stream a connection, and let it begin. An exception of the connection ends the stream."""
        host, port = (address or _GONE)[:2]
        if host == self._last_host:  # behind a gateway all clients have one address, which takes 64 bytes
            host = self._last_host
        else:
            self._last_host = host
        plain: object = transport
        try:
            connection = self._connect()
            if isinstance(plain, TcpStream):
                plain.open(connection, self._origin, host, port)
            else:
                stream = Stream(transport, connection, self._origin.on_closed)
        except Exception as error:
            self.dismiss()
            report("a connection could not be made", error, transport=transport)
            transport.abort()
            return
        try:
            if isinstance(plain, TcpStream):
                plain.begin(connection)
            else:
                stream.begin(self._peer(transport, host, port))
        except Exception as error:
            report("a connection failed as it opened", error, transport=transport)
            transport.abort()

    def adopt(self, fd: int, peer: PeerRecord, connect: ConnectionFactory, data: bytes) -> None:
        """Take over a stream of this listener that another process has accepted: see `adopt`, but it has its place.

        It is closed at once if there is none.
        """
        if fd >= self._files_max:
            self.beyond_files_count += 1
            os.close(fd)
        elif not self.admit():
            os.close(fd)
        else:
            adopt(fd, peer, connect, data, self._origin)

    def _peer(self, transport: asyncio.Transport, host: str, port: int) -> PeerInfo:
        secured: ssl.SSLObject | None = None if self._tls is None else transport.get_extra_info("ssl_object")
        if secured is None:
            return PeerRecord(self.name, host, port)
        return PeerRecord(
            self.name,
            host,
            port,
            is_encrypted=True,
            alpn=secured.selected_alpn_protocol(),
            certificate_name=user_of(secured.getpeercert(), self.certificate_user),
        )


async def bind(host: str | None, port: int, *, shares_port: bool = False) -> list[socket.socket]:
    """Return a bound, not yet listening socket for every address of the host, all on one port.

    Host None is every interface, port 0 one that the kernel picks. With `shares_port`, other processes of the same user
    may bind it as well: the kernel spreads connections over those who listen. Raises OSError.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    bound: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            listening = socket.socket(family, kind, protocol)
            bound.append(listening)
            listening.setblocking(False)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if shares_port:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
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
