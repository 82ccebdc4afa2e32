"""The links of the AMQP remote: senders with the foreign broker's credit, and receivers with a window of ours.

What is done for every message calls Proton's C library by its own names (`cproton`, part of the package). Proton's
classes take 40 us to send a message and to hear of its outcome, these calls 11 us: measured with 100 bytes and 1,000
messages in flight between two engines of Proton, without a network.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any, Final, final

from cproton import (
    PN_ACCEPTED,
    isnull,
    pn_delivery,
    pn_delivery_aborted,
    pn_delivery_partial,
    pn_delivery_pending,
    pn_delivery_settle,
    pn_delivery_settled,
    pn_delivery_update,
    pn_link_advance,
    pn_link_credit,
    pn_link_current,
    pn_link_flow,
    pn_link_recv,
    pn_link_send,
    pn_session_outgoing_bytes,
)
from proton import Condition, Delivery, Link, Terminus, symbol

from sluicegate.messaging.message.outcomes import ACCEPTED, FAILED, REJECTED
from sluicegate.protocols.amqp.types.errors import DecodeError, LocalMisuse
from sluicegate.protocols.bridges.remote import Arrival, Line, Outgoing, RemoteFailed, Settlement
from sluicegate.protocols.bridges.remotes.amqp_messages import MessageWriter, address_of, read
from sluicegate.protocols.bridges.settings import IncomingRule

QUEUE: Final = "queue"  # capabilities of a terminus, by which most brokers know what to create
TOPIC: Final = "topic"

OUTPUT_BYTES_MAX: Final = 1 << 20  # in Proton: more is not sent before the socket, or the session, has taken some
MESSAGE_BYTES_MAX: Final = 1 << 30  # of one that arrives: the largest that a listener of ours can be set to take
_CREDIT_SHARE: Final = 4  # credit is given again when a fourth of the window is free
_REASON_CHARS_MAX: Final = 256
_MODIFIED: Final = "amqp:modified:list"
_REFUSED_CONDITION: Final = "amqp:precondition-failed"


@final
class SendingLink:
    """A sender: to the queue or topic of a rule, to the address of some topic, or to whatever a message says."""

    def __init__(
        self, session: Any, name: str, *, address: str, kind: str, rule: int = -1, is_durable: bool = False
    ) -> None:
        """Attach. `address`: empty for the anonymous terminus. `rule`: index of the rule with this target, or -1."""
        self.address = address
        self.rule = rule
        self.is_open = False
        self.shortfalls: list[str] = []  # what the foreign broker gives it less than it asks for
        self.unsettled: set[int] = set()  # numbers of messages without an outcome
        self.waiting: deque[Outgoing] = deque()
        self.used = 0  # the turn in which it was used last
        link = session.sender(name)
        link.snd_settle_mode = Link.SND_MIXED
        link.source.address = name
        if address:
            link.target.address = address
        if kind:
            link.target.capabilities.put_object(symbol(kind))
        if is_durable:  # RabbitMQ 3 creates a queue that is durable only then
            link.target.durability = Terminus.DELIVERIES
        link.open()
        self.link: Any = link
        self._impl: Any = link._impl
        self._session: Any = session._impl
        self._message_bytes_max = 0  # 0: not said

    def opened(self) -> None:
        """The foreign broker has attached."""
        self.is_open = True
        self._message_bytes_max = self.link.remote_max_message_size
        if self.rule >= 0:
            self.shortfalls = [*_shortfalls(self.link, self.link.target, self.link.remote_target)]

    def send(self, line: Line, writer: MessageWriter, unwritten: list[int]) -> None:
        """Send what waits, as far as credit and buffers go. Numbers of QoS 0 are added to `unwritten`."""
        link, waiting = self._impl, self.waiting
        credit = pn_link_credit(link)
        while waiting and credit > 0 and pn_session_outgoing_bytes(self._session) < OUTPUT_BYTES_MAX:
            message = waiting.popleft()
            number = message.number
            try:
                data = writer.write(message, self.address or address_of(message.topic))
            except (LocalMisuse, DecodeError, UnicodeError) as error:
                line.refused(number, REJECTED, f"AMQP cannot carry it: {error}")
                continue
            if 0 < self._message_bytes_max < len(data):
                text = f"{len(data)} bytes; the foreign broker takes messages of at most {self._message_bytes_max}"
                line.refused(number, REJECTED, text)
                continue
            delivery = pn_delivery(link, str(number))
            pn_link_send(link, data)
            pn_link_advance(link)
            credit -= 1
            if message.qos:
                self.unsettled.add(number)
            else:
                pn_delivery_settle(delivery)
                unwritten.append(number)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits for it, or for an outcome."""
        return not self.waiting and not self.unsettled


