"""A proxy between flow clients and a gateway that stops forwarding at frames that the test chooses.

So a test can kill a process at the moment when the other side has acted and its response has not arrived.
"""

import asyncio
import threading
from contextlib import suppress
from queue import SimpleQueue
from types import TracebackType
from typing import Final, Self

from sluicegate.protocols.flow.codec.limits import PREFACE_BYTES
from support.network.close_server import close_server

HEARD_OF_S: Final = 300  # a JVM may have to start first, on a busy machine
_LENGTH_BYTES: Final = 4


class CuttingProxy:
    """Listens on `port`, and connects each client to the gateway's port."""

    def __init__(self, gateway_port: int) -> None:
        self.port = 0
        self._gateway_port = gateway_port
        self._points: list[tuple[int, int]] = []  # type of a frame, and how many of them come through
        self._dead_clients: set[int] = set()  # their ports
        self._told: SimpleQueue[int] = SimpleQueue()  # the same, for the test
        self._loop = asyncio.new_event_loop()
        self._listens = threading.Event()
        self._ends = asyncio.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._listen()), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._listens.wait(HEARD_OF_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._ends.set)
        self._thread.join()
        self._loop.close()

    @property
    def url(self) -> str:
        return f"flow://127.0.0.1:{self.port}"

    def dies_at(self, *points: tuple[int, int]) -> None:
        """Let so many frames of a type through: who said or was told the last of them hears nothing more.

        The next point counts from then on.
        """
        self._points = list(points)

    def dead_client(self) -> int:
        """Wait until the line of one more client is dead; return that client's port."""
        return self._told.get(timeout=HEARD_OF_S)

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

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # OSError: of either side, and a gateway that is not there. Cancelled: at the end.
        with suppress(OSError, asyncio.CancelledError):
            there, to_gateway = await asyncio.open_connection("127.0.0.1", self._gateway_port)
            client = writer.get_extra_info("peername")[1]
            ways = [
                asyncio.create_task(self._carry(client, reader, to_gateway, is_answer=False)),
                asyncio.create_task(self._carry(client, there, writer, is_answer=True)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                to_gateway.close()
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        writer.close()

    async def _carry(
        self, client: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool
    ) -> None:
        """Carry frames one way until one side closes."""
        with suppress(asyncio.IncompleteReadError, OSError):
            writer.write(await reader.readexactly(PREFACE_BYTES))
            while True:
                length = await reader.readexactly(_LENGTH_BYTES)
                frame = length + await reader.readexactly(int.from_bytes(length, "big"))
                if is_answer and client in self._dead_clients:
                    continue
                self._count(client, frame[_LENGTH_BYTES])
                writer.write(frame)
                await writer.drain()

    def _count(self, client: int, kind: int) -> None:
        """Take the frame that is about to pass into account."""
        if not self._points or self._points[0][0] != kind:
            return
        left = self._points[0][1] - 1
        if left:
            self._points[0] = (kind, left)
            return
        del self._points[0]
        self._dead_clients.add(client)
        self._told.put(client)
