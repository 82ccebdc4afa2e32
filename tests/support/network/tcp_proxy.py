"""A proxy in a thread of its own on the way to a port, which a test can cut and heal."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from support.network.proxy_thread import ProxyThread, carry, listening, until_one_ends


class TcpProxy(ProxyThread):
    """Passes bytes both ways. `cut` passes on nothing more, and tells neither side, as a broken network does."""

    def __init__(self, target_port: int) -> None:
        super().__init__()
        self.port = 0
        self._target_port = target_port
        self._passes = asyncio.Event()
        self._passes.set()

    @property
    def url(self) -> str:
        return f"flow://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Pass on nothing more; new connections wait."""
        self._loop.call_soon_threadsafe(self._passes.clear)

    def heal(self) -> None:
        """Pass on what waits, and all that comes."""
        self._loop.call_soon_threadsafe(self._passes.set)

    # --- in the thread ---

    async def _listen(self) -> Sequence[asyncio.Server]:
        server, self.port = await listening("127.0.0.1", self._connect)
        return [server]

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.CancelledError):
            await self._passes.wait()
            there, onwards = await asyncio.open_connection("127.0.0.1", self._target_port)
            try:
                await until_one_ends(carry(reader, onwards, self._passes), carry(there, writer, self._passes))
            finally:
                onwards.transport.abort()
        writer.transport.abort()
