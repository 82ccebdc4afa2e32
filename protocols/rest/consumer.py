"""A REST consumer: requests to one web server, and whether it can be reached.

What a response means for a message is decided in `point`.
"""

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Final

from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.runtime import Runtime
from sluicegate.messaging.observability.events import (
    VPN_REST_CONSUMER_DOWN,
    VPN_REST_CONSUMER_UP,
    VPN_REST_TARGET_REFUSED,
)
from sluicegate.protocols.rest.allowed_targets import TargetRefused
from sluicegate.protocols.rest.settings import RETRY_DELAY_MS_MAX, ConsumerSettings

log = logging.getLogger("sluicegate.rest")

ANSWER_BYTES_MAX: Final = 1 << 20  # of a body, which is discarded: beyond it the connection is closed
CHUNK_BYTES: Final = 1 << 16
CONNECTING_PART: Final = 2  # of the time for an answer, half may pass before there is a connection
USER_AGENT: Final = "sluicegate"


class Unreachable(Exception):
    """No request was made: there is no connection. The text says why."""


class NoAnswer(Exception):
    """A request was made, and what became of it is not known. The text says why."""


class RestConsumer:
    """One web server. `changed` is called when it can be reached, no more, or has a connection free."""

    def __init__(
        self,
        runtime: Runtime,
        events: Events,
        settings: ConsumerSettings,
        *,
        point_name: str,
        changed: Callable[[], None],
    ) -> None:
        self.settings = settings
        self.is_up = False
        self.reason = "not tried yet"  # why it is not up
        self.in_use_count = 0  # connections with a request
        self.statuses: dict[str, int] = {}  # what requests ended with: a status code, or `no-answer`
        self.refused_count = 0  # connections that were not made, for their address is not allowed
        self._refusal = ""  # the last one that was told
        self._runtime = runtime
        self._events = events
        self._name = f"{point_name}/{settings.name}"
        self._changed = changed
        self._session: Any = None  # an aiohttp.ClientSession
        self._failures_count = 0  # since it was reached last
        self._next_look: Any = None  # a timer, also while that look is under way; None: it can be reached
        self._is_stopped = False

    def start(self) -> None:
        """Begin to look whether it can be reached."""
        # Here and not above: aiohttp takes 15 MB, which nodes without a delivery point do without.
        import aiohttp

        from sluicegate.protocols.rest.connector import Connector, PushRequest

        settings = self.settings
        self._session = aiohttp.ClientSession(
            connector=Connector(
                limit=settings.outgoing_connection_count,
                ssl=True if settings.tls is None else settings.tls,
                socket_factory=self._socket,
            ),
            # Of a host that says nothing at all it must be known that no request was made.
            timeout=aiohttp.ClientTimeout(
                total=settings.max_post_wait_ms / 1000, connect=settings.max_post_wait_ms / CONNECTING_PART / 1000
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": USER_AGENT},
            request_class=PushRequest,
            auto_decompress=False,
        )
        self._look()

    async def stop(self) -> None:
        """Close its connections."""
        self._is_stopped = True
        self.is_up = False
        self.reason = "stopped"
        if self._next_look is not None:
            self._next_look.cancel()
        if self._session is not None:
            await self._session.close()

    def has_room(self) -> bool:
        """Return whether a request can be made now."""
        return self.is_up and self.in_use_count < self.settings.outgoing_connection_count

    async def push(
        self, path: str, headers: list[tuple[str, str]], body: bytes, *, is_wanted: Callable[[], Awaitable[bool]]
    ) -> int:
        """Make a request, if it `is_wanted` once there is a connection; return the status of the answer.

        Raises Unreachable and NoAnswer.
        """
        self.in_use_count += 1
        try:
            return await self._push(path, headers, body, is_wanted)
        finally:
            self.in_use_count -= 1
            self._changed()

    async def _push(
        self, path: str, headers: list[tuple[str, str]], body: bytes, is_wanted: Callable[[], Awaitable[bool]]
    ) -> int:
        import aiohttp
        from yarl import URL

        from sluicegate.protocols.rest.connector import LostAnswer, Unwanted, once

        settings = self.settings
        url = URL(settings.url() + path, encoded=True)
        try:
            async with self._session.request(
                settings.http_method,
                url,
                data=body,
                headers=[*headers, *settings.headers],
                allow_redirects=False,
                middlewares=(once(is_wanted),),
            ) as answer:
                read_count = 0
                async for chunk in answer.content.iter_chunked(CHUNK_BYTES):
                    read_count += len(chunk)
                    if read_count > ANSWER_BYTES_MAX:
                        answer.close()
                        break
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            self._down(_why(error))
            raise Unreachable(_why(error)) from None
        except Unwanted:
            raise Unreachable("the message has left its flow") from None
        except (aiohttp.ClientError, LostAnswer, TimeoutError, OSError) as error:
            self._count("no-answer")
            raise NoAnswer(str(error) or f"no answer within {settings.max_post_wait_ms} ms") from None
        self._count(str(answer.status))
        return int(answer.status)

    def _count(self, status: str) -> None:
        self.statuses[status] = self.statuses.get(status, 0) + 1

    # --- whether it can be reached ---

    def _look(self) -> None:
        self._runtime.keep(self._runtime.loop.create_task(self._probe()))

    async def _probe(self) -> None:
        settings = self.settings
        refused_count = self.refused_count
        try:
            async with asyncio.timeout(settings.max_post_wait_ms / 1000):
                host = None if settings.tls is None else settings.remote_host
                connected = await self._connected()
                try:
                    _, writer = await asyncio.open_connection(sock=connected, ssl=settings.tls, server_hostname=host)
                except BaseException:
                    connected.close()
                    raise
            writer.close()
        except (OSError, TimeoutError, ssl.SSLError, UnicodeError) as error:  # the last is of a name that no host has
            self._next_look = None
            self._down(_why(error) or f"no connection within {settings.max_post_wait_ms / 1000:g} s")
            return
        if not self._is_stopped:
            self._next_look = None
            self._failures_count = 0
            self.is_up = True
            self.reason = ""
            if self.refused_count == refused_count:
                self._refusal = ""
            self._events.emit(VPN_REST_CONSUMER_UP, f"REST consumer {self._name} is up")
            self._changed()

    async def _connected(self) -> socket.socket:
        """Return a socket that is connected to the first address that lets us. Raises OSError."""
        settings, loop = self.settings, asyncio.get_running_loop()
        refusal = settings.targets.host_refusal(settings.remote_host)
        if refusal:
            raise self._refused(refusal)
        infos = await loop.getaddrinfo(settings.remote_host, settings.remote_port, type=socket.SOCK_STREAM)
        failure = OSError(f"{settings.remote_host} has no address")
        for info in infos:
            try:
                made = self._socket(info)
                made.setblocking(False)
                try:
                    await loop.sock_connect(made, info[4])
                except BaseException:
                    made.close()
                    raise
            except OSError as error:
                failure = error
            else:
                return made
        raise failure

    def _socket(self, info: Any) -> socket.socket:
        """Return a socket for one address, as `getaddrinfo` says it. Raises TargetRefused for one that is not allowed.

        Each connection begins here, a look and those of requests, and what is judged is where it goes.
        """
        family, kind, protocol, _, address = info
        refusal = self.settings.targets.refusal(self.settings.remote_host, address[0])
        if refusal:
            raise self._refused(refusal)
        return socket.socket(family, kind, protocol)

    def _refused(self, refusal: str) -> TargetRefused:
        """Count and tell a refusal, and return it; the same one is told again when it was over meanwhile."""
        self.refused_count += 1
        if refusal != self._refusal:
            self._refusal = refusal
            self._events.emit(VPN_REST_TARGET_REFUSED, f"REST consumer {self._name} is not connected: {refusal}")
        return TargetRefused(refusal)

    def _down(self, reason: str) -> None:
        if self._is_stopped or self._next_look is not None:
            return
        if self.is_up or self._failures_count == 0:
            self._events.emit(VPN_REST_CONSUMER_DOWN, f"REST consumer {self._name} is down: {reason}")
        self.is_up = False
        self.reason = reason
        delay_ms = min(self.settings.retry_delay_ms << min(self._failures_count, 16), RETRY_DELAY_MS_MAX)
        self._failures_count += 1
        self._next_look = self._runtime.after(max(delay_ms, self.settings.retry_delay_ms), self._look)
        self._changed()

    def __repr__(self) -> str:
        return f"RestConsumer({self._name}, {'up' if self.is_up else self.reason})"


def _why(error: Exception) -> str:
    """Return what the system says of a failure, without its number; empty: nothing."""
    cause = getattr(error, "os_error", error)  # what aiohttp has put into one of its own
    if isinstance(cause, TargetRefused):
        return str(cause)
    if isinstance(cause, OSError) and not isinstance(cause, (ssl.SSLError, socket.gaierror)) and cause.errno:
        return os.strerror(cause.errno)  # asyncio has put an address in the place of these words
    return getattr(cause, "strerror", None) or str(error)
