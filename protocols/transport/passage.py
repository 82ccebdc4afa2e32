"""A passage between two processes of this machine, through which open sockets are passed, each with a few bytes.

It is a pair of Unix sockets that keep the borders of messages (SOCK_SEQPACKET), with descriptors as SCM_RIGHTS: see
unix(7). Whoever passes a socket has it no longer.
"""

import array
import errno
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Final, final

from sluicegate.protocols.transport.loop.event_loop import running_sockets
from sluicegate.protocols.transport.loop.selector import READABLE, WRITABLE, CallbackWatcher

# The kernel takes a message whole or not at all; of an ordinary send buffer (212,992 bytes) this is half.
MESSAGE_BYTES_MAX: Final = 96 * 1024
WAITING_MAX: Final = 4_096  # messages that wait for a process that takes none; each holds a descriptor
WAITING_BYTES_MAX: Final = 16 << 20  # of these messages together
RECEIVED_PER_TURN: Final = 64  # then others have their turn

# The other end is closed, or its process has died: the next read finds that.
_GONE: Final = (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN)
_ONE_DESCRIPTOR: Final = socket.CMSG_LEN(array.array("i").itemsize)


class PassageFull(Exception):
    """The other process takes nothing: too much waits for it already."""


def make_pair() -> tuple[socket.socket, socket.socket]:
    """Return the two ends of a passage, to be given to `Passage`, each in its process."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


@final
class Passage:
    """One end of a passage, on the running loop."""

    def __init__(
        self, end: socket.socket, *, take: Callable[[bytes, int], None], gone: Callable[[], None] = lambda: None
    ) -> None:
        """Begin. `take` gets each message and its descriptor, which is its own from then on.

        `gone` is called once, when the other process has closed its end or died, and not after `close`.
        """
        end.setblocking(False)
        self.lost_count = 0  # sockets that were closed because a process could have no more descriptors, or has died
        self._end = end
        self._take = take
        self._gone = gone
        self._waiting: deque[tuple[bytes, int]] = deque()
        self._waiting_bytes = 0
        self._sockets = running_sockets()
        self._events = READABLE  # that are watched for
        self._sockets.add(end.fileno(), CallbackWatcher(self._ready))
        self._sockets.watch(end.fileno(), 0, READABLE)

    @property
    def is_open(self) -> bool:
        """Whether the other process may be there."""
        return self._end.fileno() >= 0

    def send(self, message: bytes, fd: int) -> None:
        """Pass a descriptor with a message, and close it here. Raises PassageFull and ValueError; then it stays open.

        What is passed to a process that has died is closed, and counted as lost.
        """
        if not 0 < len(message) <= MESSAGE_BYTES_MAX:
            raise ValueError(f"a message of {len(message)} bytes; allowed: 1 to {MESSAGE_BYTES_MAX}")
        if self._waiting or not self._send(message, fd):
            self._keep(message, fd)

    def close(self) -> None:
        """Close this end, and what waits to be passed. Idempotent."""
        if not self.is_open:
            return
        self._watch_for(0)
        self._sockets.remove(self._end.fileno())
        self._end.close()
        for _, fd in self._waiting:
            self._lose(fd)
        self._waiting.clear()
        self._waiting_bytes = 0

    def _send(self, message: bytes, fd: int) -> bool:
        """Pass a descriptor, unless that has to wait. Raises PassageFull when the kernel holds too many already."""
        try:
            socket.send_fds(self._end, [message], [fd])
        except BlockingIOError:
            return False
        except OSError as error:
            if self.is_open and error.errno not in _GONE:  # ETOOMANYREFS, or no memory
                raise PassageFull(f"the kernel takes no more sockets for the other process: {error}") from error
            self._lose(fd)
        else:
            os.close(fd)
        return True

    def _keep(self, message: bytes, fd: int) -> None:
        if len(self._waiting) >= WAITING_MAX or self._waiting_bytes + len(message) > WAITING_BYTES_MAX:
            raise PassageFull(f"{len(self._waiting)} sockets wait for the other process to take them")
        if not self._waiting:
            self._watch_for(READABLE | WRITABLE)
        self._waiting.append((message, fd))
        self._waiting_bytes += len(message)

    def _send_on(self) -> None:
        while self._waiting:
            message, fd = self._waiting[0]
            try:
                if not self._send(message, fd):
                    return
            except PassageFull:
                self._lose(fd)
            self._waiting.popleft()
            self._waiting_bytes -= len(message)
        self._watch_for(READABLE)

    def _watch_for(self, events: int) -> None:
        self._sockets.watch(self._end.fileno(), self._events, events)
        self._events = events

    def _ready(self, events: int) -> None:
        if self._waiting and events != READABLE:
            self._send_on()
        if self.is_open and events != WRITABLE:
            self._read()

    def _lose(self, fd: int) -> None:
        os.close(fd)
        self.lost_count += 1

    def _read(self) -> None:
        for _ in range(RECEIVED_PER_TURN):
            try:
                message, fds = self._receive()
            except BlockingIOError:
                return
            except ConnectionResetError:
                continue  # the other process has not read all; what it had sent comes behind this
            if not message:
                self.close()
                self._gone()
                return
            if fds:
                self._take(message, fds[0])
            else:  # this process has no descriptor left for it, and the kernel has closed it
                self.lost_count += 1
            if not self.is_open:
                return

    def _receive(self) -> tuple[bytes, list[int]]:
        fds = array.array("i")
        message, ancillary, _, _ = self._end.recvmsg(MESSAGE_BYTES_MAX, _ONE_DESCRIPTOR, socket.MSG_CMSG_CLOEXEC)
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
        return message, fds.tolist()
