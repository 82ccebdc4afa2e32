"""The connections of a REST consumer: aiohttp's connector, with some of its habits changed.

aiohttp sends a request on a connection where an unsolicited response has come, or the beginning of one, and takes what
follows for the answer. It closes a connection only when all that was written is sent: a web server that reads no more
delays that for ever, and with it everyone who waits for the end of all connections. And it sends a PUT again, by
itself, when its connection breaks.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler


class LostAnswer(Exception):
    """A request was made, and its connection broke before the answer. aiohttp would repeat it for its own errors."""


class Unwanted(Exception):
    """No request was made: until there was a connection, its message had gone to another consumer."""


class PushRequest(aiohttp.ClientRequest):
    """A request that is made if its message is still to be pushed once there is a connection."""

    is_wanted: Callable[[], Awaitable[bool]]


def once(is_wanted: Callable[[], Awaitable[bool]]) -> aiohttp.ClientMiddlewareType:
    """Return what has a request made once. It raises LostAnswer where aiohttp would make an idempotent one again.

    The message of the second request would lack the redelivered flag, and its attempt would not be counted.
    """

    async def made(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        assert isinstance(request, PushRequest)
        request.is_wanted = is_wanted
        try:
            return await handler(request)
        except aiohttp.ClientConnectorError:
            raise  # no request was made
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
            raise LostAnswer(str(error)) from error

    return made


class _Responses(ResponseHandler):
    """The protocol of a connection. What comes while no request is under way spoils it."""

    is_idle = False

    def data_received(self, data: bytes) -> None:
        if self.is_idle:
            self.force_close()
        super().data_received(data)


def _make_protocol(loop: asyncio.AbstractEventLoop) -> ResponseHandler:
    return _Responses(loop)


class Connector(aiohttp.TCPConnector):
    """The connections of one consumer. One that is given up is gone at once, with what is unsent."""

    def __init__(self, **options: Any) -> None:
        """Make one, with aiohttp's options."""
        super().__init__(**options)
        self._factory = partial(_make_protocol, loop=self._loop)
        self._in_use: dict[asyncio.Transport, None] = {}  # in the order in which they are given up

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[aiohttp.tracing.Trace], timeout: aiohttp.ClientTimeout
    ) -> aiohttp.connector.Connection:
        """Return a connection on which nothing came since its last request was answered. Raises Unwanted."""
        connection = await super().connect(req, traces, timeout)
        for _ in range(self.limit + 1):  # as many as may wait in the pool, and a new one, on which nothing has come
            await _check_wanted(req, connection)
            if not _has_more(connection):
                break
            connection.close()
            connection = await super().connect(req, traces, timeout)
        protocol, transport = connection.protocol, connection.transport
        if isinstance(protocol, _Responses) and transport is not None:
            protocol.is_idle = False
            self._in_use[transport] = None
            connection.add_callback(lambda: self._used(protocol, transport))
        return connection

    async def close(self, **options: Any) -> None:
        """Close all connections, whatever is under way on them."""
        for transport in self._in_use:
            transport.abort()
        await super().close(**options)

    def _used(self, protocol: _Responses, transport: asyncio.Transport) -> None:
        """Note that aiohttp is about to put a connection back into its pool, or to close it."""
        protocol.is_idle = True
        self._in_use.pop(transport, None)
        asyncio.get_running_loop().call_soon(_end_if_closing, transport)


async def _check_wanted(req: aiohttp.ClientRequest, connection: aiohttp.connector.Connection) -> None:
    """Raise Unwanted, and put the connection back, when no request is to be made on it."""
    is_wanted = False
    try:
        is_wanted = not isinstance(req, PushRequest) or await req.is_wanted()
    finally:
        if not is_wanted:
            connection.release()
    if not is_wanted:
        raise Unwanted


def _has_more(connection: aiohttp.connector.Connection) -> bool:
    protocol = connection.protocol
    return protocol is not None and protocol.should_close


def _end_if_closing(transport: asyncio.Transport) -> None:
    if transport.is_closing():
        transport.abort()
