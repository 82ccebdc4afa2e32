"""Protocols that replace a stream for a while: classes of asyncio's, which cannot be compiled as the stream is."""

import asyncio
from typing import Final

from sluicegate.protocols.transport.interface import ReadTarget

_NEXT: Final = memoryview(bytearray(16 * 1024))  # where what comes behind something large is read to, and copied from


class ReadIntoProtocol(asyncio.BufferedProtocol):
    """Replaces a stream while the peer sends large data, which is read into its target.

    Behind it little is read at first: mostly that is the beginning of the next one.
    """

    __slots__ = ("_is_next", "_stream", "_target", "_transport", "eof_received", "pause_writing", "resume_writing")

    def __init__(self, stream: asyncio.Protocol, transport: asyncio.Transport, target: ReadTarget) -> None:
        self.pause_writing = stream.pause_writing  # type: ignore[method-assign]  # see protocols.transport.stream.stream
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
        """Take what was read there; restore the stream when the target is complete."""
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
    """Replaces a stream whose last bytes are written: discards input, and waits for the end."""

    __slots__ = ("_stream", "deadline")

    def __init__(self, stream: asyncio.Protocol) -> None:
        self._stream = stream
        self.deadline: asyncio.TimerHandle | None = None  # of the stream, if it keeps none itself

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the stream."""
        if self.deadline is not None:
            self.deadline.cancel()
        self._stream.connection_lost(exc)
