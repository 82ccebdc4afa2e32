"""The output of one client: one write at the end of a turn, responses before the frames of flows.

Responses are bounded: a client that sends requests and does not read the responses is disconnected
(`protocols.connection.write_control`). Frames of flows have their own limits: windows, credit, and no delivery while
the socket is full.
"""

from collections.abc import Callable
from typing import final

from sluicegate.actors.runtime.inbox import Flushed, Scheduled
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.protocols.connection.counters import ProtocolCounters, Traffic
from sluicegate.protocols.connection.write_control import UnreadResponses
from sluicegate.protocols.flow.engine.engine import FlowEngine
from sluicegate.protocols.transport.interface import ByteTransport


@final
class Output(Flushed):
    """The way out to one client."""

    def __init__(
        self,
        cell: ActorCell,
        engine: FlowEngine,
        counters: ProtocolCounters,
        traffic: Traffic,
        *,
        gather: Callable[[], None],
        give_up: Callable[[], None],
    ) -> None:
        self.flows: list[bytes] = []  # frames of flows, in their order
        self.transport: ByteTransport | None = None  # None before it is there, and when it is gone
        self.is_full = False  # the socket takes no more
        self._cell = cell
        self._engine = engine
        self._counters = counters
        self._traffic = traffic
        self._gather = gather  # sends the engine the frames that go out once per turn
        self._give_up = give_up
        self._is_asked = False
        self._unread = UnreadResponses()
        self._answered_bytes = 0  # while the socket was full

    def send(self, data: bytes) -> None:
        """Send an answer at the end of this turn, behind what flows have to say."""
        self.flows.append(data)
        self._count(len(data))
        self.ask_flush()

    def paused(self) -> None:
        """The socket takes no more."""
        self.is_full = True
        self._unread.begin(self._answered_bytes)

    def resumed(self) -> None:
        """The socket takes more."""
        self.is_full = False

    def end(self) -> None:
        """The transport is gone. Let go of the connection, which would wait for the cycle collector with this."""
        self.transport = None
        self._gather = self._give_up = _nothing

    def ask_flush(self) -> None:
        """Write what there is to say at the end of this turn."""
        if not self._is_asked:
            self._is_asked = True
            self._cell.runtime.dispatcher.at_turn_end(self)

    def owner(self) -> Scheduled | None:
        """Return the connection's actor."""
        return self._cell

    def flush(self) -> None:
        """Write, once for everything of this turn."""
        self._is_asked = False
        self._gather()
        engine = self._engine
        answers = b"".join(engine.take())
        self._count(len(answers))
        if self.flows:
            engine.send(b"".join(self.flows))
            self.flows.clear()
        data = answers + b"".join(engine.take())
        if engine.compresses:
            self._count_saved()
        transport = self.transport
        if transport is not None and data:
            self._counters.bytes_sent += len(data)
            self._traffic.bytes_sent += len(data)
            engine.wrote(self._cell.runtime.clock.now_ms())
            transport.write(data)
            if self.is_full and self._unread.are_too_many(self._answered_bytes, len(data), transport):
                self.transport = None  # nothing more is written to it
                self._give_up()

    def _count_saved(self) -> None:
        engine, counters = self._engine, self._counters
        counters.saved_received += engine.saved_received
        counters.saved_sent += engine.saved_sent
        engine.saved_received = engine.saved_sent = 0

    def _count(self, size: int) -> None:
        if self.is_full:
            self._answered_bytes += size


def _nothing() -> None:
    """Do nothing: the connection has ended."""
