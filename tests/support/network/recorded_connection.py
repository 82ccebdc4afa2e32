"""A connection for tests of the transport: it records each call, and a test can wait for one."""

import asyncio
from collections.abc import Callable

from sluicegate.protocols.transport.interface import ByteTransport, PeerInfo


class RecordedConnection:
    """One stream's record."""

    transport: ByteTransport
    peer: PeerInfo

    def __init__(self, opened: "asyncio.Queue[RecordedConnection] | None" = None) -> None:
        self.data = b""
        self.pauses: list[str] = []
        self.ends: list[Exception | None] = []
        self.fails_on: bytes | None = None
        self.closes_on: bytes | None = None
        self.pauses_on: bytes | None = None  # at the end of the turn, as connections do with a request under way
        self._opened = opened
        self._changed = asyncio.Event()

    def opened(self, transport: ByteTransport, peer: PeerInfo) -> None:
        self.transport = transport
        self.peer = peer
        if self._opened is not None:
            self._opened.put_nowait(self)

    def received(self, data: bytes) -> None:
        assert data
        assert type(data) is bytes
        self.data += data
        self._changed.set()
        if data == self.closes_on:
            self.transport.write(b"goodbye")
            self.transport.close()
        if data == self.pauses_on:
            asyncio.get_running_loop().call_soon(self.transport.pause_reading)
        if data == self.fails_on:
            raise RuntimeError("as the test asked")

    def closed(self, error: Exception | None) -> None:
        self.ends.append(error)
        self._changed.set()

    def writing_paused(self) -> None:
        self.pauses.append("paused")
        self._changed.set()

    def writing_resumed(self) -> None:
        self.pauses.append("resumed")
        self._changed.set()

    def tell(self) -> None:
        """Let waiting tests check their conditions again."""
        self._changed.set()

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until the recorded calls fulfil a condition."""
        while not is_so():
            self._changed.clear()
            await self._changed.wait()

    async def has_received(self, data: bytes) -> None:
        """Wait until exactly these bytes have come since the beginning."""
        await self.until(lambda: len(self.data) >= len(data))
        assert self.data == data

    async def has_closed(self) -> Exception | None:
        """Wait for the end, and return why."""
        await self.until(lambda: bool(self.ends))
        assert len(self.ends) == 1
        return self.ends[0]


class Recorder:
    """Makes the connections of a listener under test."""

    def __init__(self) -> None:
        self.made: list[RecordedConnection] = []
        self._opened: asyncio.Queue[RecordedConnection] = asyncio.Queue()

    def connect(self) -> RecordedConnection:
        """Be the listener's factory."""
        connection = RecordedConnection(self._opened)
        self.made.append(connection)
        return connection

    async def next_opened(self) -> RecordedConnection:
        """Return the next connection whose stream is ready."""
        return await self._opened.get()
