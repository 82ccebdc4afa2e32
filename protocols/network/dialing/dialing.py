"""Connecting to a neighbor broker: asyncio makes the connection, and a `DialedConnection` gets its stream.

A plain stream is one of the selector's own, as those that listeners accept. Over asyncio's transport each message of
the neighbor would cost a second poll, and rounds of asyncio's loop.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias, cast

from sluicegate.protocols.flow.client.options import Target
from sluicegate.protocols.network.dialing.dialed import DialedConnection
from sluicegate.protocols.network.link.settings import LinkSettings
from sluicegate.protocols.transport.interface import PeerRecord
from sluicegate.protocols.transport.stream.stream import Origin, Stream, adopt

NEXT_S: Final = 2.0  # for an address to answer, if there is another one to try

# Gives a connection its stream over a socket that is connected.
BeginPlain: TypeAlias = Callable[[DialedConnection, socket.socket, PeerRecord], Awaitable[None]]


class Dialing(asyncio.Protocol):
    """The protocol of a new connection over a transport of the loop's, as in TLS, until its stream has taken over."""

    def __init__(self, connection: DialedConnection, host: str, port: int) -> None:
        self._connection = connection
        self._host = host
        self._port = port

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Give the connection its stream."""
        made = cast(asyncio.Transport, transport)  # uvloop's has another base
        connection = self._connection
        if connection.cell.is_stopped():
            made.abort()
            return
        Stream(made, connection, _nothing).begin(PeerRecord("", self._host, self._port))


async def begin_plain(connection: DialedConnection, connected: socket.socket, peer: PeerRecord) -> None:
    """Give a connection a stream of the selector's own."""
    adopt(connected.detach(), peer, lambda: connection, b"", Origin("", _nothing))


async def dial(
    connection: DialedConnection, settings: LinkSettings, begin: BeginPlain = begin_plain, *, attempt: int = 0
) -> None:
    """Connect to the first of the neighbor's addresses that answers. A failure is reported to the connection.

    `attempt` counts the attempts to connect to this neighbor: each begins with another address.
    """
    targets = settings.targets(attempt)
    assert targets, "only neighbors with an address are dialled"
    failures: list[str] = []
    for target in targets:
        failure = await _dial(connection, settings, target, begin, is_last=target is targets[-1])
        if not failure:
            return
        failures.append(failure)
    connection.not_connected("; ".join(failures))


async def _dial(
    connection: DialedConnection, settings: LinkSettings, target: Target, begin: BeginPlain, *, is_last: bool
) -> str:
    """Connect to one address; return why there is no connection, empty if there is one."""
    host, port, tls = target.host, target.port, settings.tls
    timeout_s = settings.options.connect_timeout_s
    loop = asyncio.get_running_loop()
    connection.address = f"{host}:{port}"
    try:
        async with asyncio.timeout(timeout_s if is_last else min(timeout_s, NEXT_S)):
            connected = await _connected(host, port)
            if connection.cell.is_stopped():
                connected.close()
            elif tls is None:
                await begin(connection, connected, PeerRecord("", host, port))
            else:
                await loop.create_connection(
                    lambda: Dialing(connection, host, port), sock=connected, ssl=tls, server_hostname=host
                )
    except TimeoutError:
        return f"no connection to {host}:{port} in time"
    except (OSError, UnicodeError) as error:  # ssl.SSLError is the first; the second is of a name that no host has
        text = _words(error)
        if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLCertVerificationError):
            text = f"the TLS handshake failed: {text}; a port without TLS has a URL with flow://"
        return f"{host}:{port}: {text}"
    return ""


async def _connected(host: str, port: int) -> socket.socket:
    """Return a socket that is connected to the first address of a host that answers. Raises OSError, UnicodeError."""
    loop = asyncio.get_running_loop()
    refused: OSError | None = None
    for family, kind, protocol, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        made = socket.socket(family, kind, protocol)
        try:
            made.setblocking(False)
            await loop.sock_connect(made, address)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            made.close()
            refused = refused or error
        except BaseException:
            made.close()
            raise
        else:
            return made
    raise refused or OSError(f"no address of {host}")


def _words(error: Exception) -> str:
    """Return what the system says of a failure, without its number."""
    if isinstance(error, OSError) and error.errno and not isinstance(error, (ssl.SSLError, socket.gaierror)):
        return os.strerror(error.errno)  # asyncio has put the address in the place of these words
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _nothing() -> None:
    """Do nothing when the stream is gone: nobody counts it."""
