"""A client of the flow protocol with the real client core: its publisher has a name and returns under it.

The gateway recognises messages that it sends again, so none comes twice or out of order. The client also consumes
queues, and releases deliveries or keeps them, as no client of another protocol in the simulation can.
"""

from collections.abc import Callable
from random import Random
from typing import Final

from simulation.clients.client import HOLD, OFFLINE, ONLINE, PROMPT, Later
from simulation.clients.connected_client import Wired
from simulation.judge.targets import Message, Violation
from simulation.judge.truth import Truth
from simulation.wires.flow_tap import FlowTap
from simulation.wires.memory_network import Wire
from sluicegate.protocols.flow.client.errors import CodedError, FlowClientError
from sluicegate.protocols.flow.client.messages import Message as FlowMessage
from sluicegate.protocols.flow.client.options import ClientOptions
from sluicegate.protocols.flow.client.session.flow import ENDED, OPEN
from sluicegate.protocols.flow.client.session.inbox import Inbox
from sluicegate.protocols.flow.client.session.outbox import Outbox
from sluicegate.protocols.flow.client.session.session import ClientSession
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.frames.deliver import Delivered
from sluicegate.protocols.flow.codec.frames.settle import (
    OUTCOME_ACCEPTED,
    OUTCOME_EXTEND,
    OUTCOME_FAILED,
    OUTCOME_REJECTED,
    OUTCOME_RELEASED,
)

OUTBOX_BYTES, WINDOW_BYTES = 1 << 20, 20_000
SETTLE_US_MAX = 50_000  # what is not held on to is settled within
LOST_SHARE = 0.05  # of messages behind which the connection is cut, perhaps before the answer
ANSWER_US_MAX = 10_000  # within which that happens
OUTCOMES: Final = (
    *(OUTCOME_ACCEPTED,) * 6,
    OUTCOME_RELEASED,
    OUTCOME_FAILED,
    OUTCOME_REJECTED,
    OUTCOME_EXTEND,
)
# What may end a publisher or consumer: the store was full, the queue is gone, or takes no consumers now.
EXPECTED_ENDS: Final = frozenset(
    {codes.NOT_STORED, codes.NOT_FOUND, codes.DISABLED, codes.IN_USE, codes.TOO_MANY, codes.REVOKED}
)

Dial = Callable[["Returner", FlowTap], Wire]
Kept = tuple[Inbox, int, Delivered]  # with the number of the bind that it came by


