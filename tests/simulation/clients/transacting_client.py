"""A client that consumes a queue and publishes, both in AMQP transactions, and loses its connection on command.

It settles in transactions only: unsettled messages go back when its connection ends. One transaction is open at a time.
Each of its connections counts as a separate publisher: messages of one may come after those of the next.
"""

from collections.abc import Callable
from random import Random
from typing import Final

from simulation.clients.client import OFFLINE, ONLINE, Later
from simulation.clients.connected_client import Wired
from simulation.judge.far_flows import Far
from simulation.judge.targets import Violation
from simulation.judge.transaction import Transaction
from simulation.judge.truth import Truth
from simulation.wires.memory_network import Wire
from simulation.wires.mqtt_tap import number_of
from sluicegate.messaging.topics.syntax import QUEUE_TOPICS
from sluicegate.protocols.amqp.codec.delivery_states import (
    ACCEPTED,
    ACCEPTED_STATE,
    DECLARED,
    REJECTED,
    TRANSACTIONAL,
    DeliveryState,
)
from sluicegate.protocols.amqp.codec.dispositions import Disposition, disposition_bytes
from sluicegate.protocols.amqp.codec.frames import HEARTBEAT, frame
from sluicegate.protocols.amqp.codec.performatives import CLOSE, Attach, Begin, Detach, Flow, Open, encode_ending
from sluicegate.protocols.amqp.codec.termini import Coordinator, Source, Target
from sluicegate.protocols.amqp.types.encoding import encode
from sluicegate.protocols.amqp.types.errors import CONNECTION_FORCED
from sluicegate.protocols.amqp.types.values import AmqpValue, Described, uint, ulong
from support.amqp.received import Ended, Heard, Received, understood

AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"
COORDINATOR, OUT, IN = 0, 1, 2  # handles of its links
WINDOW, OUTGOING_WINDOW = 1 << 20, 1000
MESSAGES_MAX, THINKING_US_MAX = 4, 4_000_000  # of a transaction: what it publishes, how long it is open
COMMITS_SHARE, AT_ONCE_SHARE, LOST_SHARE = 0.8, 0.7, 0.15
ANSWER_US_MAX = 10_000  # within which those connections are cut that do not hear how a transaction ends
BODY_BYTES = 40

Dial = Callable[["Transactor", "Line"], Wire]


class Line:
    """One connection, seen at the node's end: what was delivered on it, and what became of its transactions."""

    def __init__(self, truth: Truth, client: str, number: int, queue: str) -> None:
        self.name = f"{client}, connection {number}"
        self.queue = queue
        self.has_let_go = False  # as the truth's Holder has it
        self.transaction: Transaction | None = None  # the one that is under way
        self.discharge_id = -1  # its discharge, as a delivery of ours
        self._truth = truth
        self._client = client
        self._unread = b""

    def written(self, data: bytes) -> None:
        """The node writes."""
        frames, self._unread = heard_in(self._unread + data)
        if self.transaction is not None and any(self._refuses(heard) for heard in frames):
            self.transaction.is_doomed()  # before what it had settled comes again, in the same write
        for heard in frames:
            if isinstance(heard, Received):
                self._delivery(heard)
            elif isinstance(heard, Disposition) and heard.is_receiver and heard.state is not None:
                if heard.first <= self.discharge_id <= heard.last:
                    assert self.transaction is not None
                    self.transaction.answered(is_accepted=heard.state.code == ACCEPTED)
            elif isinstance(heard, (Detach, Ended)):
                if not self.has_let_go:
                    check_ending(self.name, heard)
                self.has_let_go = True

    def _refuses(self, heard: Heard) -> bool:
        """Return whether it is the answer to a publish that is denied."""
        if not (isinstance(heard, Disposition) and heard.is_receiver and heard.state is not None):
            return False
        return heard.state.code == REJECTED and not heard.first <= self.discharge_id <= heard.last

    @property
    def is_elsewhere(self) -> bool:
        """Whether its queue is at another broker."""
        return self.queue in self._truth.far.queues

    def read(self, data: bytes) -> None:
        """The node reads: the client has said of its transactions what the truth needs to know."""

    def ended(self) -> None:
        """The node closes the connection, or has lost it."""
        self.has_let_go = True

    def _delivery(self, heard: Received) -> None:
        target = self._truth.targets.get(self.queue)
        if target is None and not self.is_elsewhere:
            return  # it is being deleted
        header = heard.sections().get(0x70)
        assert isinstance(header, list)
        is_first = len(header) > 3 and header[3] is True
        now_us, count = self._truth.now_us(), heard.delivery_count + 1
        if target is None:
            self._truth.far.came(self._client, Far(self.queue, number_of(heard.message), not is_first, count))
            return
        self._truth.delivered(
            target, number_of(heard.message), self, held_us=now_us, flagged=not is_first, count=count, again=False
        )


