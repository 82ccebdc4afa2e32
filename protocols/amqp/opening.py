"""What a client hears when it opens its connection: who we are and what we can do, or that its container may not come.

Capabilities are those that Qpid JMS looks for. A client that desires to be its container's only connection, and is not,
gets an open that says that a close follows, and then the close: the pair that clients wait for (2.4.1).
"""

from typing import TYPE_CHECKING, Final

from protocols.amqp.conditions import INVALID_FIELD
from protocols.amqp.outcomes import AmqpError
from protocols.amqp.performatives import Open
from protocols.amqp.values import AmqpMap, AmqpValue, Symbol

if TYPE_CHECKING:
    from protocols.amqp.connection import AmqpConnection

SOLE_CONNECTION: Final = "sole-connection-for-container"
CAPABILITIES: Final = ["ANONYMOUS-RELAY", "DELAYED_DELIVERY", "SHARED-SUBS", SOLE_CONNECTION]
ESTABLISHMENT_FAILED: Final = "amqp:connection-establishment-failed"


def answer_open(connection: "AmqpConnection", peer: Open) -> AmqpError | None:
    """Answer the peer's open; return the error that the connection is to be closed with, if it may not go on."""
    services = connection.services
    containers = services.registry.containers
    is_taken = SOLE_CONNECTION in peer.desired and containers.is_connected(peer.container_id)
    containers.opened(connection)
    about: list[tuple[AmqpValue, AmqpValue]] = [
        (Symbol("product"), "sluicegate"),
        (Symbol("version"), services.version),
    ]
    if is_taken:
        about.append((Symbol(ESTABLISHMENT_FAILED), True))
    connection.engine.open(Open(services.container_id, offered=CAPABILITIES, properties=AmqpMap(about)))
    if not is_taken:
        return None
    field = AmqpMap([(Symbol("invalid-field"), Symbol("container-id"))])
    return AmqpError(INVALID_FIELD, f"container {peer.container_id!r} is connected already", field)
