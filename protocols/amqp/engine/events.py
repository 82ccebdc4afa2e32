"""Events of an AMQP peer, as the engine reports them: one class for each.

On the data path an event carries a batch: `DeliveriesReceived` the neighbouring deliveries of one link.
"""

from typing import TypeAlias, final

from sluicegate.protocols.amqp.codec.delivery_states import AmqpError
from sluicegate.protocols.amqp.codec.dispositions import Disposition
from sluicegate.protocols.amqp.codec.performatives import Open
from sluicegate.protocols.amqp.engine.link import IncomingLink, OutgoingLink
from sluicegate.protocols.amqp.engine.session import Session


@final
class SaslInitReceived:
    """The client chose a mechanism. Nothing more is read until it has an answer."""

    def __init__(self, mechanism: str, initial_response: bytes | None, hostname: str | None) -> None:
        self.mechanism = mechanism
        self.initial_response = initial_response
        self.hostname = hostname


@final
class SaslResponseReceived:
    """The client answered a challenge. Nothing more is read until that has an answer."""

    def __init__(self, response: bytes) -> None:
        self.response = response


@final
class OpenAnnounced:
    """The peer's open has come, and is not read yet: the owner asked for that."""

    def __init__(self, container_id: str) -> None:
        self.container_id = container_id


@final
class OpenReceived:
    """The peer opened the connection. Ours has to follow, or a close behind it."""

    def __init__(self, peer: Open) -> None:
        self.peer = peer


@final
class AttachReceived:
    """The peer attached a link; it waits for `attach` or `refuse`. Credit may come before that is done."""

    def __init__(self, session: Session, link: IncomingLink | OutgoingLink) -> None:
        self.session = session
        self.link = link


@final
class DeliveriesReceived:
    """Deliveries of one link, whole, in the order sent, alike in everything but id and payload."""

    def __init__(
        self,
        session: Session,
        link: IncomingLink,
        *,
        message_format: int,
        settled: bool,
        txn_id: bytes | None,
        resumed: bool,
    ) -> None:
        self.session = session
        self.link = link
        self.message_format = message_format
        self.settled = settled  # by the sender: no disposition is due
        self.txn_id = txn_id  # None: outside of transactions
        self.resumed = resumed  # they were sent before, on a link that is attached again
        self.delivery_ids: list[int] = []
        self.tags: list[bytes] = []  # of each, on links that keep them
        self.payloads: list[bytes] = []
        self.payload_bytes = 0


@final
class CreditReceived:
    """The peer changed the credit of a link on which we send, or wants it drained."""

    def __init__(self, session: Session, link: OutgoingLink) -> None:
        self.session = session
        self.link = link


@final
class CreditSpent:
    """The peer used up the broker's credit without a delivery: by one that it aborted, or by a flow."""

    def __init__(self, link: IncomingLink) -> None:
        self.link = link


@final
class WindowOpened:
    """Nothing waits for the peer's window any more in a session that was blocked: more may be sent."""

    def __init__(self, session: Session) -> None:
        self.session = session


@final
class DispositionReceived:
    """The peer sent a disposition; with the role of a receiver, of deliveries that the broker sent."""

    def __init__(self, session: Session, disposition: Disposition) -> None:
        self.session = session
        self.disposition = disposition


@final
class LinkDetached:
    """A link ended, by the peer's will or for its fault. `closed`: its terminus ends as well."""

    def __init__(
        self, session: Session, link: IncomingLink | OutgoingLink, *, closed: bool, error: AmqpError | None
    ) -> None:
        self.session = session
        self.link = link
        self.closed = closed
        self.error = error


@final
class SessionEnded:
    """A session ended, and with it, detached but not closed, every link of it."""

    def __init__(self, session: Session, error: AmqpError | None) -> None:
        self.session = session
        self.error = error


@final
class CloseReceived:
    """The peer closed the connection in good order; our close is written. The last event."""

    def __init__(self, error: AmqpError | None) -> None:
        self.error = error


@final
class PeerViolated:
    """The peer broke a rule that ends the connection; the close that says so is written. The last event."""

    def __init__(self, condition: str, text: str) -> None:
        self.condition = condition
        self.text = text


AmqpEvent: TypeAlias = (
    SaslInitReceived
    | SaslResponseReceived
    | OpenAnnounced
    | OpenReceived
    | AttachReceived
    | DeliveriesReceived
    | CreditReceived
    | CreditSpent
    | WindowOpened
    | DispositionReceived
    | LinkDetached
    | SessionEnded
    | CloseReceived
    | PeerViolated
)
