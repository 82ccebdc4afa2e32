"""A port whose accepted TCP streams record what they report, and sockets that connect to it."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from sluicegate.protocols.transport.loop.acceptor import Acceptor
from sluicegate.protocols.transport.loop.event_loop import running_sockets
from sluicegate.protocols.transport.loop.tcp import TcpTransport

MIB = 1 << 20


class Recorded(asyncio.Protocol):
    """Records the calls of a stream, in order."""

    def __init__(self, stream: TcpTransport) -> None:
        self.stream = stream
        self.told: list[Any] = []
        self.reads: list[int] = []
        self.data = bytearray()
        self.fails_on = ""
        self.at_work: Callable[[int], None] = lambda size: None  # what a read of a size is for it
        self.gone = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.reads.append(len(data))
        self.data += data
        self.at_work(len(data))
        self._tell("data")

    def eof_received(self) -> None:
        self._tell("end")

    def pause_writing(self) -> None:
        self._tell("full")

    def resume_writing(self) -> None:
        self._tell("room")

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone.set_result(exc)
        self._tell("gone")

    def _tell(self, what: str) -> None:
        if not self.told or self.told[-1] != what:
            self.told.append(what)
        if self.fails_on == what:
            raise RuntimeError(what)


class Port:
    """A listening port, and the streams that it has accepted."""

    def __init__(self) -> None:
        listening = socket.socket()
        listening.setblocking(False)
        listening.bind(("127.0.0.1", 0))
        self.address = listening.getsockname()
        self.came: asyncio.Queue[Recorded] = asyncio.Queue()
        self.accepting = Acceptor(running_sockets(), listening, name="test", on_accept=self._accept)

    def _accept(self, stream: TcpTransport, address: Any) -> None:
        recorded = Recorded(stream)
        stream.set_protocol(recorded)
        self.came.put_nowait(recorded)

    def dial(self) -> socket.socket:
        """Connect; the client's end blocks."""
        return socket.create_connection(self.address)

    async def meet(self) -> tuple[socket.socket, Recorded]:
        """Return both ends of a new stream."""
        client = self.dial()
        return client, await self.came.get()


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0)
