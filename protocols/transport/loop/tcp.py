"""One TCP stream: it reads when its socket has data, writes what the socket takes, and keeps the rest.

To the protocol on it this is an asyncio transport, without inheriting from one: it is compiled, and asyncio's classes
are not. It is not uvloop's or asyncio's own because those cost a client that connects and stays more than all the rest
does; see docs/decisions/0006.

A stream is known by its file descriptor, which is closed when the protocol has been told that the stream is gone.
"""

import asyncio
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

from mypy_extensions import i32, i64

from sluicegate.protocols.transport.loop.selector import READABLE, WRITABLE, SocketSelector, Watcher, report

# Taken by one read at first, and of a peer that sends little. Python makes room for a read before it is known how much
# there is, and cuts it afterwards. Up to 512 bytes, with the object's own, it has at hand: that saves 700 instructions.
READ_BYTES_SMALL: Final = 448
READ_BYTES_MIN: Final = 16 * 1024  # taken by one read of a peer that has sent more
READ_BYTES_MAX: Final = 256 * 1024  # taken by one read of a peer that sends that much
READS_PER_POLL: Final = 16  # of a peer that fills each; then others have their turn
POLL_NS_MAX: Final = 5_000_000  # the same for a peer whose reads are much work; they get smaller, too
PIECES_PER_WRITE: Final = 64  # handed to the kernel together; it takes 1,024
WRITE_HIGH_BYTES: Final = 64 * 1024  # asyncio's, until the protocol sets others
WRITE_LOW_BYTES: Final = 16 * 1024
ALL_IS_READ: Final = -1  # in place of a time

# In compiled code a Final is a C variable; the names themselves would be looked up for each message.
_os_read: Final = os.read
_os_write: Final = os.write

_NO_PROTOCOL: Final = asyncio.Protocol()  # before a protocol has taken the stream over, and when it is gone

Bytes: TypeAlias = bytes | bytearray | memoryview


