"""A server in a thread of its own that connects each client to a port elsewhere: what proxies have in common."""

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from support.network.close_server import close_server

STARTS_S: Final = 300  # on a busy machine
PIECE_BYTES: Final = 65_536

Connected = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class ProxyThread(ABC):
    """Use it as a context manager: it listens within, and all connections end with it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._listens = threading.Event()
        self._ends = asyncio.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._run()), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._listens.wait(STARTS_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._ends.set)
        self._thread.join()
        self._loop.close()

    # --- in the thread ---

    @abstractmethod
    async def _listen(self) -> Sequence[asyncio.Server]:
        """Open the ports."""

    async def _run(self) -> None:
        servers = await self._listen()
        self._listens.set()
        await self._ends.wait()
        for server in servers:
            await close_server(server)
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # what was aborted is closed by the loop


async def listening(host: str, connected: Connected) -> tuple[asyncio.Server, int]:
    """Listen on a port that is free; return it, too."""
    server = await asyncio.start_server(connected, host, 0)
    return server, int(server.sockets[0].getsockname()[1])


async def until_one_ends(*ways: Awaitable[None]) -> None:
    """Carry both ways until one side closes."""
    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def carry(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passes: asyncio.Event | None = None
) -> None:
    """Carry bytes one way until one side closes, and while they may pass."""
    with suppress(OSError):
        while data := await reader.read(PIECE_BYTES):
            if passes is not None:
                await passes.wait()
            writer.write(data)
            await writer.drain()
