"""Moving a stream to another process of this machine, through the passage to it: the socket itself, or a relay."""

import errno
import os
import socket
import sys
from collections.abc import Callable

from sluicegate.protocols.transport.interface import ByteTransport
from sluicegate.protocols.transport.loop.event_loop import running_sockets
from sluicegate.protocols.transport.passing.passage import MESSAGE_BYTES_MAX, Passage, PassageFull
from sluicegate.protocols.transport.passing.relay import Relay
from sluicegate.protocols.transport.stream.stream import TcpStream


def pass_stream(stream: TcpStream, passage: Passage, message: bytes) -> None:
    """Pass the socket of a stream, which is silent from then on.

    Raises PassageFull, and OSError for a stream that is closing; then nothing has changed.
    """
    if stream.is_closing():
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    passage.send(message, stream.fileno())  # at the end of this poll, and closed there
    stream.detach()


def relay_stream(
    peer: ByteTransport, passage: Passage, message: bytes, data: bytes, on_ended: Callable[[Relay], None]
) -> Relay:
    """Pass one end of a new pair of sockets, and relay a peer's stream through the other.

    `data`, which was read of it, goes with the message if both fit. Raises PassageFull and OSError; then nothing has
    changed.
    """
    fits = len(message) + len(data) <= MESSAGE_BYTES_MAX
    process = open_stream(passage, message + data if fits else message)
    relay = Relay(peer, process, on_ended)
    if data and not fits:
        relay.received(data)
    return relay


def open_stream(passage: Passage, message: bytes, *, files_max: int = sys.maxsize) -> TcpStream:
    """Return one end of a new pair of sockets, whose other end is passed with the message. Nothing is read of it yet.

    Raises PassageFull and OSError, also where a file would have the number `files_max` or above.
    """
    here, there = socket.socketpair()
    try:
        if max(here.fileno(), there.fileno()) >= files_max:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        here.setblocking(False)
        there.setblocking(False)  # in the other process as well
        passage.send(message, there.fileno())
    except (PassageFull, OSError):
        here.close()
        there.close()
        raise
    there.detach()  # the passage closes it
    return TcpStream(running_sockets(), here.detach())
