"""Clients that are answered: each has a temporary queue of its broker's, and clients of all brokers publish to it.

Nothing is kept of such a queue when its client's connection ends, so the judge is a count: a reply comes to the client
that it is for, once, and one that was confirmed comes if the client is there all the time.
"""

from collections.abc import Callable
from random import Random
from typing import Final

from simulation.clients.client import OFFLINE, ONLINE
from simulation.clients.connected_client import Wired
from simulation.clients.transacting_client import AMQP_HEADER, OUTGOING_WINDOW, WINDOW, heard_in
from simulation.judge.targets import Violation
from simulation.network.clients.lone_clients import SilentTap
from simulation.wires.memory_network import Wire
from simulation.wires.mqtt_tap import number_of
from sluicegate.protocols.amqp.codec.delivery_states import ACCEPTED_STATE
from sluicegate.protocols.amqp.codec.dispositions import disposition_bytes
from sluicegate.protocols.amqp.codec.frames import HEARTBEAT, frame
from sluicegate.protocols.amqp.codec.performatives import CLOSE, Attach, Begin, Detach, Flow, Open, encode_ending
from sluicegate.protocols.amqp.codec.termini import Source, Target
from support.amqp.received import Ended, Received

CREDIT: Final = 10_000
FIRST: Final = 1_000_000_000  # number of a reply, above those of messages that the judges of brokers know


class Reply:
    """One message to a temporary queue."""

    def __init__(self, number: int, broker: str, queue: str) -> None:
        self.number = number
        self.broker = broker  # of who sends it
        self.queue = queue
        self.is_confirmed = False
        self.came = False

    def __repr__(self) -> str:
        return f"reply {self.number} of a client at {self.broker}"


class ReplyBook:
    """All replies of a run."""

    def __init__(self) -> None:
        self._replies: list[Reply] = []

    def sends(self, broker: str, queue: str) -> int:
        """A client is about to publish to a temporary queue; return the number of the message."""
        self._replies.append(Reply(FIRST + len(self._replies), broker, queue))
        return self._replies[-1].number

    def confirmed(self, number: int) -> None:
        """It was confirmed."""
        self._replies[number - FIRST].is_confirmed = True

    def restored(self, broker: str) -> None:
        """A broker has a backup, which lacks what was confirmed since."""
        for each in self._replies:
            each.is_confirmed = each.is_confirmed and each.broker != broker

    def got(self, number: int, queue: str) -> None:
        """A client has got it from its queue. Raises Violation when that cannot be."""
        reply = self._replies[number - FIRST]
        if reply.came or reply.queue != queue:
            raise Violation(f"{reply} to {reply.queue} came to {queue}, and had come before: {reply.came}")
        reply.came = True

    def missing(self, queue: str) -> list[Reply]:
        """Return what was confirmed to a queue, and has not come."""
        return [each for each in self._replies if each.queue == queue and each.is_confirmed and not each.came]


class AnsweredClient(Wired):
    """A client that consumes a temporary queue."""

    def __init__(self, name: str, book: ReplyBook, *, dial: Callable[["AnsweredClient", SilentTap], Wire]) -> None:
        super().__init__()
        self.name = name
        self.state = OFFLINE
        self.rng = Random(0)
        self.queue = ""  # on this connection; empty: none yet
        self._book = book
        self._dial = dial
        self._unread = b""

    def connect(self) -> None:
        """Connect, and ask for a queue."""
        self.state, self.queue, self._unread = ONLINE, "", b""
        self._wire = self._dial(self, SilentTap())
        self._wire.send(AMQP_HEADER)
        self._send(Open(self.name).encode())
        self._send(Begin(next_outgoing_id=0, incoming_window=WINDOW, outgoing_window=OUTGOING_WINDOW).encode())
        source = Source(None, dynamic=True)
        self._send(Attach("in", handle=0, is_receiver=True, source=source, target=Target("here")).encode())
        flow = Flow(
            next_incoming_id=0,
            incoming_window=WINDOW,
            next_outgoing_id=0,
            outgoing_window=OUTGOING_WINDOW,
            handle=0,
            delivery_count=0,
            link_credit=CREDIT,
        )
        self._send(flow.encode())

    def close(self) -> None:
        """Leave in good order."""
        if self._wire is not None:
            self._send(encode_ending(CLOSE, None))
            self._wire.finish()
            self._gone()

    def tick(self) -> None:
        """Show that it is alive."""
        if self._wire is not None:
            self._wire.send(HEARTBEAT)

    def received(self, data: bytes) -> None:
        """Handle frames of the node."""
        frames, self._unread = heard_in(self._unread + data)
        for heard in frames:
            if isinstance(heard, Attach) and heard.source is not None:
                self.queue = (heard.source.address or "").removeprefix("queue://")
            elif isinstance(heard, Received):
                self._book.got(number_of(heard.message), self.queue)
                at, state = heard.delivery_id, ACCEPTED_STATE
                self._send(disposition_bytes(is_receiver=True, first=at, last=at, settled=True, state=state))
            elif isinstance(heard, (Detach, Ended)):
                self.cut()
                return

    def disconnected(self) -> None:
        """The node, or the network, has ended the connection."""
        self._gone()

    def _send(self, performative: bytes) -> None:
        if self._wire is not None:
            self._wire.send(frame(0, performative))

    def _gone(self) -> None:
        self._wire = None
        self.state, self.queue = OFFLINE, ""
