"""The channel between the supervisor and a broker: requests and answers, either way, over a pair of Unix sockets.

Both ends run the same code for the same user, and nobody else can reach the sockets, so what crosses is pickled
(`pickling`).
"""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any, Final, final

from sluicegate.gateway.machine.pickling import dumps, loads

LENGTH: Final = struct.Struct("!I")
ASK, ANSWER, FAILURE, PING, PONG = range(5)

Serve = Callable[[str, tuple[Any, ...]], Awaitable[object]]


class ChannelClosed(Exception):
    """The other process has closed the channel, or died."""


class Unanswered(ChannelClosed):
    """The other process does not answer; it may yet carry out what it was asked."""


@final
class Channel:
    """One end of a channel, on the running loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, serve: Serve) -> None:
        """Begin. `serve` carries out a request of the other end; what it raises is raised there."""
        self._reader = reader
        self._writer = writer
        self._serve = serve
        self._asked: dict[int, asyncio.Future[Any]] = {}  # requests without an answer, by number
        self._number = 0
        self._pinged = False  # and has not answered yet
        self._tasks: set[asyncio.Task[None]] = set()
        loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = loop.create_future()  # done when the other end is gone
        self._reading = loop.create_task(self._read())

    @classmethod
    async def over(cls, end: socket.socket, serve: Serve) -> "Channel":
        """Return the channel over one of two connected sockets."""
        reader, writer = await asyncio.open_connection(sock=end)
        return cls(reader, writer, serve)

    async def ask(self, verb: str, *arguments: Any) -> Any:
        """Have the other end carry out a request; return its answer. Raises what it raised, or ChannelClosed."""
        if self.closed.done():
            raise ChannelClosed(verb)
        self._number += 1
        number = self._number
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        self._write((ASK, number, verb, arguments))
        try:
            return await answer
        finally:
            self._asked.pop(number, None)

    def ping(self) -> bool:
        """Return whether the other end has answered the last ping; if so, ping it again."""
        if self._pinged:
            return False
        self._pinged = True
        self._write((PING, 0))
        return True

    def give_up(self) -> None:
        """Have the requests that are under way fail with Unanswered. What is answered later is ignored."""
        self._fail(Unanswered)

    def close(self) -> None:
        """Close this end. Requests that are under way fail with ChannelClosed. Idempotent."""
        self._reading.cancel()
        self._end()

    def _write(self, frame: tuple[object, ...]) -> None:
        if not self._writer.is_closing():
            data = dumps(frame)
            self._writer.write(LENGTH.pack(len(data)) + data)

    async def _read(self) -> None:
        try:
            while True:
                (length,) = LENGTH.unpack(await self._reader.readexactly(LENGTH.size))
                self._take(loads(await self._reader.readexactly(length)))
        except (asyncio.IncompleteReadError, OSError):
            self._end()

    def _take(self, frame: tuple[Any, ...]) -> None:
        kind, number, *rest = frame
        if kind == ASK:
            task = asyncio.get_running_loop().create_task(self._carry_out(number, *rest))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return
        if kind == PING:
            self._write((PONG, 0))
            return
        if kind == PONG:
            self._pinged = False
            return
        answer = self._asked.get(number)
        if answer is not None and not answer.done():
            if kind == ANSWER:
                answer.set_result(rest[0])
            else:
                answer.set_exception(rest[0])

    async def _carry_out(self, number: int, verb: str, arguments: tuple[Any, ...]) -> None:
        try:
            answer = await self._serve(verb, arguments)
        except Exception as error:  # it is the asker's
            self._write((FAILURE, number, error))
        else:
            self._write((ANSWER, number, answer))

    def _end(self) -> None:
        if self.closed.done():
            return
        self.closed.set_result(None)
        self._writer.close()
        for task in self._tasks:
            task.cancel()
        self._fail(ChannelClosed)

    def _fail(self, kind: type[ChannelClosed]) -> None:
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(kind())
        self._asked.clear()
