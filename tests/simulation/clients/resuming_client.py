"""An AMQP client whose links resume: it keeps its unsettled deliveries, in both directions, while it is away.

It publishes on one link and consumes a queue on another, and uses every outcome. It attaches both links again with maps
of the deliveries whose end it does not know (2.6.13), and sometimes with a part of a map first (2.7.3).
"""

from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

from simulation.clients.client import HOLD, OFFLINE, ONLINE, PROMPT, Later
from simulation.clients.connected_client import Wired
from simulation.clients.transacting_client import AMQP_HEADER, OUTGOING_WINDOW, WINDOW, heard_in
from simulation.judge.targets import Message, Violation
from simulation.judge.truth import Truth
from simulation.wires.amqp_tap import IN, OUT, ResumerTap
from simulation.wires.memory_network import Wire
from simulation.wires.mqtt_tap import number_of
from sluicegate.protocols.amqp.codec.delivery_states import (
    ACCEPTED_STATE,
    MODIFIED,
    RELEASED_STATE,
    DeliveryState,
    rejected,
)
from sluicegate.protocols.amqp.codec.dispositions import Disposition, disposition_bytes
from sluicegate.protocols.amqp.codec.frames import HEARTBEAT, frame
from sluicegate.protocols.amqp.codec.performatives import (
    CLOSE,
    RECEIVER_FIRST,
    RECEIVER_SECOND,
    TRANSFER,
    Attach,
    Begin,
    Detach,
    Flow,
    Open,
    encode_ending,
)
from sluicegate.protocols.amqp.codec.termini import NEVER, SESSION_END, Source, Target
from sluicegate.protocols.amqp.types.encoding import encode, encode_performative
from sluicegate.protocols.amqp.types.errors import INTERNAL_ERROR
from sluicegate.protocols.amqp.types.values import AmqpMap, AmqpValue, Described, Symbol, ubyte, uint, ulong
from support.amqp.received import Ended, Received

HANDLES: Final = {OUT: 0, IN: 1}
SETTLE_US_MAX = 50_000  # what is not held on to is settled within
LOST_SHARE = 0.05  # of messages behind which the connection is cut, perhaps before the answer
ANSWER_US_MAX = 10_000  # within which that happens
PART_SHARE = 0.3  # of links that are attached with a part of their map first
PART_US_MAX = 200_000  # for which they stay so
OUTCOMES: Final = (
    *(ACCEPTED_STATE,) * 6,
    RELEASED_STATE,
    rejected(INTERNAL_ERROR, "not for us"),
    DeliveryState(MODIFIED, delivery_failed=True),
    DeliveryState(MODIFIED, undeliverable_here=True),
    DeliveryState(MODIFIED, delivery_failed=True, undeliverable_here=True),
)

Dial = Callable[["Resumer", ResumerTap], Wire]


class Manner(NamedTuple):
    """How a client attaches its links."""

    settles_second: bool  # it keeps what it has said the outcome of until the node has settled it
    away_s: int  # for which it asks that its queue waits for it; 0: not at all


# One that lets the node settle first and relies on it for long, one that settles itself, and one that forgets.
MANNERS: Final = (Manner(True, 300), Manner(False, 20), Manner(False, 0))


class Kept:
    """A delivery that the client has not settled."""

    def __init__(self, number: int, delivery_id: int) -> None:
        self.number = number
        self.delivery_id = delivery_id  # on this connection; -1: it has not come there yet
        self.state: DeliveryState | None = None  # what it has said, or would have


class Sent(NamedTuple):
    """A message that the client has sent and heard nothing of."""

    message: Message
    encoded: bytes
    life: int  # of the node by then