class Returner(Wired):
    """The client, over all its connections and programs."""

    def __init__(self, name: str, truth: Truth, *, dial: Dial, later: Later, window: int) -> None:
        super().__init__()
        self.name = name
        self.state = OFFLINE
        self.mode = PROMPT
        self.rng = Random(0)  # seeded anew by each step
        self._truth = truth
        self._dial = dial
        self._later = later
        self._window = window
        self._begin_program()

    def _begin_program(self) -> None:
        """Know nothing of what was sent before: some of it may have arrived, and is not sent again."""
        self.out: dict[int, Message] = {}  # by sequence: sent and not answered for
        self._held: list[Kept] = []
        self._inboxes: dict[str, Inbox] = {}  # by queue
        self._session = ClientSession(
            ClientOptions(client_name=self.name),
            random_bytes=self.rng.randbytes,
            jitter=lambda: 0.0,
            now_ms=self._now_ms(),
        )
        self._outbox = Outbox(self.name, window=self._window, bytes_max=OUTBOX_BYTES)
        self._session.add(self._outbox, self._now_ms())

    # --- what it is told to do ---

    @property
    def is_waiting(self) -> bool:
        """Return whether something that it sent was not answered."""
        return bool(self.out)

    def connect(self) -> None:
        """Open a connection. The publisher continues where it was."""
        if self._session.error is not None or self._outbox.phase == ENDED:
            self._begin_program()
        self.state = ONLINE
        for message in self.out.values():
            self._truth.sent_again(message)
        self._wire = self._dial(self, FlowTap(self._truth, self.out, self.name))
        self._session.connected(self._now_ms(), is_encrypted=False)
        self._flush()

    def consume(self, queue: str) -> None:
        """Consume a queue as well, on this connection and those that follow."""
        if queue not in self._inboxes and self._session.error is None:
            inbox = self._inboxes[queue] = Inbox(
                queue, window=self._window, window_bytes=WINDOW_BYTES, unsettled_max=0, renew_every_ms=0
            )
            self._session.add(inbox, self._now_ms())
            self._flush()

    def publish(
        self, topic: str, key: str, size: int, *, expiry_s: int = 0, delay_s: int = 0, priority: int = 4
    ) -> None:
        """Publish a message, if the publisher is open and has room."""
        if self._outbox.phase != OPEN or not self._outbox.has_room():
            return
        message = self._truth.sent(self.name, key, topic, 1, expiry_s=expiry_s, delay_s=delay_s, priority=priority)
        message.is_known = True
        payload = (b"%d|" % message.number).ljust(size, b".")
        sent = FlowMessage(
            payload, topic=topic, key=key, priority=priority, ttl_ms=1000 * expiry_s, delay_ms=1000 * delay_s
        )
        self.out[self._outbox.put(sent, 0, is_awaited=True).sequence] = message
        self._flush()
        if self.rng.random() < LOST_SHARE:
            wire = self._wire
            self._later(self.rng.randrange(ANSWER_US_MAX), lambda: self.cut() if self._wire is wire else None)

    def settle(self, count: int) -> None:
        """Settle some deliveries in flight, the oldest or the newest."""
        for _ in range(min(count, len(self._held))):
            self._say(self._held.pop(self.rng.choice((0, 0, -1))), self.rng.choice(OUTCOMES))
        self._flush()

    def accept_all(self) -> None:
        """Accept all deliveries in flight."""
        for each in self._held:
            self._say(each, OUTCOME_ACCEPTED)
        self._held.clear()
        self._flush()

    def close(self) -> None:
        """End the program in good order."""
        if self._wire is not None:
            self._session.close(self._now_ms())
            self._flush()
            if self._wire is not None:
                self._wire.finish()
            self._gone()
        self._begin_program()

    def crash(self) -> None:
        """Lose the connection, and what the program knew."""
        self.vanish()
        self._begin_program()

    def tick(self) -> None:
        """Bring time."""
        self._session.tick(self._now_ms())
        self._flush()

    # --- what comes ---

    def received(self, data: bytes) -> None:
        """Handle frames of the node."""
        self._session.feed(data, self._now_ms(), self._now_ms())
        self._flush()

    def disconnected(self) -> None:
        """The node, or the network, has ended the connection."""
        self._gone()

    def _take_news(self) -> None:
        """Look at what the core has heard. Raises Violation where it has ended for a fault of the node."""
        session = self._session
        self._check(session.error)
        for flow in session.flows.take_news():
            if flow.phase == ENDED:
                self._check(flow.error)
        session.take_events()
        self._outbox.check()
        for outgoing in self._outbox.answered:
            message = self.out.pop(outgoing.sequence)
            if outgoing.refusal is None and message.promised_tick == 0:
                raise Violation(f"{self.name} takes {message} for stored, and the node has not said so")
        self._outbox.answered.clear()
        for queue, inbox in list(self._inboxes.items()):
            inbox.check()
            for delivered in inbox.take(inbox.waiting_count):
                self._delivery((inbox, inbox.bind_count, delivered))
            if inbox.phase == ENDED:
                del self._inboxes[queue]

    def _delivery(self, kept: Kept) -> None:
        if self.mode == HOLD:
            self._held.append(kept)
            return
        outcome = OUTCOME_ACCEPTED if self.mode == PROMPT else self.rng.choice(OUTCOMES)
        wait_us = 0 if self.mode == PROMPT else self.rng.randrange(SETTLE_US_MAX)
        self._later(wait_us, lambda: self._settle_one(kept, outcome))

    def _settle_one(self, kept: Kept, outcome: int) -> None:
        self._say(kept, outcome)
        self._flush()

    def _say(self, kept: Kept, outcome: int) -> None:
        inbox, bind_number, delivered = kept
        inbox.settle(bind_number, delivered.delivery_id, delivered.delivery_id, outcome)
        if outcome == OUTCOME_EXTEND and bind_number == inbox.bind_count:
            self._held.append(kept)

    def _check(self, error: FlowClientError | None) -> None:
        is_expected = error is None or (isinstance(error, CodedError) and error.code in EXPECTED_ENDS)
        if not is_expected:
            raise Violation(f"{self.name} was ended with {error!r}, and had done nothing wrong")

    # --- what it is made of ---

    def _now_ms(self) -> int:
        return self._truth.now_us() // 1000

    def _flush(self) -> None:
        while self._wire is not None and (data := self._session.take(self._now_ms())):
            self._wire.send(data)
        if self._wire is not None:
            self._take_news()
        if self._wire is not None and self._session.wants_hangup:
            self._wire.finish()
            self._gone()

    def _gone(self) -> None:
        if self._wire is not None:
            self._wire = None
            self.state = OFFLINE
            self._held.clear()
            self._session.disconnected("gone", self._now_ms())
