"""A proxy in a thread of its own on the way to a port, which a test can cut and heal."""

import asyncio
import threading
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from support.network.close_server import close_server

STARTS_S: Final = 30
PIECE_BYTES: Final = 65_536


class TcpProxy:
    """Passes bytes both ways. `cut` passes on nothing more, and tells neither side, as a broken network does."""

    def __init__(self, target_port: int) -> None:
        self.port = 0
        self._target_port = target_port
        self._loop = asyncio.new_event_loop()
        self._passes = asyncio.Event()
        self._passes.set()
        self._listens = threading.Event()
        self._ends = asyncio.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._listen()), daemon=True)

    @property
    def url(self) -> str:
        return f"flow://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Pass on nothing more; new connections wait."""
        self._loop.call_soon_threadsafe(self._passes.clear)

    def heal(self) -> None:
        """Pass on what waits, and all that comes."""
        self._loop.call_soon_threadsafe(self._passes.set)

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

    async def _listen(self) -> None:
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._listens.set()
        await self._ends.wait()
        await close_server(server)
        lines = asyncio.all_tasks() - {asyncio.current_task()}
        for each in lines:
            each.cancel()
        await asyncio.gather(*lines, return_exceptions=True)
        await asyncio.sleep(0)  # what was aborted is closed by the loop

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.CancelledError):
            await self._passes.wait()
            there, onwards = await asyncio.open_connection("127.0.0.1", self._target_port)
            ways = [asyncio.create_task(self._carry(reader, onwards)), asyncio.create_task(self._carry(there, writer))]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                onwards.transport.abort()
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(PIECE_BYTES):
                await self._passes.wait()
                writer.write(data)
                await writer.drain()
