"""What becomes of a client that does not read what it is sent: it holds up its publishers for a while, then nobody.

When a client is not read from is in `protocols.connection.read_control`.
"""

from collections.abc import Callable
from typing import Final

from sluicegate.actors.messages.data import Resume
from sluicegate.actors.runtime.cell import ActorCell
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.queues.pressure import Pressure
from sluicegate.protocols.connection.counters import ProtocolCounters
from sluicegate.protocols.connection.unread_answers import UnreadAnswers
from sluicegate.protocols.transport.interface import ByteTransport

BURST_FACTOR: Final = 4  # libuv reads up to 8 MiB of one publisher in a turn
CONNECTION_HIGH_BYTES: Final = 256 * 1024  # unread by the client; the transport's own high mark
CONNECTION_LOW_BYTES: Final = 64 * 1024


class WritingWatch:
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
        self.answers = UnreadAnswers()
        self._is_timed = False  # a look is due: there is one at a time, however often the client falls behind

    def attach(self, transport: ByteTransport) -> None:
        """Take the transport, until `close`."""
        self._transport = transport

    def writing_paused(self) -> None:
        """The client reads slower than we write."""
        self.paused = True
        self.pressure.level(CONNECTION_HIGH_BYTES, self._clock.now_ms())
        if not self._is_timed:
            self._look_for_progress(-1)

    def writing_resumed(self) -> None:
        """The client has caught up."""
        self.paused = False
        _let_go_on(self.pressure.level(0, self._clock.now_ms()))

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
        return True

    def close(self) -> None:
        """The connection ends: whoever waits for it goes on."""
        self._transport = None
        _let_go_on(self.pressure.close())

    def _look_for_progress(self, buffered_before: int) -> None:
        transport = self._transport
        self._is_timed = self.paused and transport is not None
        if not self.paused or transport is None:
            return
        now_ms = self._clock.now_ms()
        buffered = transport.buffered_bytes()
        if 0 <= buffered < buffered_before:
            self.pressure.progress(now_ms)
        _let_go_on(self.pressure.waive_if_stalled(now_ms, self._stall_ms))
        look_again: Callable[[], None] = lambda: self._look_for_progress(buffered)  # noqa: E731  # a timer's callback
        self._cell.after(max(10, self._stall_ms // 2), look_again)


def _let_go_on(publishers: list[Address]) -> None:
    for publisher in publishers:
        publisher.post(Resume())
