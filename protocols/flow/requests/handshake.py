"""The first words of a client: what is in force for it, and who it is."""

from typing import TYPE_CHECKING

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
from sluicegate.protocols.security.authentication import AuthenticationFailed, Challenge

if TYPE_CHECKING:
    from sluicegate.protocols.flow.connection import FlowConnection


def greet(connection: "FlowConnection", hello: Hello) -> None:
    """Answer HELLO: the client's wishes, brought into the limits."""
    assert connection.sasl is not None, "the transport comes before its bytes"
    if hello.vpn:
        try:
            connection.sasl.enter(connection.vpns.named(hello.vpn, connection.services, hello.client_name))
        except ClientDenied as denied:
            connection.not_admitted(denied)
            return
    limits = connection.services.limits
    wish_ms = hello.keep_alive_ms or limits.keep_alive_ms
    welcome = Welcome(
        product=connection.services.product,
        keep_alive_ms=min(max(wish_ms, KEEP_ALIVE_MS_MIN), limits.keep_alive_ms),
        frame_bytes_max=limits.frame_bytes_max,
        flows_max=limits.flows_max,
        features=(DEFLATE,) if limits.compresses and DEFLATE in hello.features else (),
        mechanisms=tuple(connection.sasl.offered()),
    )
    connection.greeted(hello.client_name or f"#flow/{connection.runtime.next_urn()}", welcome)


async def authenticate(connection: "FlowConnection", said: Auth) -> None:
    """Answer AUTH: with a mechanism it begins an exchange, else it goes on with one."""
    assert connection.sasl is not None, "the transport comes before its bytes"
    try:
        if said.mechanism:
            step = await connection.sasl.begin(said.mechanism, said.data)
        else:
            step = connection.sasl.step(said.data)
    except ClientDenied as denied:
        connection.not_admitted(denied)
        return
    except AuthenticationFailed as failure:
        connection.not_authenticated(str(failure))
        connection.auth_answer(AuthAnswer(AUTH_FAILED, None))
        return
    if connection.is_released():
        return  # its connection has ended meanwhile
    if isinstance(step, Challenge):
        connection.auth_answer(AuthAnswer(AUTH_CHALLENGE, step.data))
        return
    try:
        connection.enter(connection.sasl.services)
        connection.authenticated(step.principal)
    except ClientDenied as denied:
        connection.not_admitted(denied)
        return
    connection.auth_answer(AuthAnswer(AUTH_DONE, step.data or None))
