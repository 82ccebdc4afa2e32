"""One connection of a client: what the event loop calls, and how TLS is begun where the program has no wishes."""

import asyncio
import ssl
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from sluicegate.protocols.flow.client.aio.client import Client

ALPN: Final = "gfp/1"


class Wire(asyncio.Protocol):
    """What the event loop calls for one connection."""

    def __init__(self, client: "Client") -> None:
        self._client = client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._client.on_connection(cast(asyncio.Transport, transport))  # uvloop's has another base

    def data_received(self, data: bytes) -> None:
        """Hand on what came."""
        self._client.on_data(data)

    def pause_writing(self) -> None:
        """The socket takes no more."""
        self._client.on_full(True)

    def resume_writing(self) -> None:
        """It takes more again."""
        self._client.on_full(False)

    def connection_lost(self, error: Exception | None) -> None:
        """End."""
        self._client.on_gone("closed by the gateway" if error is None else str(error) or type(error).__name__)


def default_tls() -> ssl.SSLContext:
    """Return a context that trusts the system's authorities."""
    context = ssl.create_default_context()
    context.set_alpn_protocols([ALPN])
    return context
