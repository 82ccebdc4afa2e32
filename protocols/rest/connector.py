"""The connections of a REST consumer: aiohttp's connector, with two of its habits changed.

aiohttp sends a request on a connection where an unsolicited response has come, and takes that for the answer. And it
closes a connection only when all that was written is sent: a web server that reads no more delays that for ever, and
with it everyone who waits for the end of all connections.
"""

import asyncio
from typing import Any

import aiohttp


class Connector(aiohttp.TCPConnector):
    """The connections of one consumer. One that is given up is gone at once, with what is unsent."""

    def __init__(self, **options: Any) -> None:
        """Make one, with aiohttp's options."""
        super().__init__(**options)
        self._in_use: set[asyncio.Transport] = set()

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[aiohttp.tracing.Trace], timeout: aiohttp.ClientTimeout
    ) -> aiohttp.connector.Connection:
        """Return a connection on which nothing came since its last request was answered."""
        connection = await super().connect(req, traces, timeout)
        for _ in range(self.limit):  # as many as may wait in the pool; a new one is taken as it is
            if not _has_more(connection):
                break
            connection.close()
            connection = await super().connect(req, traces, timeout)
        transport = connection.transport
        if transport is not None:
            self._in_use.add(transport)
            connection.add_callback(lambda: self._used(transport))
        return connection

    async def close(self, **options: Any) -> None:
        """Close all connections, whatever is under way on them."""
        for transport in self._in_use:
            transport.abort()
        await super().close(**options)

    def _used(self, transport: asyncio.Transport) -> None:
        """Note that aiohttp is about to put a connection back into its pool, or to close it."""
        self._in_use.discard(transport)
        asyncio.get_running_loop().call_soon(_end_if_closing, transport)


def _has_more(connection: aiohttp.connector.Connection) -> bool:
    protocol = connection.protocol
    return protocol is not None and protocol.should_close


def _end_if_closing(transport: asyncio.Transport) -> None:
    if transport.is_closing():
        transport.abort()
