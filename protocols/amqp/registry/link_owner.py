"""A connection as other connections of its message VPN know it: whose links it has, and how to end one of them."""

from sluicegate.actors.runtime.runtime import Behaviour
from sluicegate.protocols.amqp.codec.delivery_states import AmqpError
from sluicegate.protocols.amqp.engine.link import IncomingLink, OutgoingLink
from sluicegate.protocols.amqp.engine.session import Session
from sluicegate.protocols.connection.identity import Identity

Link = IncomingLink | OutgoingLink


class LinkOwner(Behaviour):
    """The lowest part of a connection: who its client is."""

    def __init__(self, identity: Identity, number: int) -> None:
        self.container_id = ""  # of the client, from open on
        self.identity = identity
        self.number = number  # tells connections without a container id apart
        self.is_released = False  # the connection ends, and has released its links

    def end_link(self, session: Session, link: Link, error: AmqpError, *, closed: bool = True) -> None:
        """End a link by the broker's will. Its own queue and state are kept as if the client had only detached it."""
        raise AssertionError("the connection does that")
