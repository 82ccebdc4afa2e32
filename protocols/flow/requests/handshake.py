"""Carry out HELLO and AUTH: negotiate limits and features, and authenticate the client."""

from sluicegate.messaging.clients.names import name_by_broker
from sluicegate.messaging.clients.rights import ClientDenied
from sluicegate.protocols.flow.codec.compression import DEFLATE
from sluicegate.protocols.flow.codec.frames.session import (
    AUTH_CHALLENGE,
    AUTH_DONE,
    AUTH_FAILED,
    Auth,
    AuthAnswer,
    Hello,
    Welcome,
)
from sluicegate.protocols.flow.codec.limits import KEEP_ALIVE_MS_MIN
from sluicegate.protocols.flow.peer import FlowPeer
from sluicegate.protocols.security.authentication import AuthenticationFailed, Challenge


def greet(peer: FlowPeer, hello: Hello) -> Welcome | None:
    """Return the response to HELLO: the client's values, brought into the limits. None: it is refused."""
    assert peer.sasl is not None, "the transport comes before its bytes"
    if hello.vpn:
        try:
            peer.sasl.enter(peer.vpns.named(hello.vpn, peer.services, hello.client_name))
        except ClientDenied as denied:
            peer.not_admitted(denied)
            return None
    limits = peer.services.limits
    wish_ms = hello.keep_alive_ms or limits.keep_alive_ms
    peer.named(hello.client_name or name_by_broker("flow", peer.services.space.broker, peer.runtime.next_urn()))
    return Welcome(
        product=peer.services.product,
        keep_alive_ms=min(max(wish_ms, KEEP_ALIVE_MS_MIN), limits.keep_alive_ms),
        frame_bytes_max=limits.frame_bytes_max,
        flows_max=limits.flows_max,
        features=(DEFLATE,) if limits.compresses and DEFLATE in hello.features else (),
        mechanisms=tuple(peer.sasl.offered()),
    )


async def authenticate(peer: FlowPeer, auth: Auth) -> AuthAnswer | None:
    """Return the response to AUTH, which begins an exchange if it names a mechanism. None: the connection ended."""
    assert peer.sasl is not None, "the transport comes before its bytes"
    try:
        if auth.mechanism:
            step = await peer.sasl.begin(auth.mechanism, auth.data)
        else:
            step = peer.sasl.step(auth.data)
    except ClientDenied as denied:
        peer.not_admitted(denied)
        return None
    except AuthenticationFailed as failure:
        peer.not_authenticated(str(failure))
        return AuthAnswer(AUTH_FAILED, None)
    if peer.is_released:
        return None  # its connection has ended meanwhile
    if isinstance(step, Challenge):
        return AuthAnswer(AUTH_CHALLENGE, step.data)
    try:
        peer.enter(peer.sasl.services)
        peer.authenticated(step.principal)
    except ClientDenied as denied:
        peer.not_admitted(denied)
        return None
    return AuthAnswer(AUTH_DONE, step.data or None)
