"""An owner of an AMQP engine that accepts everything, for tests that write the client's frames themselves."""

from sluicegate.protocols.amqp.codec.delivery_states import ACCEPTED_STATE, RECEIVED
from sluicegate.protocols.amqp.codec.performatives import SASL_OK, Open
from sluicegate.protocols.amqp.engine.engine import CLOSED, AmqpEngine
from sluicegate.protocols.amqp.engine.events import (
    AmqpEvent,
    AttachReceived,
    CreditReceived,
    DeliveriesReceived,
    DispositionReceived,
    OpenReceived,
    SaslInitReceived,
    SaslResponseReceived,
)
from sluicegate.protocols.amqp.engine.link import ATTACHED, IncomingLink
from sluicegate.protocols.amqp.limits import AmqpLimits

CREDIT = 100
PAYLOAD = bytes.fromhex("005377a1026869")


class EngineOwner:
    """Lets everybody in, grants every link, accepts every delivery, and sends one wherever it gets credit."""

    def __init__(self, *, limits: AmqpLimits | None = None, mechanisms: tuple[str, ...] = ("ANONYMOUS",)) -> None:
        self.engine = AmqpEngine(
            limits or AmqpLimits(), 0, container_id="broker", mechanisms=list(mechanisms), allows_bare=True
        )
        self.events: list[AmqpEvent] = []  # in wire order
        self.sent = b""  # to the client

    def hears(self, *pieces: bytes) -> None:
        """Feed what a client sends, and answer it."""
        for piece in pieces:
            self.handles(self.engine.feed(piece, 0))

    def handles(self, events: list[AmqpEvent]) -> None:
        """Handle events, and send what the engine writes."""
        self._answer(events)
        self.sent += b"".join(self.engine.take())

    @property
    def is_closed(self) -> bool:
        return self.engine.state == CLOSED

    def of(self, kind: type[AmqpEvent]) -> list[AmqpEvent]:
        """Return the events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def _answer(self, events: list[AmqpEvent]) -> None:
        sessions = self.engine.sessions
        for event in events:
            self.events.append(event)
            if isinstance(event, SaslInitReceived | SaslResponseReceived):
                self._answer(self.engine.sasl_outcome(SASL_OK, None, 0))
            elif isinstance(event, OpenReceived):
                self.engine.open(Open("broker"))
            elif isinstance(event, AttachReceived):
                asked = event.link.attach
                sessions.attach(event.session, event.link, source=asked.source, target=asked.target, offered=[])
                if isinstance(event.link, IncomingLink):
                    sessions.grant(event.session, event.link, CREDIT)
            elif isinstance(event, CreditReceived):
                if event.link.state == ATTACHED and event.link.credit > 0:
                    sessions.send(event.session, event.link, PAYLOAD, 0)
                    if event.link.drain:
                        sessions.drained(event.session, event.link)
            elif isinstance(event, DeliveriesReceived):
                if not event.settled:
                    first, last = event.delivery_ids[0], event.delivery_ids[-1]
                    sessions.settle(event.session, event.link, first, last, ACCEPTED_STATE)
            elif isinstance(event, DispositionReceived) and not event.disposition.settled:
                said = event.disposition
                if said.state is None or said.state.code == RECEIVED:
                    continue  # progress wants no answer
                for link in event.session.outgoing.values():
                    sessions.settle(event.session, link, said.first, said.last, said.state)
