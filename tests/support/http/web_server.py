"""A web server that a test's delivery point pushes to: it records requests, and responds as the test says."""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from support.mqtt.raw_client import DEADLINE_S
from support.network.close_server import close_server


@dataclass
class Pushed:
    """A request that came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class WebServer:
    """A web server on a free port. `status` gives the status for a request; None: no response."""

    def __init__(
        self, status: Callable[[Pushed], int | None] = lambda _: 200, tls: ssl.SSLContext | None = None
    ) -> None:
        self.status = status
        self.body = b"ok"  # of each response
        self.header = b""  # likewise, a whole line
        self.requests: list[Pushed] = []
        self.at_once = 0  # requests being answered
        self.at_once_max = 0
        self.hold: asyncio.Event | None = None  # answers wait for it
        self.port = 0
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._has_stopped = False

    async def start(self) -> None:
        self._has_stopped = False
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._has_stopped = True
        if self._server is not None:
            await close_server(self._server)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # what was closed is released by the loop

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def has(self, count: int) -> list[Pushed]:
        """Wait until so many requests have come; return them."""
        async with asyncio.timeout(DEADLINE_S):
            while len(self.requests) < count:
                await asyncio.sleep(0.01)
        return self.requests

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._has_stopped:  # it was being accepted
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while True:
                await self._answer(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_request(reader)
        self.at_once += 1
        self.at_once_max = max(self.at_once_max, self.at_once)
        self.requests.append(request)
        if self.hold is not None:
            await self.hold.wait()
        status = self.status(request)
        self.at_once -= 1
        if status is None:
            raise ConnectionResetError
        head = b"HTTP/1.1 %d Whatever\r\nContent-Length: %d\r\n%s\r\n" % (status, len(self.body), self.header)
        writer.write(head + self.body)
        await writer.drain()


async def absent() -> WebServer:
    """Return a server with a known address that cannot be reached before it is started."""
    async with WebServer() as server:
        return server


async def read_request(reader: asyncio.StreamReader) -> Pushed:
    """Return the next request of a connection. Raises IncompleteReadError when there is none."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    method, path, _ = head[0].split(" ")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:-2])}
    return Pushed(method, path, headers, await reader.readexactly(int(headers.get("content-length", "0"))))