@final
class ReceivingLink:
    """A receiver: the source of one incoming rule.

    Invariant: credit, messages that are not settled here, and `_free` add up to `_window`.
    """

    def __init__(
        self, session: Any, name: str, *, rule: IncomingRule, index: int, window: int, session_expiry_s: int
    ) -> None:
        """Attach. `window`: messages that may be under way. `session_expiry_s`: for subscriptions to topics."""
        self.rule = rule
        self.index = index
        self.is_open = False
        self.shortfalls: list[str] = []  # what the foreign broker gives it less than it asks for
        self._window = window
        self._free = window
        self._parts = bytearray()  # of the message that is coming in
        self._knows_modified = True
        link = session.receiver(name)
        link.snd_settle_mode = Link.SND_UNSETTLED if rule.qos else Link.SND_SETTLED
        link.rcv_settle_mode = Link.RCV_FIRST
        link.max_message_size = MESSAGE_BYTES_MAX
        source = link.source
        source.address = rule.source
        source.capabilities.put_object(symbol(QUEUE if rule.is_queue else TOPIC))
        if rule.qos and rule.is_queue:
            source.durability = Terminus.DELIVERIES
        elif rule.qos and session_expiry_s:
            source.durability = Terminus.DELIVERIES
            source.expiry_policy = Terminus.EXPIRE_NEVER
            source.timeout = session_expiry_s
        link.target.address = name
        link.open()
        self.link: Any = link
        self._impl: Any = link._impl

    def opened(self) -> None:
        """The foreign broker has attached."""
        self.is_open = True
        self.shortfalls = [*_shortfalls(self.link, self.link.source, self.link.remote_source)]
        # RabbitMQ 3 lists the outcomes that it knows, and ends the session that has another.
        known = symbols_of(self.link.remote_source.outcomes)
        self._knows_modified = not known or _MODIFIED in known
        self._grant()

    def receive(self, line: Line, waiting: dict[int, "tuple[ReceivingLink, Any]"], number: int) -> int:
        """Take complete messages while the line has room; return the number of the last. Raises RemoteFailed.

        Those that wait for a settlement are added to `waiting`, with Proton's delivery unless it is settled.
        """
        link = self._impl
        while line.has_room():
            delivery = pn_link_current(link)
            if isnull(delivery):
                break
            size = pn_delivery_pending(delivery)
            data = bytes(pn_link_recv(link, size)[1] or b"") if size else b""
            if pn_delivery_aborted(delivery):
                self._parts.clear()
                pn_link_advance(link)
                pn_delivery_settle(delivery)
                self._free += 1
                continue
            if pn_delivery_partial(delivery) or self._parts:
                self._parts += data
                if len(self._parts) > MESSAGE_BYTES_MAX:
                    raise RemoteFailed(f"{self}: a message of more than {MESSAGE_BYTES_MAX} bytes")
                if pn_delivery_partial(delivery):
                    break
                data = bytes(self._parts)
                self._parts.clear()
            pn_link_advance(link)
            number += 1
            qos = self.rule.qos
            if qos == 0 or pn_delivery_settled(delivery):
                qos = 0
                pn_delivery_settle(delivery)
                delivery = None
            waiting[number] = (self, delivery)
            line.arrived(self._arrival(number, data, qos))
        return number

    def _arrival(self, number: int, data: bytes, qos: int) -> Arrival:
        payload, headers, topic, fault = b"", None, self.rule.source, ""
        try:
            payload, headers, topic = read(data, self.rule.source)
        except DecodeError as error:
            fault = str(error)
        return Arrival(
            number=number, rule=self.index, topic=topic, payload=payload, headers=headers, qos=qos, fault=fault
        )

    def settle(self, delivery: Any, settlement: Settlement) -> None:
        """Give a message its outcome. `delivery`: None when it was settled by the foreign broker."""
        if delivery is not None:
            if settlement.outcome == ACCEPTED:
                pn_delivery_update(delivery, PN_ACCEPTED)
                pn_delivery_settle(delivery)
            else:
                _give_back(wrapped(delivery), settlement, knows_modified=self._knows_modified)
        self._free += 1

    def grant(self) -> None:
        """Give the foreign broker credit for what has become free, when that is worth a frame."""
        if self.is_open and self._free * _CREDIT_SHARE >= self._window:
            self._grant()

    def _grant(self) -> None:
        if self._free:
            pn_link_flow(self._impl, self._free)
            self._free = 0

    def __str__(self) -> str:
        return f"rule {self.rule.name!r}"


def _shortfalls(link: Any, asked: Any, granted: Any) -> Iterator[str]:
    """Yield what the foreign broker's attach gives less than ours asks for. `asked`, `granted`: the terminus there."""
    if link.remote_snd_settle_mode == Link.SND_SETTLED != link.snd_settle_mode:
        yield "the foreign broker settles messages before they are stored: at most once"
    if granted.durability < asked.durability:
        yield f"the foreign broker keeps no messages of {asked.address!r} over a restart or while the bridge is away"
    known = symbols_of(granted.capabilities)
    for each in symbols_of(asked.capabilities):
        if known and each not in known:  # many brokers list none
            yield f"{asked.address!r} is no {each} at the foreign broker: its capabilities are {', '.join(known)}"


def wrapped(delivery: Any) -> Any:
    """Return Proton's object of a delivery of its C library."""
    return Delivery.wrap(delivery)  # type: ignore[no-untyped-call]  # Proton has no annotation there


def symbols_of(data: Any) -> list[str]:
    """Return the symbols of one of Proton's data objects: an array of them, or a single one."""
    data.rewind()
    found = data.get_object() if data.next() is not None else None
    if found is None:
        return []
    return [str(each) for each in getattr(found, "elements", [found])]


def _give_back(delivery: Any, settlement: Settlement, *, knows_modified: bool) -> None:
    state = Delivery.RELEASED
    if settlement.outcome == REJECTED:
        state = Delivery.REJECTED
        delivery.local.condition = Condition(_REFUSED_CONDITION, settlement.reason[:_REASON_CHARS_MAX] or None)
    elif settlement.outcome == FAILED and knows_modified:
        state = Delivery.MODIFIED
        delivery.local.failed = True
    delivery.update(state)
    delivery.settle()
