"""What asyncio calls for a while in the place of a stream: classes of asyncio's, which cannot be compiled as it is."""

import asyncio
from typing import Final

from sluicegate.protocols.transport.interface import ReadTarget

_NEXT: Final = memoryview(bytearray(16 * 1024))  # where what comes behind something large is read to, and copied from


class ReadIntoProtocol(asyncio.BufferedProtocol):
    """Takes a stream's place while the peer sends something large: what comes is read to where it belongs.

    Behind it little is read at first: mostly that is the beginning of the next one.
    """

    __slots__ = ("_is_next", "_stream", "_target", "_transport", "eof_received", "pause_writing", "resume_writing")

    def __init__(self, stream: asyncio.Protocol, transport: asyncio.Transport, target: ReadTarget) -> None:
        self.pause_writing = stream.pause_writing  # type: ignore[method-assign]  # see protocols.transport.stream
        self.resume_writing = stream.resume_writing  # type: ignore[method-assign]
        self.eof_received = stream.eof_received  # type: ignore[method-assign]
        self._stream = stream
        self._transport = transport
        self._target = target
        self._is_next = False  # what is read is behind it

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next read goes."""
        room = self._target.buffer()
        self._is_next = room is None
        return _NEXT if room is None else room

    def buffer_updated(self, nbytes: int) -> None:
        """Take what was read there; give the stream its place back when nothing large is under way any more."""
        if not self._is_next:
            self._target.filled(nbytes)
            return
        self._stream.data_received(bytes(_NEXT[:nbytes]))
        if self._target.buffer() is None and self._transport.get_protocol() is self:
            self._transport.set_protocol(self._stream)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the stream."""
        self._stream.connection_lost(exc)


class LingeringClose(asyncio.Protocol):
    """Takes a stream's place once its last word is written: reads nothing, waits for the end."""

    __slots__ = ("_stream",)

    def __init__(self, stream: asyncio.Protocol) -> None:
        self._stream = stream

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the stream."""
        self._stream.connection_lost(exc)