class Transactor(Wired):
    """The client, over all its connections."""

    def __init__(self, name: str, truth: Truth, *, dial: Dial, later: Later) -> None:
        super().__init__()
        self.name = name
        self.state = OFFLINE
        self.rng = Random(0)  # seeded anew by each step
        self.transactions: list[Transaction] = []
        self._truth = truth
        self._dial = dial
        self._later = later
        self._line: Line | None = None
        self._connections_count = 0
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._unread = b""
        self._received_count = 0
        self._sent_count = 0
        self._window = 0
        self._held: list[Received] = []  # not settled, oldest first
        self._topics: tuple[str, ...] = ()  # of what the next transaction publishes

    # --- what it is told to do ---

    @property
    def is_waiting(self) -> bool:
        """Return whether a transaction of this connection has not come to its end."""
        return self._line is not None and self._line.transaction is not None

    def connect(self, queue: str, *, window: int) -> None:
        """Open a connection with a link from a queue, one that sends anywhere, and one to the coordinator."""
        self._begin_anew()
        self._connections_count += 1
        self.state = ONLINE
        self._window = window
        self._line = Line(self._truth, self.name, self._connections_count, queue)
        self._wire = self._dial(self, self._line)
        here, source = Target("here"), Source(f"queue://{queue}")
        self._wire.send(AMQP_HEADER)
        self._send(Open(self.name).encode())
        self._send(Begin(next_outgoing_id=0, incoming_window=WINDOW, outgoing_window=OUTGOING_WINDOW).encode())
        for name, handle, there in (("coordinator", COORDINATOR, Coordinator([])), ("out", OUT, Target(None))):
            attach = Attach(
                name, handle=handle, is_receiver=False, source=Source("here"), target=there, initial_delivery_count=0
            )
            self._send(attach.encode())
        self._send(Attach("in", handle=IN, is_receiver=True, source=source, target=here).encode())
        self._grant()

    def transact(self, topics: tuple[str, ...]) -> None:
        """Run a transaction that publishes to some of these topics, and settles some deliveries in flight."""
        if self._line is None or self._line.transaction is not None:
            return
        self._topics = topics
        commits = self.rng.random() < COMMITS_SHARE
        self._line.transaction = Transaction(self._truth, self._line, commits=commits)
        self.transactions.append(self._line.transaction)
        self._transfer(COORDINATOR, encode(Described(ulong(0x77), Described(ulong(0x31), []))))

    def close(self) -> None:
        """Close the connection."""
        if self._wire is not None:
            self._send(encode_ending(CLOSE, None))
            self._wire.finish()
            self._gone()

    def tick(self) -> None:
        """Show that it is alive."""
        if self._wire is not None:
            self._wire.send(HEARTBEAT)

    # --- what comes ---

    def received(self, data: bytes) -> None:
        """Handle frames of the node."""
        frames, self._unread = heard_in(self._unread + data)
        for heard in frames:
            if isinstance(heard, Received):
                self._received_count += 1
                self._held.append(heard)
            elif isinstance(heard, Disposition) and heard.is_receiver:
                self._answered(heard)
            elif isinstance(heard, (Detach, Ended)):  # the queue is gone, say: begin anew
                self.close()
                return

    def disconnected(self) -> None:
        """The node, or the network, has ended the connection."""
        self._gone()

    def _answered(self, heard: Disposition) -> None:
        line, state = self._line, heard.state
        if line is None or line.transaction is None or state is None:
            return
        if state.code == DECLARED:
            self._carry_out(line.transaction, state.txn_id)
            wait_us = 0 if self.rng.random() < AT_ONCE_SHARE else self.rng.randrange(THINKING_US_MAX)
            self._later(wait_us, lambda: self._discharge(line, state.txn_id))
        elif heard.first <= line.discharge_id <= heard.last:
            line.transaction, line.discharge_id = None, -1
            self._grant()

    def _carry_out(self, transaction: Transaction, txn_id: bytes) -> None:
        assert self._line is not None
        for _ in range(self.rng.randrange(MESSAGES_MAX)):
            topic, key = self.rng.choice(self._topics), f"k{self.rng.randrange(4)}"
            message = transaction.publishes(self._line.name, key, topic)
            body = b"m%d|" % message.number
            queue = topic.removeprefix(QUEUE_TOPICS)
            to = f"topic://{topic}" if queue == topic else f"queue://{queue}"
            properties: list[AmqpValue] = [None, None, to, *[None] * 7, key]
            sections = (
                encode(Described(ulong(0x73), properties)),
                encode(Described(ulong(0x75), body.ljust(BODY_BYTES))),
            )
            self._transfer(OUT, b"".join(sections), DeliveryState(TRANSACTIONAL, txn_id=txn_id))
        accepted = DeliveryState(TRANSACTIONAL, txn_id=txn_id, outcome=ACCEPTED_STATE)
        for _ in range(self.rng.randrange(len(self._held) + 1)):
            held = self._held.pop(self.rng.choice((0, 0, -1)))
            transaction.settles_elsewhere = transaction.settles_elsewhere or self._line.is_elsewhere
            target = self._truth.targets.get(self._line.queue)
            if target is not None and number_of(held.message) in target.seen:
                transaction.settles(target, number_of(held.message))
            at = held.delivery_id
            self._send(disposition_bytes(is_receiver=True, first=at, last=at, settled=True, state=accepted))

    def _discharge(self, line: Line, txn_id: bytes) -> None:
        if line is not self._line or line.transaction is None:
            return
        line.discharge_id = self._sent_count
        line.transaction.discharged()
        said = Described(ulong(0x32), [txn_id, not line.transaction.commits])
        self._transfer(COORDINATOR, encode(Described(ulong(0x77), said)))
        if self.rng.random() < LOST_SHARE:
            self._later(self.rng.randrange(ANSWER_US_MAX), lambda: self.cut() if line is self._line else None)

    # --- what it is made of ---

    def _transfer(self, handle: int, message: bytes, state: DeliveryState | None = None) -> None:
        delivery_id = self._sent_count
        self._sent_count += 1
        fields: list[AmqpValue] = [
            uint(handle),
            uint(delivery_id),
            delivery_id.to_bytes(4, "big"),
            uint(0),
            False,
            False,
            None,
        ]
        encoded = b"".join([encode(each) for each in fields]) + (b"\x40" if state is None else state.encode())
        head = b"\x00\x53\x14\xd0" + (len(encoded) + 4).to_bytes(4, "big") + (8).to_bytes(4, "big")
        self._send(head + encoded + message)

    def _grant(self) -> None:
        """Grant credit for so many more messages."""
        flow = Flow(
            next_incoming_id=self._received_count,
            incoming_window=WINDOW,
            next_outgoing_id=self._sent_count,
            outgoing_window=OUTGOING_WINDOW,
            handle=IN,
            delivery_count=self._received_count,
            link_credit=max(0, self._window - len(self._held)),
        )
        self._send(flow.encode())

    def _send(self, performative: bytes) -> None:
        if self._wire is not None:
            self._wire.send(frame(0, performative))

    def _gone(self) -> None:
        line, self._line, self._wire = self._line, None, None
        self.state = OFFLINE
        if line is not None:
            line.has_let_go = True
            if line.transaction is not None:
                line.transaction.unheard()


def check_ending(name: str, heard: Detach | Ended) -> None:
    """Raise Violation when the node ends a connection with an error that its client has not caused."""
    if not isinstance(heard, Ended) or heard.error is None:
        return
    # It shows that it is alive in long waits only, and one that has vanished does not, perhaps within the handshake.
    was_silent = heard.error.description.startswith(("idle timeout", "the handshake took too long"))
    if heard.error.condition != CONNECTION_FORCED and not was_silent:
        raise Violation(f"{name} was ended with {heard.error}, and had done nothing wrong")


def heard_in(data: bytes) -> tuple[list[Heard], bytes]:
    """Return the content of whole frames, and the bytes after them."""
    frames: list[Heard] = []
    pos = 8 if data.startswith(AMQP_HEADER) else 0
    while pos + 8 <= len(data):
        size = int.from_bytes(data[pos : pos + 4], "big")
        if pos + size > len(data):
            break
        if size > 8:  # else it is a heartbeat
            frames.append(understood(data[pos + 8 : pos + size]))
        pos += size
    return frames, data[pos:]
