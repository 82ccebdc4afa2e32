"""The connections of a REST consumer: aiohttp's, but two of its ways are not for us.

It makes a request on a connection where an answer has come that nobody asked for, and takes that for the answer. And it
closes a connection when all is sent that was written on it: where a web server reads no more that is never, and whoever
waits for the end of all connections waits as long.
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
