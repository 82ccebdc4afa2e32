"""A proxy between flow clients and a gateway that stops forwarding at frames that the test chooses.

So a test can kill a process at the moment when the other side has acted and its response has not arrived.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Final

from sluicegate.protocols.flow.codec.limits import PREFACE_BYTES
from support.network.proxy_thread import ProxyThread, listening, until_one_ends

HEARD_OF_S: Final = 300  # a JVM may have to start first, on a busy machine
_LENGTH_BYTES: Final = 4


class CuttingProxy(ProxyThread):
    """Listens on `port`, and connects each client to the gateway's port."""

    def __init__(self, gateway_port: int) -> None:
        super().__init__()
        self.port = 0
        self._gateway_port = gateway_port
        self._points: list[tuple[int, int]] = []  # type of a frame, and how many of them come through
        self._dead_clients: set[int] = set()  # their ports
        self._told: SimpleQueue[int] = SimpleQueue()  # the same, for the test

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

    async def _listen(self) -> Sequence[asyncio.Server]:
        server, self.port = await listening("127.0.0.1", self._connect)
        return [server]

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # OSError: of either side, and a gateway that is not there. Cancelled: at the end.
        with suppress(OSError, asyncio.CancelledError):
            there, to_gateway = await asyncio.open_connection("127.0.0.1", self._gateway_port)
            client = writer.get_extra_info("peername")[1]
            requests = self._carry(client, reader, to_gateway, is_answer=False)
            answers = self._carry(client, there, writer, is_answer=True)
            try:
                await until_one_ends(requests, answers)
            finally:
                to_gateway.close()
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