class Resumer(Wired):
    """The client, over all its connections and programs."""

    def __init__(self, name: str, truth: Truth, *, dial: Dial, later: Later, manner: Manner, window: int) -> None:
        super().__init__()
        self.name = name
        self.state = OFFLINE
        self.mode = PROMPT
        self.rng = Random(0)  # seeded anew by each step
        self._truth = truth
        self._dial = dial
        self._later = later
        self._manner = manner
        self._window = window
        self._tap: ResumerTap | None = None
        self._begin_program()

    def _begin_program(self) -> None:
        """Know nothing of what was sent or received before."""
        self.queue = ""  # that it consumes, or did
        self._out: dict[bytes, Sent] = {}  # by delivery tag
        self._kept: dict[bytes, Kept] = {}  # the same
        self._begin_connection()

    def _begin_connection(self) -> None:
        self._unread = b""
        self._names: dict[int, str] = {}  # of links, by the node's handle
        self._sent_ids: dict[int, Message] = {}
        self._sent_count = 0
        self._credit = 0  # messages that may be sent in all
        self._may_send = False
        self._received_count = 0  # transfers on this connection
        self._received_before = 0  # the receiving link was attached
        self._is_in = False
        self._parts: dict[str, set[bytes]] = {}  # by link that is attached with an incomplete map: the tags in it
        for kept in self._kept.values():
            kept.delivery_id = -1

    # --- what it is told to do ---

    @property
    def is_waiting(self) -> bool:
        """Return whether it has not heard the end of something that it sent or received."""
        return bool(self._out or self._kept)

    def connect(self, queue: str) -> None:
        """Open a connection, and attach both links: the one from the queue anew, if that is another one."""
        if queue != self.queue:
            self._kept.clear()
            self.queue = queue
        self._begin_connection()
        manner, previous = self._manner, self._tap
        self.state = ONLINE
        self._tap = ResumerTap(
            self._truth,
            self.name,
            sent=self._sent_ids,
            settles_second=manner.settles_second,
            away_s=manner.away_s,
            flow=None if previous is None else previous.flow,
        )
        self._wire = self._dial(self, self._tap)
        self._wire.send(AMQP_HEADER)
        self._send(Open(self.name).encode())
        self._send(Begin(next_outgoing_id=0, incoming_window=WINDOW, outgoing_window=OUTGOING_WINDOW).encode())
        self._attach_out(in_parts=self.rng.random() < PART_SHARE)
        self._attach_in(in_parts=self.rng.random() < PART_SHARE)

    def _attach_out(self, *, in_parts: bool) -> None:
        unsettled: list[tuple[AmqpValue, AmqpValue]] = [(tag, None) for tag in self._out]
        listed = self._listed(OUT, unsettled, in_parts=in_parts)
        self._send(
            Attach(
                OUT,
                handle=HANDLES[OUT],
                is_receiver=False,
                source=Source("here"),
                target=Target(None, expiry_policy=NEVER),
                unsettled=listed,
                incomplete_unsettled=OUT in self._parts,
                initial_delivery_count=0,
            ).encode()
        )

    def _attach_in(self, *, in_parts: bool) -> None:
        manner = self._manner
        unsettled: list[tuple[AmqpValue, AmqpValue]] = [
            (tag, None if kept.state is None else kept.state.described()) for tag, kept in self._kept.items()
        ]
        listed = self._listed(IN, unsettled, in_parts=in_parts)
        policy = NEVER if manner.settles_second and manner.away_s else SESSION_END
        self._send(
            Attach(
                IN,
                handle=HANDLES[IN],
                is_receiver=True,
                source=Source(f"queue://{self.queue}", expiry_policy=policy, timeout_s=manner.away_s),
                target=Target("here"),
                receiver_settle_mode=RECEIVER_SECOND if manner.settles_second else RECEIVER_FIRST,
                unsettled=listed,
                incomplete_unsettled=IN in self._parts,
            ).encode()
        )

    def _listed(self, link: str, unsettled: list[tuple[AmqpValue, AmqpValue]], *, in_parts: bool) -> AmqpMap | None:
        """Return the map with which a link is attached: all that is unsettled, or some of it if there is enough."""
        self._parts.pop(link, None)
        if in_parts and len(unsettled) > 1:
            unsettled = self.rng.sample(unsettled, len(unsettled) // 2)
            self._parts[link] = {tag for tag, _ in unsettled if isinstance(tag, bytes)}
        return AmqpMap(unsettled) if unsettled else None

    def publish(
        self, topic: str, key: str, size: int, *, expiry_s: int = 0, delay_s: int = 0, priority: int = 4
    ) -> None:
        """Publish a message, if there is credit for it."""
        if not self._may_send or self._sent_count >= self._credit:
            return
        message = self._truth.sent(self.name, key, topic, 1, expiry_s=expiry_s, delay_s=delay_s, priority=priority)
        message.is_known = True
        tag = b"%d" % message.number
        encoded = _encoded(message, (b"m%d|" % message.number).ljust(size, b"."))
        self._out[tag] = Sent(message, encoded, self._truth.life)
        self._transfer(tag, resumes=False)
        if self.rng.random() < LOST_SHARE:
            wire = self._wire
            self._later(self.rng.randrange(ANSWER_US_MAX), lambda: self.cut() if self._wire is wire else None)

    def settle(self, count: int) -> None:
        """Settle some deliveries in flight, the oldest or the newest."""
        for _ in range(count):
            held = [kept for kept in self._kept.values() if kept.delivery_id >= 0 and kept.state is None]
            if held:
                self._say(held[self.rng.choice((0, 0, -1))], self.rng.choice(OUTCOMES))
        self._grant()

    def accept_all(self) -> None:
        """Accept all deliveries in flight."""
        for kept in list(self._kept.values()):
            if kept.delivery_id >= 0 and kept.state is None:
                self._say(kept, ACCEPTED_STATE)
        self._grant()

    def suspend(self) -> None:
        """Detach the receiving link, and attach it again when the node has heard that."""
        if self._is_in:
            self._detach(IN)

    def _detach(self, link: str) -> None:
        if link == IN:
            self._is_in = False
        self._send(Detach(HANDLES[link], closed=False).encode())

    def close(self) -> None:
        """Close the connection, and remember the unsettled deliveries."""
        if self._wire is not None:
            self._send(encode_ending(CLOSE, None))
            self._wire.finish()
            self._gone()

    def crash(self) -> None:
        """Lose the connection, and what the program knew."""
        self.vanish()
        self._begin_program()

    def tick(self) -> None:
        """Show that it is alive."""
        if self._wire is not None:
            self._wire.send(HEARTBEAT)

    # --- what comes ---

    def received(self, data: bytes) -> None:
        """Handle frames of the node."""
        frames, self._unread = heard_in(self._unread + data)
        for heard in frames:
            if self._wire is None:
                return
            if isinstance(heard, Received):
                self._delivery(heard)
            elif isinstance(heard, Disposition) and heard.is_receiver:
                for delivery_id in range(heard.first, heard.last + 1):
                    self._out.pop(b"%d" % self._sent_ids[delivery_id].number, None)
            elif isinstance(heard, Disposition) and heard.settled:
                self._forget(heard)
            elif isinstance(heard, Attach):
                self._names[heard.handle] = heard.name
                self._attached(heard)
            elif isinstance(heard, Flow) and self._names.get(heard.handle) == OUT:
                self._credit_came(heard)
            elif isinstance(heard, Detach):
                self._detached(heard)
            elif isinstance(heard, Ended):
                self.close()

    def disconnected(self) -> None:
        """The node, or the network, has ended the connection."""
        self._gone()

    def _attached(self, heard: Attach) -> None:
        pairs = [] if heard.unsettled is None else heard.unsettled.pairs
        known = {tag for tag, _ in pairs if isinstance(tag, bytes)}
        part = self._parts.get(heard.name)
        if heard.name == OUT:
            for tag in known:
                del self._out[tag]
        elif heard.source is not None:
            listed = self._kept if part is None else part
            self._kept = {tag: kept for tag, kept in self._kept.items() if tag in known or tag not in listed}
            self._is_in, self._received_before = True, self._received_count
            self._grant()
        if part is not None:
            wire = self._wire
            self._later(
                self.rng.randrange(PART_US_MAX), lambda: self._go_on(heard.name) if self._wire is wire else None
            )

    def _go_on(self, link: str) -> None:
        """Detach a link that was attached with a part of its map, to attach it with the rest."""
        if link == OUT or self._is_in:
            self._detach(link)

    def _credit_came(self, heard: Flow) -> None:
        self._credit = heard.delivery_count + heard.link_credit
        if self._may_send or self._credit == 0 or OUT in self._parts:
            return
        self._may_send = True
        for tag in list(self._out):
            self._transfer(tag, resumes=True)

    def _delivery(self, heard: Received) -> None:
        self._received_count += 1
        number = number_of(heard.message)
        known = self._kept.get(heard.tag)
        if (known is not None) != heard.is_resumed or (known is not None and known.number != number):
            raise Violation(f"{self.name} was sent message {number} as {heard.tag!r}, resumed: {heard.is_resumed}")
        kept = self._kept[heard.tag] = Kept(number, heard.delivery_id)
        if self.mode == HOLD:
            return
        state = ACCEPTED_STATE if self.mode == PROMPT else self.rng.choice(OUTCOMES)
        wait_us = 0 if self.mode == PROMPT else self.rng.randrange(SETTLE_US_MAX)
        self._later(wait_us, lambda: self._say_late(kept, state))

    def _say_late(self, kept: Kept, state: DeliveryState) -> None:
        if kept in self._kept.values() and kept.delivery_id >= 0 and kept.state is None:
            self._say(kept, state)
            self._grant()

    def _forget(self, heard: Disposition) -> None:
        """The node has settled what we said the outcome of."""
        for tag, kept in list(self._kept.items()):
            if heard.first <= kept.delivery_id <= heard.last:
                del self._kept[tag]
        self._grant()

    def _detached(self, heard: Detach) -> None:
        link = self._names.get(heard.handle)
        if link == OUT and heard.error is None and OUT in self._parts:
            self._attach_out(in_parts=False)
        elif link != IN:
            self.close()
        elif heard.error is None:
            for kept in self._kept.values():
                kept.delivery_id = -1
            self._attach_in(in_parts=False)
        else:  # the queue is gone, say: begin anew
            self._kept.clear()
            self.close()

    # --- what it is made of ---

    def _say(self, kept: Kept, state: DeliveryState) -> None:
        kept.state = state
        at, is_settled = kept.delivery_id, not self._manner.settles_second
        self._send(disposition_bytes(is_receiver=True, first=at, last=at, settled=is_settled, state=state))
        if is_settled:
            self._kept = {tag: each for tag, each in self._kept.items() if each is not kept}

    def _grant(self) -> None:
        """Grant credit for so many more messages. Resumed deliveries use up credit as well."""
        if not self._is_in:
            return
        here = sum(1 for kept in self._kept.values() if kept.delivery_id >= 0)
        flow = Flow(
            next_incoming_id=self._received_count,
            incoming_window=WINDOW,
            next_outgoing_id=self._sent_count,
            outgoing_window=OUTGOING_WINDOW,
            handle=HANDLES[IN],
            delivery_count=self._received_count - self._received_before,
            link_credit=max(0, self._window - here),
        )
        self._send(flow.encode())

    def _transfer(self, tag: bytes, *, resumes: bool) -> None:
        message, encoded, life = self._out[tag]
        if resumes:
            self._truth.sent_again(message, is_marked=True)
            if life != self._truth.life:  # the node has forgotten it, and may have it
                message.sent_count += 1
                message.is_known = False
        delivery_id = self._sent_count
        self._sent_count += 1
        self._sent_ids[delivery_id] = message
        fields: list[AmqpValue] = [uint(HANDLES[OUT]), uint(delivery_id), tag, uint(0), False, False]
        fields += [None, None, True] if resumes else []
        self._send(encode_performative(TRANSFER, fields) + encoded)

    def _send(self, performative: bytes) -> None:
        if self._wire is not None:
            self._wire.send(frame(0, performative))

    def _gone(self) -> None:
        self._wire = None
        self.state = OFFLINE
        self._may_send = self._is_in = False
        if self._manner.away_s == 0:
            self._kept.clear()


def _encoded(message: Message, body: bytes) -> bytes:
    """Return a message's sections."""
    header: list[AmqpValue] = [
        True,
        ubyte(message.priority),
        uint(1000 * message.expiry_s) if message.expiry_s else None,
    ]
    properties: list[AmqpValue] = [None, None, f"topic://{message.topic}", *[None] * 7, message.key]
    sections = [encode(Described(ulong(0x70), header))]
    if message.delay_s:
        sections.append(
            encode(Described(ulong(0x72), AmqpMap([(Symbol("x-opt-delivery-delay"), ulong(1000 * message.delay_s))])))
        )
    sections += [encode(Described(ulong(0x73), properties)), encode(Described(ulong(0x75), body))]
    return b"".join(sections)
