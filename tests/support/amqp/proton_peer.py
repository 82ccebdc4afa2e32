"""A client of the AMQP engine without a socket: Proton, as an independent reading of the standard."""

from collections.abc import Callable

from proton import Collector, Connection, Delivery, Link, Message, Receiver, Sender, Session, Transport

from sluicegate.protocols.amqp.codec.delivery_states import ACCEPTED_STATE
from sluicegate.protocols.amqp.codec.performatives import SASL_OK, Open
from sluicegate.protocols.amqp.engine.engine import AmqpEngine
from sluicegate.protocols.amqp.engine.events import (
    AmqpEvent,
    AttachReceived,
    CreditReceived,
    DeliveriesReceived,
    OpenReceived,
    SaslInitReceived,
)
from sluicegate.protocols.amqp.engine.link import IncomingLink, OutgoingLink
from sluicegate.protocols.amqp.limits import AmqpLimits

MOVES_MAX = 10_000


class Wire:
    """An engine and a proton client. `events` are what the engine said, in order; some are answered at once."""

    def __init__(self, *, limits: AmqpLimits | None = None, credit: int = 100, answers_deliveries: bool = True) -> None:
        self.engine = AmqpEngine(
            limits or AmqpLimits(), 0, container_id="broker", mechanisms=["ANONYMOUS"], allows_bare=True
        )
        self.events: list[AmqpEvent] = []
        self.outgoing: dict[str, CreditReceived | AttachReceived] = {}
        self.stored: list[bytes] = []
        self.to_client_bytes = 0
        self.largest_frame = 0
        self._credit = credit
        self._answers_deliveries = answers_deliveries
        self.connection = Connection()
        self.connection.container = "client"
        self.collector = Collector()
        self.connection.collect(self.collector)
        self.transport = Transport()

    def connect(self, *, max_frame_size: int = 0, hostname: str = "h") -> Session:
        """Open the connection and a session."""
        if max_frame_size:
            self.transport.max_frame_size = max_frame_size
        self.transport.sasl().allowed_mechs("ANONYMOUS")
        self.connection.hostname = hostname
        self.transport.bind(self.connection)
        self.connection.open()
        session = self.connection.session()
        session.open()
        self.run()
        return session

    def sender(self, session: Session, name: str, address: str = "q") -> Sender:
        link = session.sender(name)
        link.target.address = address
        link.open()
        self.run()
        return link

    def receiver(self, session: Session, name: str, address: str = "q", credit: int = 0) -> Receiver:
        link = session.receiver(name)
        link.source.address = address
        link.open()
        if credit:
            link.flow(credit)
        self.run()
        return link

    def send(self, link: Sender, message: Message, tag: bytes) -> Delivery:
        delivery = link.delivery(tag.decode())
        link.send(message.encode())
        link.advance()
        self.run()
        return delivery

    def deliver(self, name: str, payload: bytes) -> int:
        """Have the engine send a message on the client's receiver of that name; return its delivery id."""
        event = self.outgoing[name]
        link = event.link
        assert isinstance(link, OutgoingLink)
        delivery_id = self.engine.sessions.send(event.session, link, payload, 0)
        self.run()
        return delivery_id

    def run(self) -> None:
        """Carry bytes in both directions until neither side has anything to send."""
        for _ in range(MOVES_MAX):
            if not (self._to_engine() | self._to_client()):
                return
        raise AssertionError("the two never come to rest")

    def _to_engine(self) -> bool:
        waiting = self.transport.pending()
        if waiting <= 0:
            return False
        data = bytes(self.transport.peek(waiting) or b"")
        self.transport.pop(len(data))
        self._answer(self.engine.feed(data, 0))
        return True

    def _to_client(self) -> bool:
        data = b"".join(self.engine.take())
        self.to_client_bytes += len(data)
        start = 0
        while start < len(data):
            room = self.transport.capacity()
            if room < 0:
                return False
            assert room > 0, "proton takes what it is sent"
            self.transport.push(data[start : start + room])
            start += room
        return bool(data)

    def _answer(self, events: list[AmqpEvent]) -> None:
        for event in events:
            self.events.append(event)
            if isinstance(event, SaslInitReceived):
                self._answer(self.engine.sasl_outcome(SASL_OK, None, 0))
            elif isinstance(event, OpenReceived):
                self.engine.open(Open("broker"))
            elif isinstance(event, AttachReceived):
                self._attach(event)
            elif isinstance(event, CreditReceived):
                self.outgoing[event.link.name] = event
            elif isinstance(event, DeliveriesReceived):
                self._store(event)

    def _attach(self, event: AttachReceived) -> None:
        asked = event.link.attach
        sessions = self.engine.sessions
        sessions.attach(event.session, event.link, source=asked.source, target=asked.target, offered=[])
        if isinstance(event.link, IncomingLink):
            sessions.grant(event.session, event.link, self._credit)
        else:
            self.outgoing.setdefault(event.link.name, event)

    def _store(self, event: DeliveriesReceived) -> None:
        self.stored += event.payloads
        if self._answers_deliveries and not event.settled:
            first, last = event.delivery_ids[0], event.delivery_ids[-1]
            self.engine.sessions.settle(event.session, event.link, first, last, ACCEPTED_STATE)


def received_messages(link: Receiver, outcome: Callable[[Delivery], None]) -> list[Message]:
    """Take every message that has arrived on a link, and settle each with the result of `outcome`."""
    messages: list[Message] = []
    while link.current is not None and link.current.readable and not link.current.partial:
        delivery = link.current
        message = Message()
        message.decode(link.recv(delivery.pending) or b"")
        messages.append(message)
        link.advance()
        outcome(delivery)
    return messages


def body_of(message: Message) -> object:
    """Return a message's body; proton shows binary as a view."""
    body: object = message.body
    return bytes(body) if isinstance(body, memoryview) else body


def accept(delivery: Delivery) -> None:
    """Accept and settle."""
    delivery.update(Delivery.ACCEPTED)
    delivery.settle()


def remote_condition(link: Link | Connection | Session) -> str:
    """Return the condition of the error with which the engine ended something, or nothing."""
    condition = link.remote_condition
    return "" if condition is None else str(condition.name)