class TcpTransport(Watcher):
    """The server's end of one stream. `protocols.transport.stream.TcpStream` is one with a connection of ours on it."""

    __slots__ = (
        "_ends",
        "_events",
        "_fd",
        "_high_bytes",
        "_is_closing",
        "_is_full",
        "_low_bytes",
        "_places_reads",
        "_protocol",
        "_read_bytes",
        "_sockets",
        "_unsent",
        "_unsent_bytes",
    )

    def __init__(self, sockets: SocketSelector, fd: int) -> None:
        """Take over an open socket that never blocks. Nothing is read before `resume_reading`."""
        # What is smaller than a pointer stands together: there may be a hundred thousand of these.
        self._sockets = sockets
        self._fd: i32 = fd  # -1 when the stream is gone
        self._events: i32 = 0  # that are watched for
        self._read_bytes: i32 = READ_BYTES_SMALL
        self._places_reads = False  # the protocol says where reads go
        self._is_full = False  # the protocol was told to pause
        self._ends = False  # our end is said, or comes behind what is unsent
        self._is_closing = False
        self._high_bytes: i32 = WRITE_HIGH_BYTES
        self._low_bytes: i32 = WRITE_LOW_BYTES
        self._protocol: Any = _NO_PROTOCOL
        self._unsent: list[Bytes] | None = None  # what the socket has not taken; None: nothing
        self._unsent_bytes: i64 = 0
        sockets.add(fd, self)

    def __repr__(self) -> str:
        state = "gone" if self._fd < 0 else "closing" if self._is_closing else "open"
        return f"{type(self).__name__}({state}, {self._unsent_bytes} bytes unsent)"

    # For the protocol: asyncio's Transport.

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return an address: `peername` or `sockname`."""
        if self._fd < 0 or name not in ("peername", "sockname"):
            return default
        found = default
        held = socket.socket(fileno=self._fd)
        with suppress(OSError):  # the peer is gone already
            found = held.getpeername() if name == "peername" else held.getsockname()
        held.detach()
        return found

    def fileno(self) -> int:
        """Return the number of its file, the lowest that was free as it came; -1 when the stream is gone."""
        return self._fd

    def set_protocol(self, protocol: Any) -> None:
        """Set the protocol that gets the input; a buffered protocol gets it in its own buffers."""
        self._protocol = protocol
        self._places_reads = isinstance(protocol, asyncio.BufferedProtocol)

    def get_protocol(self) -> Any:
        """Return the protocol."""
        return self._protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set how many unsent bytes tell the protocol to pause, and to go on."""
        self._high_bytes = WRITE_HIGH_BYTES if high is None else high
        self._low_bytes = self._high_bytes // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        """Return how many bytes the socket has not taken yet."""
        return self._unsent_bytes

    def write(self, data: Bytes) -> None:
        """Send, or keep what the socket does not take. The memory must not change afterwards."""
        if self._is_closing or self._ends or not data:
            return
        if self._unsent is not None:
            self._keep([data])
            return
        try:
            count = _os_write(self._fd, data)
        except BlockingIOError:
            self._keep([data])
        except OSError as error:
            self._lose(error)
        else:
            if count < len(data):
                self._keep([memoryview(data)[count:]])

    def writelines(self, pieces: Sequence[Bytes]) -> None:
        """Send all, one behind the other, in as few calls of the kernel as that takes."""
        if self._is_closing or self._ends:
            return
        left = [piece for piece in pieces if piece]
        if self._unsent is None:
            self._send(left)
        if left and not self._is_closing:
            self._keep(left)

    def write_eof(self) -> None:
        """Shut down our side, behind what is unsent. Raises OSError when the peer has reset the connection."""
        if self._is_closing or self._ends:
            return
        self._ends = True
        if self._unsent is None:
            self._shut_down()

    def pause_reading(self) -> None:
        """Read no more for now."""
        if not self._is_closing:
            self._watch_for(self._events & ~READABLE)

    def resume_reading(self) -> None:
        """Read again, from the next poll on."""
        if not self._is_closing:
            self._watch_for(self._events | READABLE)

    def is_closing(self) -> bool:
        """Return whether the stream is closing or gone."""
        return self._is_closing

    def close(self) -> None:
        """Send what is unsent, then close. Nothing is read any more."""
        self._close()

    def _close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            if self._unsent is None:
                self._lose(None)
            else:
                self._watch_for(WRITABLE)

    def abort(self) -> None:
        """Close at once; what is unsent is lost."""
        self._lose(None)

    def detach(self) -> int:
        """Give up the socket, and return its descriptor, which stays open and has no watcher; -1 when it is closing.

        The protocol is told nothing any more. What is unsent is lost.
        """
        if self._is_closing:
            return -1
        self.set_protocol(_NO_PROTOCOL)
        return self._leave()

    def deliver_first(self, data: bytes) -> None:
        """Deliver what was read of this stream elsewhere, before anything is read here."""
        try:
            self._deliver(data)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # as with what is read
            self._fail(error)

    # For the selector: Watcher.

    def ready(self, events: int) -> None:
        """The socket has something, or takes something, or has failed."""
        try:
            if events != WRITABLE:
                reads = READS_PER_POLL
                left_ns: i64 = POLL_NS_MAX
                while reads and left_ns > 0 and self._events & READABLE:
                    took_ns = self._read()
                    if took_ns == ALL_IS_READ:
                        break
                    reads -= 1
                    left_ns -= took_ns
            if self._unsent is not None and events != READABLE:
                self._send_on(self._unsent)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # something that was called off, too, which is no Exception
            self._fail(error)

    def _read(self) -> i64:
        """Read once. If that filled the buffer, return how long the protocol took for it."""
        size = self._read_bytes
        places = self._places_reads
        try:
            if places:
                data = b""
                room = self._protocol.get_buffer(-1)
                size = len(room)
                count = os.readv(self._fd, [room])
            else:
                data = _os_read(self._fd, size)
                count = len(data)
        except BlockingIOError:
            return ALL_IS_READ
        except OSError as error:
            self._lose(error)
            return ALL_IS_READ
        if count == size:
            return self._deliver_large_read(data, size)
        if count == 0:
            self._watch_for(self._events & ~READABLE)
            if not self._protocol.eof_received():
                self._close()
        elif places:
            self._protocol.buffer_updated(count)
        else:
            # Memory for a read is made before it is known how much there is, and given back for what there was not. The
            # size goes down slowly: a link brings batches and acknowledgements by turns, and no batch shall be cut.
            if size > READ_BYTES_SMALL and count > size // 2:
                self._deliver_large_read(data, size)
                return ALL_IS_READ
            if size > READ_BYTES_MIN:
                if count < size // 16:
                    self._read_bytes = size - size // 8
            elif size > READ_BYTES_SMALL:
                if count >= READ_BYTES_SMALL // 2:
                    self._read_bytes = READ_BYTES_MIN
                else:
                    self._read_bytes = max(READ_BYTES_SMALL, size - size // 8)
            self._deliver(data)
        return ALL_IS_READ

    def _deliver(self, data: bytes) -> None:
        """Give the protocol what was read."""
        self._protocol.data_received(data)

    def _deliver_large_read(self, data: bytes, size: i32) -> i64:
        """Deliver a read that filled half its buffer or more, adapt the next to the time it takes, and return that."""
        clock = self._sockets.clock
        started_ns: i64 = clock.now_ns()
        if self._places_reads:
            self._protocol.buffer_updated(size)
            return clock.now_ns() - started_ns
        self._deliver(data)
        took_ns: i64 = clock.now_ns() - started_ns
        if size < READ_BYTES_MIN:
            self._read_bytes = READ_BYTES_MIN
        elif took_ns > POLL_NS_MAX:
            self._read_bytes = max(READ_BYTES_MIN, size // 4)
        elif took_ns * 4 <= POLL_NS_MAX:
            self._read_bytes = min(READ_BYTES_MAX, size * 4)
        return took_ns

    def _keep(self, pieces: list[Bytes]) -> None:
        """Put behind what is unsent."""
        for piece in pieces:
            self._unsent_bytes += len(piece)
        if self._unsent is None:
            self._unsent = pieces
            self._watch_for(self._events | WRITABLE)
        else:
            self._unsent.extend(pieces)
        if not self._is_full and self._unsent_bytes > i64(self._high_bytes):
            self._is_full = True
            try:
                self._protocol.pause_writing()
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # not the writer's fault
                self._fail(error)

    def _send_on(self, unsent: list[Bytes]) -> None:
        """Send as much of the unsent data as the socket takes."""
        sent_bytes = self._send(unsent)
        if self._fd < 0:
            return
        self._unsent_bytes -= sent_bytes
        if not unsent:
            self._unsent = None
            self._all_sent()
        if self._is_full and self._unsent_bytes <= i64(self._low_bytes) and not self._is_closing:
            self._is_full = False
            self._protocol.resume_writing()

    def _send(self, pieces: list[Bytes]) -> int:
        """Send pieces, and take them from the list, as far as the socket takes them; return how many bytes that was."""
        sent_bytes = 0
        gone = 0  # pieces; they leave the list together, for each time all that stay are moved
        while gone < len(pieces):
            some = pieces[gone : gone + PIECES_PER_WRITE]
            try:
                count = os.writev(self._fd, some)
            except BlockingIOError:
                break
            except OSError as error:
                self._lose(error)
                break
            sent_bytes += count
            whole = 0
            while whole < len(some) and count >= len(some[whole]):
                count -= len(some[whole])
                whole += 1
            gone += whole
            if whole < len(some):
                if count:
                    pieces[gone] = memoryview(pieces[gone])[count:]
                break
        del pieces[:gone]
        return sent_bytes

    def _all_sent(self) -> None:
        if self._is_closing:
            self._lose(None)
            return
        self._watch_for(self._events & ~WRITABLE)
        if self._ends:
            try:
                self._shut_down()
            except OSError as error:
                self._lose(error)

    def _shut_down(self) -> None:
        held = socket.socket(fileno=self._fd)
        try:
            held.shutdown(socket.SHUT_WR)
        finally:
            held.detach()

    def _watch_for(self, events: int) -> None:
        before = self._events
        if events != before:
            try:
                self._sockets.watch(self._fd, before, events)
            except OSError as error:  # this socket would never be ready
                self._lose(error)
            else:
                self._events = events

    def _fail(self, error: BaseException) -> None:
        """A failure of the protocol costs this stream, and no other."""
        report("a connection failed", error, transport=self, protocol=self._protocol)
        self._lose(error if isinstance(error, Exception) else ConnectionAbortedError(repr(error)))

    def _lose(self, error: Exception | None) -> None:
        """The stream is gone; the protocol is told at the end of this poll."""
        if self._fd >= 0:
            fd = self._leave()
            self._sockets.call_soon(lambda: self._gone(fd, error))

    def _leave(self) -> int:
        """Watch the socket no more; return its descriptor."""
        fd = self._fd
        self._fd = -1
        if self._events:
            self._sockets.watch(fd, self._events, 0)
            self._events = 0
        self._sockets.remove(fd)
        self._is_closing = True
        self._unsent = None
        self._unsent_bytes = 0
        return fd

    def _gone(self, fd: int, error: Exception | None) -> None:
        with suppress(OSError):  # it is closed all the same
            os.close(fd)
        protocol = self._protocol
        self.set_protocol(_NO_PROTOCOL)  # else each would hold the other
        protocol.connection_lost(error)
