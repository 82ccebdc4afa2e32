"""Write control: a client that does not read holds up its publishers for a while, and then nobody.

See also: when the broker stops reading from a client (`protocols.connection.read_control`).
"""

from collections.abc import Callable
from typing import Final, final

from sluicegate.actors.messages.data import Resume
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.queues.pressure import Pressure
from sluicegate.protocols.connection.counters import ProtocolCounters
from sluicegate.protocols.transport.interface import ByteTransport

# Responses that a client requests and does not read: nothing else bounds what then waits for its socket.
#
# Data that a client did not request has bounds of its own: windows, credit, and that direct messages are dropped
# (`WriteControl`).


UNREAD_RESPONSES_BYTES_MAX: Final = (
    1024 * 1024
)  # 260,000 PUBACKs; who has a window never has more than a few KiB unread


@final
class UnreadResponses:
    """The responses of one client, while its socket is full.

    A client may be behind for hours and read on. So what counts is whether anything was taken of what was written since
    the last look, or since the socket was full: bytes are taken in their order. At most twice the maximum is unread.
    """

    def __init__(self) -> None:
        self._answered_from = 0  # what it had been answered at the last look
        self._written_bytes = 0  # since then

    def begin(self, answered_bytes: int) -> None:
        """The socket is full, or was looked at; `answered_bytes` is all that the client was ever answered."""
        self._answered_from = answered_bytes
        self._written_bytes = 0

    def are_too_many(self, answered_bytes: int, written_bytes: int, transport: ByteTransport) -> bool:
        """Note what was written just now, answers or not; return whether the client asks and takes nothing."""
        self._written_bytes += written_bytes
        if answered_bytes - self._answered_from < UNREAD_RESPONSES_BYTES_MAX:
            return False
        if transport.buffered_bytes() >= self._written_bytes:
            return True
        self.begin(answered_bytes)
        return False


BURST_FACTOR: Final = 4  # libuv reads up to 8 MiB of one publisher in a turn
CONNECTION_HIGH_BYTES: Final = 256 * 1024  # unread by the client; the transport's own high mark
CONNECTION_LOW_BYTES: Final = 64 * 1024


class WriteControl:
    """Whether one client reads what it is sent."""

    def __init__(
        self, cell: ActorCell, counters: ProtocolCounters, *, buffer_bytes_max: int, slow_subscriber_stall_ms: int
    ) -> None:
        self._cell = cell  # of the connection
        self._clock = cell.runtime.clock
        self._counters = counters
        self._buffer_bytes_max = buffer_bytes_max  # direct messages beyond it are dropped
        self._stall_ms = slow_subscriber_stall_ms  # how long publishers wait for a client that reads nothing
        self._transport: ByteTransport | None = None
        self.pressure = Pressure(high_bytes=CONNECTION_HIGH_BYTES, low_bytes=CONNECTION_LOW_BYTES)
        self.paused = False
        self.dropped_count = 0  # direct messages
        self.answers = UnreadResponses()
        self._is_timed = False  # a look is due: there is one at a time, however often the client falls behind

    def attach(self, transport: ByteTransport) -> None:
        """Take the transport, until `close`."""
        self._transport = transport

    def writing_paused(self) -> None:
        """The client reads slower than we write."""
        self.paused = True
        self.pressure.level(CONNECTION_HIGH_BYTES, self._clock.now_ms())
        if not self._is_timed:
            self._check_progress(-1)

    def writing_resumed(self) -> None:
        """The client has caught up."""
        self.paused = False
        _resume(self.pressure.level(0, self._clock.now_ms()))

    def drops_direct(self, count: int) -> bool:
        """Return whether the client has too much unread for more direct messages; what is dropped is counted."""
        transport = self._transport
        if not self.paused or transport is None:
            return False
        limit = self._buffer_bytes_max
        # Publishers that wait for a client learn so after they were read from, and one turn's reads may be large. Only
        # of a client they do not wait for any more is everything above the limit in vain.
        if transport.buffered_bytes() < (limit if self.pressure.waived else limit * BURST_FACTOR):
            return False
        self._counters.count(self._counters.dropped, "transmit_congestion", count)
        self.dropped_count += count
        return True

    def close(self) -> None:
        """The connection ends: publishers that wait for it go on."""
        self._transport = None
        _resume(self.pressure.close())

    def _check_progress(self, buffered_before: int) -> None:
        transport = self._transport
        self._is_timed = self.paused and transport is not None
        if not self.paused or transport is None:
            return
        now_ms = self._clock.now_ms()
        buffered = transport.buffered_bytes()
        if 0 <= buffered < buffered_before:
            self.pressure.progress(now_ms)
        _resume(self.pressure.waive_if_stalled(now_ms, self._stall_ms))
        check_again: Callable[[], None] = lambda: self._check_progress(buffered)  # noqa: E731  # a timer's callback
        self._cell.after(max(10, self._stall_ms // 2), check_again)


def _resume(publishers: list[Address]) -> None:
    for publisher in publishers:
        publisher.post(Resume())


# What a turn has to say to one peer, as the few buffers that are cheapest to write.


LARGE_BYTES: Final = 64 * 1024  # to copy as much costs more than a write of its own
_SCANNED: Final = 64  # pieces: where more came in one turn they are mostly small, and to look costs each of them


def write_gathered(transport: ByteTransport, pieces: list[bytes], counters: ProtocolCounters) -> int:
    """Write all pieces, in order, and count their bytes as sent; return how many."""
    buffers = gathered(pieces)
    written_bytes = sum([len(each) for each in buffers])
    counters.bytes_sent += written_bytes
    if len(buffers) == 1:
        transport.write(buffers[0])
    elif buffers:
        transport.write_all(buffers)
    return written_bytes


def gathered(pieces: list[bytes]) -> list[bytes]:
    """Return buffers that make up `pieces`, in order: small ones joined, large ones as they are. None for no pieces."""
    count = len(pieces)
    if count < 2:
        return pieces
    if count > _SCANNED:
        return [b"".join(pieces)]
    buffers: list[bytes] = []
    begun = 0
    for index in range(count):
        if len(pieces[index]) >= LARGE_BYTES:
            if begun < index:
                buffers.append(b"".join(pieces[begun:index]))
            buffers.append(pieces[index])
            begun = index + 1
    if begun == 0:
        return [b"".join(pieces)]
    if begun < count:
        buffers.append(b"".join(pieces[begun:]))
    return buffers
