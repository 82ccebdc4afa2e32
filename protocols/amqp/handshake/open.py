"""The answer to a client's open: the broker's identity and capabilities, or why the container is refused.

A client that wants to be its container's only connection, and is not, gets an open that announces a close, and then the
close: the pair that clients wait for (2.4.1).
"""

from typing import Final

from sluicegate.messaging.clients.rights import VPN_UNKNOWN, ClientDenied
from sluicegate.protocols.amqp.client import CAPABILITIES, SOLE_CONNECTION, AmqpClient
from sluicegate.protocols.amqp.codec.delivery_states import AmqpError
from sluicegate.protocols.amqp.codec.performatives import Open
from sluicegate.protocols.amqp.registry import moving_text
from sluicegate.protocols.amqp.types.errors import CONNECTION_FORCED, INVALID_FIELD, NOT_ALLOWED, condition_of
from sluicegate.protocols.amqp.types.values import AmqpMap, AmqpValue, Symbol

# The message VPN that a client names in the `hostname` of its sasl-init or open (2.7.1, 5.3.3.2).
#
# Client libraries put the host there that they connected to, mostly without their user's doing. So only a name that is
# clearly no host names a VPN: `vpn:sales`, or `vhost:sales` as clients of RabbitMQ have it.


PREFIXES: Final = ("vpn:", "vhost:")


def vpn_of_hostname(hostname: str | None) -> str | None:
    """Return the VPN that a hostname names, if it names one."""
    if hostname is not None:
        for prefix in PREFIXES:
            if hostname.startswith(prefix):
                return hostname[len(prefix) :]
    return None


ESTABLISHMENT_FAILED: Final = "amqp:connection-establishment-failed"


def answer_open(client: AmqpClient, peer: Open) -> AmqpError | None:
    """Answer the peer's open; return the error that the connection is to be closed with, if it may not go on."""
    denied = _vpn_denial(client, peer)
    services, user = client.services, client.identity.user
    containers = services.registry.containers
    is_taken = SOLE_CONNECTION in peer.desired and containers.is_connected(peer.container_id, user)
    containers.opened(client)
    if denied is None and not is_taken:
        denied = _denial(client, peer)
    if denied is None and peer.container_id in containers.moving:
        denied = AmqpError(CONNECTION_FORCED, moving_text(peer.container_id))
    about: list[tuple[AmqpValue, AmqpValue]] = [
        (Symbol("product"), "sluicegate"),
        (Symbol("version"), services.version),
    ]
    if is_taken or denied is not None:
        about.append((Symbol(ESTABLISHMENT_FAILED), True))
    client.engine.open(Open(services.container_id, offered=CAPABILITIES, properties=AmqpMap(about)))
    if denied is not None or not is_taken:
        return denied
    field = AmqpMap([(Symbol("invalid-field"), Symbol("container-id"))])
    return AmqpError(INVALID_FIELD, f"container {peer.container_id!r} is connected already", field)


def _vpn_denial(client: AmqpClient, peer: Open) -> AmqpError | None:
    """Bring the client into the message VPN that its open names; return the error if that is refused.

    Whoever has shown who it is stays in the VPN to which it has.
    """
    vpn, identity = vpn_of_hostname(peer.hostname), client.identity
    if vpn is None or vpn == identity.vpn:
        return None
    assert client.peer is not None, "the transport comes before its bytes"
    try:
        services = client.vpns.named(vpn, client.services, client.client_name)
    except ClientDenied as denied:
        client.count_refused(denied.reason)
        return AmqpError(condition_of(denied), denied.text)
    if identity.user or not services.authenticator.admits_anonymous(client.peer.listener):
        text = f"403 Message VPN Not Allowed: the client authenticated in {identity.vpn!r}, and opens {vpn!r}"
        services.clients.denials.deny(VPN_UNKNOWN, client.client_name, text)
        client.count_refused(VPN_UNKNOWN)
        return AmqpError(NOT_ALLOWED, text)
    client.enter(services)
    return None


def _denial(client: AmqpClient, peer: Open) -> AmqpError | None:
    """Admit the client, or return the error that refuses it."""
    assert client.peer is not None, "the transport comes before its bytes"
    try:
        rights = client.identity.admit(client.client_name, client.peer.host, client.runtime.clock.now_ms())
        client.read_control.limit(rights)
    except ClientDenied as denied:
        client.count_refused(denied.reason)
        return AmqpError(condition_of(denied), denied.text)
    return None
