"""A passage between two processes of this machine, through which open sockets are passed, each with a few bytes.

It is a pair of Unix sockets that keep the borders of messages (SOCK_SEQPACKET), with descriptors as SCM_RIGHTS: see
unix(7). Whoever passes a socket has it no longer. What is passed within one poll goes together, many sockets in one
message of the kernel: its bytes are those of each socket, with their length before them.
"""

import array
import errno
import os
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import Final, final

from sluicegate.protocols.transport.loop.event_loop import running_sockets
from sluicegate.protocols.transport.loop.selector import READABLE, WRITABLE, CallbackWatcher, report

# With one socket. The kernel takes a message whole or not at all; of an ordinary send buffer (212,992 bytes) this is
# half.
MESSAGE_BYTES_MAX: Final = 96 * 1024
WAITING_MAX: Final = 4_096  # sockets that wait for a process that takes none; each holds a descriptor
WAITING_BYTES_MAX: Final = 16 << 20  # of what goes with these together
SOCKETS_MAX: Final = 64  # in one message; the kernel's limit is 253
RECEIVED_PER_TURN: Final = 64  # messages of one socket, or sockets of larger ones; then others have their turn
RETRY_S: Final = 0.05  # when the kernel takes no more descriptors that nobody has received yet

# The other end is closed, or its process has died: the next read finds that.
_GONE: Final = (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN)
_LENGTH: Final = struct.Struct("!I")
_BYTES_MAX: Final = MESSAGE_BYTES_MAX + _LENGTH.size
_DESCRIPTORS_BYTES: Final = socket.CMSG_LEN(SOCKETS_MAX * array.array("i").itemsize)


class PassageFull(Exception):
    """The other process takes nothing: too much waits for it already."""


def make_pair() -> tuple[socket.socket, socket.socket]:
    """Return the two ends of a passage, to be given to `Passage`, each in its process."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def packed(messages: list[bytes]) -> bytes:
    """Return what goes through a passage with as many descriptors as there are messages."""
    return b"".join([_LENGTH.pack(len(message)) + message for message in messages])


def unpacked(data: bytes) -> list[bytes]:
    """Return the messages, one for each descriptor. Only `packed` makes them, in a process of the same release."""
    messages: list[bytes] = []
    at = 0
    while at < len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size + length
        messages.append(data[at - length : at])
    return messages


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
        self._is_sending = False  # it will send at the end of this poll, or when the other process takes more
        self._sockets = running_sockets()
        self._events = READABLE  # that are watched for
        self._sockets.add(end.fileno(), CallbackWatcher(self._ready))
        self._sockets.watch(end.fileno(), 0, READABLE)

    @property
    def is_open(self) -> bool:
        """Whether the other process may be there."""
        return self._end.fileno() >= 0

    def send(self, message: bytes, fd: int) -> None:
        """Pass a descriptor with a message at the end of this poll, and close it here.

        Raises PassageFull and ValueError; then it stays open. What is passed to a process that has died is closed, and
        counted as lost.
        """
        if not 0 < len(message) <= MESSAGE_BYTES_MAX:
            raise ValueError(f"a message of {len(message)} bytes; allowed: 1 to {MESSAGE_BYTES_MAX}")
        if not self.is_open:
            self._lose(fd)
            return
        if len(self._waiting) >= WAITING_MAX or self._waiting_bytes + len(message) > WAITING_BYTES_MAX:
            raise PassageFull(f"{len(self._waiting)} sockets wait for the other process to take them")
        self._waiting.append((message, fd))
        self._waiting_bytes += len(message)
        if not self._is_sending:
            self._is_sending = True
            self._sockets.call_soon(self._send)

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

    def _send(self) -> None:
        """Send what waits, as far as the kernel takes it; the rest when it takes more."""
        while self._waiting and self.is_open:
            some = self._next()
            messages, fds = [message for message, _ in some], array.array("i", [fd for _, fd in some])
            try:
                self._end.sendmsg([packed(messages)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
            except BlockingIOError:
                self._watch_for(READABLE | WRITABLE)
                return
            except OSError as error:
                if error.errno not in _GONE:  # ETOOMANYREFS, or no memory
                    self._sockets.call_later(RETRY_S, self._send)
                    return
                for _, fd in some:
                    self._lose(fd)
            else:
                for _, fd in some:
                    os.close(fd)
            for message in messages:
                self._waiting.popleft()
                self._waiting_bytes -= len(message)
        self._is_sending = False
        if self.is_open:
            self._watch_for(READABLE)

    def _next(self) -> list[tuple[bytes, int]]:
        """Return what goes into the next message of the kernel."""
        some: list[tuple[bytes, int]] = []
        left_bytes = _BYTES_MAX
        for each in self._waiting:
            left_bytes -= _LENGTH.size + len(each[0])
            if left_bytes < 0 or len(some) == SOCKETS_MAX:
                break
            some.append(each)
        return some

    def _watch_for(self, events: int) -> None:
        if events != self._events:
            self._sockets.watch(self._end.fileno(), self._events, events)
            self._events = events

    def _ready(self, events: int) -> None:
        if self._waiting and events != READABLE:
            self._send()
        if self.is_open and events != WRITABLE:
            self._read()

    def _lose(self, fd: int) -> None:
        os.close(fd)
        self.lost_count += 1

    def _read(self) -> None:
        left = RECEIVED_PER_TURN
        while left > 0:
            try:
                data, fds = self._receive()
            except BlockingIOError:
                return
            except ConnectionResetError:
                left -= 1
                continue  # the other process has not read all; what it had sent comes behind this
            if not data:
                self.close()
                self._gone()
                return
            left -= 1
            messages = unpacked(data)
            left -= len(messages) - 1
            self.lost_count += len(messages) - len(fds)  # no descriptor was left for these: the kernel has closed them
            for number, fd in enumerate(fds):
                if self.is_open:
                    self._take_one(messages[number], fd)
                else:
                    self._lose(fd)
            if not self.is_open:
                return

    def _take_one(self, message: bytes, fd: int) -> None:
        try:
            self._take(message, fd)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # the others are taken
            report("a passed socket could not be taken", error)

    def _receive(self) -> tuple[bytes, list[int]]:
        fds = array.array("i")
        data, ancillary, _, _ = self._end.recvmsg(_BYTES_MAX, _DESCRIPTORS_BYTES, socket.MSG_CMSG_CLOEXEC)
        for level, kind, raw in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(raw[: len(raw) - len(raw) % fds.itemsize])
        return data, fds.tolist()
