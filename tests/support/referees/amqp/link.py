"""The state of a link in the referee of AMQP: credit, the delivery in progress, and the tags in use."""

from typing import Final

from support.referees.amqp.grammar import Malformed, Said, check_message, read
from support.referees.violations import WireViolation, expect, serial_after, serial_ahead

SENDER_UNSETTLED, SENDER_SETTLED = 0, 1  # 2.8.2
RECEIVER_SECOND: Final = 1  # 2.8.3
MESSAGE_FORMAT: Final = 0  # of 3.2


class Delivery:
    """A delivery, of either side."""

    __slots__ = ("id", "is_second", "is_settled", "link", "message", "message_format", "tag", "txn_id")

    def __init__(self, link: "LinkReferee", said: Said, delivery_id: int) -> None:
        self.link = link
        self.id = delivery_id
        self.tag = said.binary("delivery-tag")
        self.message_format = said.number("message-format")
        self.is_settled = False
        self.is_second = link.receiver_settle_mode == RECEIVER_SECOND
        self.txn_id = b""  # of the transaction that it is in
        self.message = bytearray()

    def __repr__(self) -> str:
        return f"delivery {self.id} of {self.link!r}"

    def takes(self, said: Said, payload: bytes) -> bool:
        """Take one of its transfers; return whether it was the last."""
        self.is_settled |= said.flag("settled")
        self.message += payload
        state = said.composite("state")
        if state is not None and state.name == "transactional-state":
            self.txn_id = state.binary("txn-id")
        return said.flag("aborted") or not said.flag("more")

    def request(self) -> Said | None:
        """Return what a delivery to the coordinator asks for: a declare or a discharge (4.5.2, 4.5.3)."""
        try:
            section, _ = read(bytes(self.message), 0, len(self.message))
        except Malformed:
            return None
        inside = section.it[1].it if isinstance(section.it, tuple) else None
        return inside if isinstance(inside, Said) else None


