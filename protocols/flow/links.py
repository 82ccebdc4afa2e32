"""A connection between two brokers, as its two ends have it: the wire, and what uses it.

The broker that connects makes the connection itself (`protocols.network.dialing`); at the other end it comes to the
listener of the flow protocol, and a `FlowConnection` becomes a link when it is greeted with LINK. Both give a
`LinkWire` to the link, which is theirs no more than a message passes through here.

What goes out has three classes. Control frames go first, also while the socket is full: they are few, and bounded by
the exchange of interests and by what clients have open at queues of the neighbor. Messages wait while the socket is
full, guaranteed and direct ones in turns. Direct ones are bounded: the oldest batches are dropped and counted.
Guaranteed ones are bounded by the window of their link queue. Remote flows and readers take no more from their queues
while too much of theirs waits. A link is always read: `ReadControl` has no say in it.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import mypyc_attr

from sluicegate.actors.runtime.inbox import Flushed, Scheduled
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.protocols.connection.counters import ProtocolCounters
from sluicegate.protocols.connection.write_control import write_gathered
from sluicegate.protocols.flow.codec.codes import NONE
from sluicegate.protocols.flow.codec.frames.link import Link, LinkFrame, LinkMessages, LinkStore
from sluicegate.protocols.flow.codec.frames.link_flow import LinkDeliver, LinkFlow
from sluicegate.protocols.flow.engine.engine import FlowEngine
from sluicegate.protocols.transport.interface import ByteTransport

WRITTEN_BYTES_MAX: Final = 256 * 1024  # given to the socket at once, before it is asked whether it takes more
DELIVERIES_BYTES_MAX: Final = 4 * 1024 * 1024  # of remote flows; while more wait for the socket, the flows take no more


@mypyc_attr(allow_interpreted_subclasses=True)  # tests derive links
class LinkUser:
    """A link, as its wire sees it. A class and not a Protocol, like `Address`."""

    def received(self, frame: LinkFrame) -> None:
        """Handle a frame of the neighbor, other than LINK. Raises PeerViolation."""
        raise AssertionError("received is abstract")

    def resumed(self) -> None:
        """The socket takes more again."""
        raise AssertionError("resumed is abstract")

    def ended(self, reason: str) -> None:
        """The connection is gone."""
        raise AssertionError("ended is abstract")


@final
class LinkWire(Flushed):
    """One connection of a link."""

    def __init__(
        self,
        cell: ActorCell,
        engine: FlowEngine,
        counters: ProtocolCounters,
        transport: ByteTransport,
        *,
        address: str,
        is_encrypted: bool,
        hang_up: Callable[[int, str], None],
    ) -> None:
        self.address: Final = address  # of the peer
        self.is_encrypted: Final = is_encrypted
        self.user: LinkUser | None = None  # None: LINK is not answered, or the connection is gone
        self.direct_bytes_max = 0  # that may wait for the socket
        self.sent_count = 0  # direct messages
        self.dropped_count = 0  # direct messages that waited too long
        self.unsent_count = 0  # direct messages that waited when the connection ended
        self.is_full = False  # the socket takes no more
        self.reason = ""  # why it was hung up, or what the neighbor said that it has ended for
        self.code = NONE  # the same
        self._cell = cell
        self._engine = engine
        self._counters = counters
        self._transport: ByteTransport | None = transport
        self._hang_up = hang_up
        self._control: list[bytes] = []
        self._stores: deque[LinkStore | LinkDeliver | LinkFlow] = deque()
        self._deliveries_bytes = 0  # of those, what remote flows deliver
        self._held_back: list[Callable[[], None]] = []  # flows that wait until they are written
        self._direct: deque[LinkMessages] = deque()
        self._direct_counts: deque[int] = deque()  # messages in each
        self._direct_bytes = 0
        self._is_asked = False

    @property
    def is_open(self) -> bool:
        """Whether anything can be sent."""
        return self._transport is not None

    @property
    def waiting_bytes(self) -> int:
        """Bytes of direct messages that wait for the socket."""
        return self._direct_bytes

    def expect_life(self, *, heartbeat_ms: int, dead_time_ms: int) -> None:
        """Show a sign of life every `heartbeat_ms`, and end when nothing was heard for `dead_time_ms`."""
        self._engine.keep_alive_ms = heartbeat_ms
        self._engine.silence_ms_max = dead_time_ms

    def control(self, data: bytes) -> None:
        """Send a control frame at the end of this turn."""
        self._control.append(data)
        self._ask_flush()

    def store(self, messages: LinkStore) -> None:
        """Send guaranteed messages at the end of this turn, or when the socket takes them. Their queue keeps them."""
        self._stores.append(messages)
        self._ask_flush()

    def deliver(self, frame: LinkDeliver | LinkFlow) -> None:
        """Send messages of a remote flow, or a note that comes after them, as `store` does."""
        self._stores.append(frame)
        self._deliveries_bytes += len(frame.batch)
        self._ask_flush()

    @property
    def holds_back(self) -> bool:
        """Whether remote flows should deliver no more, until `call_when_written` calls."""
        return self._deliveries_bytes > DELIVERIES_BYTES_MAX

    def call_when_written(self, flows: Callable[[], None]) -> None:
        """Call these flows, once, when half of what they may have waiting is written."""
        self._held_back.append(flows)

    def direct(self, messages: LinkMessages, count: int) -> None:
        """Send direct messages at the end of this turn, or when the socket takes them."""
        size = len(messages.batch) + len(messages.rest)
        self._direct.append(messages)
        self._direct_counts.append(count)
        self._direct_bytes += size
        while self._direct_bytes > self.direct_bytes_max and len(self._direct) > 1:
            oldest = self._direct.popleft()
            self._direct_bytes -= len(oldest.batch) + len(oldest.rest)
            self.dropped_count += self._direct_counts.popleft()
        self._ask_flush()

    def end(self, code: int, text: str) -> None:
        """End the connection, and tell the neighbor why."""
        if self._transport is not None:
            self.reason = self.reason or text
            self.code = self.code or code
            self.flush()
            self._hang_up(code, text)

    # --- for the connection ---

    def paused(self) -> None:
        """The socket takes no more."""
        self.is_full = True

    def resumed(self) -> None:
        """The socket takes more."""
        self.is_full = False
        if self._stores or self._direct or self._control:
            self._ask_flush()
        if self.user is not None:
            self.user.resumed()

    def gone(self, reason: str) -> None:
        """The connection is gone. What waits is lost, and counted."""
        self._transport = None
        self._hang_up = _nothing
        self._control.clear()
        self._stores.clear()
        self._deliveries_bytes = 0
        self._held_back.clear()
        self.unsent_count += sum(self._direct_counts)
        self._direct.clear()
        self._direct_counts.clear()
        self._direct_bytes = 0
        user, self.user = self.user, None
        if user is not None:
            user.ended(self.reason or reason)

    def owner(self) -> Scheduled | None:
        """Return the connection's actor."""
        return self._cell

    def flush(self) -> None:
        """Write what the socket takes: control frames first, then guaranteed and direct messages in turns."""
        self._is_asked = False
        engine, transport = self._engine, self._transport
        if transport is None:
            return
        if self._control:
            engine.send_all(self._control)
            self._control.clear()
        self._write(transport)
        while (self._stores or self._direct) and not self._is_stopped():
            size = 0
            wall_ms = self._cell.runtime.clock.wall_ms()
            frames: list[bytes] = []
            share = WRITTEN_BYTES_MAX // 2 if self._direct else WRITTEN_BYTES_MAX
            while self._stores and size < share:
                stores = self._stores.popleft()
                size += len(stores.batch)
                if not isinstance(stores, LinkStore):
                    self._deliveries_bytes -= len(stores.batch)
                stores.sent_ms = wall_ms
                stores.write(frames)
            while self._direct and size < WRITTEN_BYTES_MAX:
                messages = self._direct.popleft()
                self.sent_count += self._direct_counts.popleft()
                messages_bytes = len(messages.batch) + len(messages.rest)
                self._direct_bytes -= messages_bytes
                size += messages_bytes
                messages.sent_ms = wall_ms
                messages.write(frames)
            engine.send_all(frames)
            self._write(transport)
        if self._held_back and self._deliveries_bytes * 2 <= DELIVERIES_BYTES_MAX:
            held_back, self._held_back = self._held_back, []
            for resume in held_back:
                resume()

    def _is_stopped(self) -> bool:
        return self.is_full or self._transport is None  # asked by a call: writing changes it

    def _write(self, transport: ByteTransport) -> None:
        engine = self._engine
        if engine.has_output:
            engine.wrote(self._cell.runtime.clock.now_ms())
            write_gathered(transport, engine.take(), self._counters)

    def _ask_flush(self) -> None:
        if not self._is_asked and self._transport is not None:
            self._is_asked = True
            self._cell.runtime.dispatcher.at_turn_end(self)


def _nothing(code: int, text: str) -> None:
    """Do nothing: the connection has ended."""


@final
class LinkRefused(Exception):
    """A link is refused. `code` is of `protocols.flow.codec.codes`."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class LinkAcceptor:
    """The links of the node, as connections that were accepted see them. A class and not a Protocol, like `Address`."""

    def greeted(self, wire: LinkWire, link: Link, *, user: str, refusal: str) -> Link:
        """Make a connection that was greeted with LINK a link; return the answer. Raises LinkRefused.

        `user` has logged in, empty without an account. `refusal` says why it may not open links; empty: it may.
        """
        raise AssertionError("greeted is abstract")
