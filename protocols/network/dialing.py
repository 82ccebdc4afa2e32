"""Connecting to a neighbor broker: asyncio makes the connection, and a `DialedConnection` gets its stream."""

import asyncio
import os
import socket
import ssl
from typing import cast

from sluicegate.protocols.network.dialed import DialedConnection
from sluicegate.protocols.network.settings import LinkSettings
from sluicegate.protocols.transport.interface import PeerRecord
from sluicegate.protocols.transport.stream import Stream


class Dialing(asyncio.Protocol):
    """The protocol of a new connection until its stream has taken over."""

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


async def dial(connection: DialedConnection, settings: LinkSettings) -> None:
    """Connect. A failure is reported to the connection."""
    target = settings.target
    assert target is not None, "only neighbors with an address are dialled"
    loop = asyncio.get_running_loop()
    tls = settings.tls
    try:
        async with asyncio.timeout(settings.options.connect_timeout_s):
            await loop.create_connection(
                lambda: Dialing(connection, target.host, target.port), target.host, target.port, ssl=tls
            )
    except TimeoutError:
        connection.not_connected(f"no connection to {target.host}:{target.port} in time")
    except (OSError, UnicodeError) as error:  # ssl.SSLError is the first; the second is of a name that no host has
        text = _words(error)
        if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLCertVerificationError):
            text = f"the TLS handshake failed: {text}; a port without TLS has a URL with flow://"
        connection.not_connected(f"{target.host}:{target.port}: {text}")


def _words(error: Exception) -> str:
    """Return what the system says of a failure, without its number."""
    if isinstance(error, OSError) and error.errno and not isinstance(error, (ssl.SSLError, socket.gaierror)):
        return os.strerror(error.errno)  # asyncio has put the address in the place of these words
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _nothing() -> None:
    """Do nothing when the stream is gone: nobody counts it."""