class LinkReferee:
    """One link, from the client's attach to the gateway's detach."""

    def __init__(self, asked: Said) -> None:
        self.asked = asked
        self.answer: Said | None = None
        self.gateway_sends = asked.flag("role")  # true: the client receives
        self.handle = -1  # the gateway's
        self.under_way: Delivery | None = None  # the gateway's
        self.coming: Delivery | None = None  # the client's
        self.tags: set[bytes] = set()  # of what the gateway has sent, and nobody settled
        self.owes_flow = False  # the client has asked for one by `echo`
        self.client_has_closed = False
        self.client_has_detached = False
        self._resumable: set[bytes] = set()
        self._count = 0  # delivery-count of its sender
        self._granted: tuple[int | None, int] = (0, 0)  # by the client: from which delivery-count on, and how many
        self._drains = False

    def __repr__(self) -> str:
        return f"link {self.asked.text('name')!r}"

    @property
    def receiver_settle_mode(self) -> int:
        """The mode in force: the receiver's (2.8.3)."""
        receiver = self.asked if self.gateway_sends or self.answer is None else self.answer
        return receiver.number("rcv-settle-mode", 0)

    @property
    def is_refused(self) -> bool:
        """Whether the gateway has answered without the terminus that would be its own (2.6.3)."""
        return self.answer is None or not self.answer.has("source" if self.gateway_sends else "target")

    @property
    def is_coordinator(self) -> bool:
        target = self.asked.composite("target")
        return target is not None and target.name == "coordinator"

    @property
    def outcomes(self) -> list[str]:
        """Outcomes that the source names, as symbols; none when it leaves that open (3.5.3)."""
        source = self.asked.composite("source")
        return [] if source is None else source.symbols("outcomes")

    # --- the gateway ---

    def gateway_attaches(self, said: Said) -> None:
        """2.7.3: an attach that answers the client's."""
        self.answer = said
        self.handle = said.number("handle")
        if self.gateway_sends:
            expect(said.has("initial-delivery-count"), "2.7.3", "a sender's {}", said)
            self._count = said.number("initial-delivery-count")
            for key, _ in said.entries("unsettled"):
                assert isinstance(key.it, bytes)
                self._resumable.add(key.it)
        else:
            self._count = self.asked.number("initial-delivery-count", 0)

    @property
    def _limit(self) -> int:
        """The delivery-count that the gateway may come to (2.6.7)."""
        seen, credit = self._granted
        begun = 0 if self.answer is None else self.answer.number("initial-delivery-count", 0)
        return serial_after(begun if seen is None else seen, credit)

    def gateway_flows(self, said: Said) -> None:
        """2.6.7: delivery-count and credit are what both have said by then."""
        expect(not self.is_refused, "2.6.3", "{} on {!r}, which was refused", said, self)
        expect(said.has("delivery-count") and said.has("link-credit"), "2.7.4", "{}", said)
        self.owes_flow = False
        count, credit = said.number("delivery-count"), said.number("link-credit")
        if not self.gateway_sends:
            expect(count == self._count, "2.7.4", "{}, and {!r} is at {}", said, self, self._count)
            return
        left = max(0, serial_ahead(self._limit, self._count))
        if count != self._count:
            expect(self._drains and count == self._limit, "2.6.7", "{}, and {!r} is at {}", said, self, self._count)
            self._count, left = count, 0
        expect(credit == left, "2.6.7", "{}, and {} are left on {!r}", said, left, self)

    def gateway_begins(self, said: Said, delivery_id: int) -> Delivery:
        """2.7.5: the first transfer of a delivery."""
        expect(self.gateway_sends and not self.is_refused, "2.7.5", "{} on {!r}", said, self)
        expect(said.has("delivery-tag"), "2.7.5", "{} without a tag", said)
        expect(said.has("message-format"), "2.7.5", "{} without a format", said)
        expect(serial_ahead(self._limit, self._count) > 0, "2.6.7", "{} at {} of {}", said, self._count, self._granted)
        self._count = serial_after(self._count)
        delivery = self.under_way = Delivery(self, said, delivery_id)
        expect(delivery.tag not in self.tags, "2.6.12", "{}, and that tag is not settled", said)
        is_incomplete = self.answer is not None and self.answer.flag("incomplete-unsettled")
        resumes = said.flag("resume")
        expect(is_incomplete or resumes == (delivery.tag in self._resumable), "2.6.13", "{}: {}", said, self._resumable)
        self._resumable.discard(delivery.tag)
        return delivery

    def gateway_transfers(self, said: Said, payload: bytes) -> None:
        """2.7.5: each transfer of a delivery."""
        delivery = self.under_way
        assert delivery is not None
        expect(said.number("delivery-id", delivery.id) == delivery.id, "2.7.5", "{} in {}", said, delivery)
        expect(not said.has("delivery-tag") or said.binary("delivery-tag") == delivery.tag, "2.7.5", "{}", said)
        expect(said.number("message-format", delivery.message_format) == delivery.message_format, "2.7.5", "{}", said)
        is_second = said.number("rcv-settle-mode", 0) == RECEIVER_SECOND
        expect(not is_second or self.receiver_settle_mode == RECEIVER_SECOND, "2.7.5", "{} on {!r}", said, self)
        if not delivery.takes(said, payload):
            return
        self.under_way = None
        assert self.answer is not None
        mode = self.answer.number("snd-settle-mode", 2)
        expect(mode != SENDER_SETTLED or delivery.is_settled, "2.8.2", "{} of a link that sends settled", said)
        expect(mode != SENDER_UNSETTLED or not delivery.is_settled, "2.8.2", "{} of a link that sends unsettled", said)
        if said.flag("aborted"):
            delivery.is_settled = True
            return
        limit = self.asked.number("max-message-size", 0)
        size = len(delivery.message)
        expect(limit <= 0 or size <= limit, "2.7.3", "a message of {} bytes, and {} are taken", size, limit)
        if delivery.message_format == MESSAGE_FORMAT and not said.flag("resume"):
            try:
                check_message(bytes(delivery.message))
            except Malformed as malformed:
                raise WireViolation(f"{malformed}, in {delivery.message[:200].hex()}") from None

    # --- the client ---

    def client_flows(self, said: Said) -> None:
        """2.6.7: the receiver sets its credit, the sender its delivery count."""
        self.owes_flow |= said.flag("echo")
        if self.gateway_sends:
            if said.has("link-credit"):
                seen = said.number("delivery-count") if said.has("delivery-count") else None
                self._granted = seen, said.number("link-credit")
            self._drains = said.flag("drain")
        elif serial_ahead(said.number("delivery-count", self._count), self._count) > 0:
            self._count = said.number("delivery-count")

    def client_transfers(self, said: Said, payload: bytes, last_id: int) -> Delivery | None:
        """Take a transfer of the client; return its delivery when that begins."""
        begins = self.coming is None
        if self.coming is None:
            self._count = serial_after(self._count)
            self.coming = Delivery(self, said, said.number("delivery-id", last_id))
        delivery = self.coming
        if delivery.takes(said, payload):
            self.coming = None
        return delivery if begins else None
