"""What a client hears when it opens its connection: who we are and what we can do, or that its container may not come.

Capabilities are those that Qpid JMS looks for. A client that desires to be its container's only connection, and is not,
gets an open that says that a close follows, and then the close: the pair that clients wait for (2.4.1).
"""

from typing import TYPE_CHECKING, Final

from sluicegate.messaging.clients.rights import VPN_UNKNOWN, ClientDenied
from sluicegate.protocols.amqp.codec.delivery_states import AmqpError
from sluicegate.protocols.amqp.codec.performatives import Open
from sluicegate.protocols.amqp.types.errors import INVALID_FIELD, NOT_ALLOWED, condition_of
from sluicegate.protocols.amqp.types.values import AmqpMap, AmqpValue, Symbol

if TYPE_CHECKING:
    from sluicegate.protocols.amqp.connection import AmqpConnection


# The message VPN that a client means by the `hostname` of its sasl-init or open (2.7.1, 5.3.3.2).
#
# A client puts there what it has connected to, most of the time without its user's doing. So only a hostname that says
# that it is no host names a VPN: `vpn:sales`, or `vhost:sales` as clients of RabbitMQ have it.


PREFIXES: Final = ("vpn:", "vhost:")


def vpn_of_hostname(hostname: str | None) -> str | None:
    """Return the VPN that a hostname names, if it names one."""
    if hostname is not None:
        for prefix in PREFIXES:
            if hostname.startswith(prefix):
                return hostname[len(prefix) :]
    return None


SOLE_CONNECTION: Final = "sole-connection-for-container"
CAPABILITIES: Final = ["ANONYMOUS-RELAY", "DELAYED_DELIVERY", "SHARED-SUBS", SOLE_CONNECTION]
ESTABLISHMENT_FAILED: Final = "amqp:connection-establishment-failed"


def answer_open(connection: "AmqpConnection", peer: Open) -> AmqpError | None:
    """Answer the peer's open; return the error that the connection is to be closed with, if it may not go on."""
    denied = _vpn_denial(connection, peer)
    services, user = connection.services, connection.identity.user
    containers = services.registry.containers
    is_taken = SOLE_CONNECTION in peer.desired and containers.is_connected(peer.container_id, user)
    containers.opened(connection)
    if denied is None and not is_taken:
        denied = _denial(connection, peer)
    about: list[tuple[AmqpValue, AmqpValue]] = [
        (Symbol("product"), "sluicegate"),
        (Symbol("version"), services.version),
    ]
    if is_taken or denied is not None:
        about.append((Symbol(ESTABLISHMENT_FAILED), True))
    connection.engine.open(Open(services.container_id, offered=CAPABILITIES, properties=AmqpMap(about)))
    if denied is not None or not is_taken:
        return denied
    field = AmqpMap([(Symbol("invalid-field"), Symbol("container-id"))])
    return AmqpError(INVALID_FIELD, f"container {peer.container_id!r} is connected already", field)


def _vpn_denial(connection: "AmqpConnection", peer: Open) -> AmqpError | None:
    """Bring the client into the message VPN that its open names; return why it may not go there, if so.

    Whoever has shown who it is stays in the VPN to which it has.
    """
    vpn, identity = vpn_of_hostname(peer.hostname), connection.identity
    if vpn is None or vpn == identity.vpn:
        return None
    assert connection.peer is not None, "the transport comes before its bytes"
    try:
        services = connection.vpns.named(vpn, connection.services, peer.container_id)
    except ClientDenied as denied:
        connection.count_refused(denied.reason)
        return AmqpError(condition_of(denied), denied.text)
    if identity.user or not services.authenticator.admits_anonymous(connection.peer.listener):
        text = f"403 Message VPN Not Allowed: the client has signed in to {identity.vpn!r}, and opens {vpn!r}"
        services.clients.denials.deny(VPN_UNKNOWN, peer.container_id, text)
        connection.count_refused(VPN_UNKNOWN)
        return AmqpError(NOT_ALLOWED, text)
    connection.enter(services)
    return None


def _denial(connection: "AmqpConnection", peer: Open) -> AmqpError | None:
    """Give the client its place among those that are connected, or return why it has none."""
    assert connection.peer is not None, "the transport comes before its bytes"
    try:
        connection.read_control.limit(connection.identity.admit(peer.container_id, connection.peer.host))
    except ClientDenied as denied:
        connection.count_refused(denied.reason)
        return AmqpError(condition_of(denied), denied.text)
    return None
