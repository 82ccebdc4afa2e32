"""Carrying out CONNECT: who is it, whose session, and everything that goes on where it was left (section 3.1.4)."""

from typing import TYPE_CHECKING, Final

from actors.publishing import Publisher
from messaging.credit import CreditWindow
from messaging.events import CLIENT_CONNECTED, CLIENT_DISCONNECTED, CLIENT_FLOW_CLOSED, CLIENT_FLOW_OPENED
from protocols.authentication import ANONYMOUS, Principal, Proven
from protocols.mqtt.attached import AttachedSession
from protocols.mqtt.binding import resume_flows
from protocols.mqtt.delivering import DeliveringSide
from protocols.mqtt.events import ConnectReceived
from protocols.mqtt.messages import ClaimSession, SessionClaimed
from protocols.mqtt.publishing import RESERVED_PREFIXES, PublishingSide
from protocols.mqtt.reason_codes import (
    BAD_USER_NAME_OR_PASSWORD,
    CLIENT_IDENTIFIER_NOT_VALID,
    NOT_AUTHORIZED,
    TOPIC_NAME_INVALID,
)
from protocols.mqtt.session import Session
from protocols.mqtt.session_writes import SessionWrites

if TYPE_CHECKING:
    from protocols.mqtt.connection import MqttConnection

ASSIGNED_PREFIX: Final = "auto-"
LEVEL_NAMES: Final = {3: "3.1", 4: "3.1.1", 5: "5.0"}


async def connect(connection: "MqttConnection", event: ConnectReceived, proven: Proven | None = None) -> None:
    """Answer CONNECT, and with a success bring the session to this connection.

    `proven` is the outcome of an enhanced authentication: then name and password are not looked at.
    """
    refusal = await _refusal(connection, event, proven)
    if refusal is not None:
        code, text = refusal
        connection.engine.refuse(code, text)
        connection.refuse(text)
        return
    services = connection.services
    client_id = event.client_id or f"{ASSIGNED_PREFIX}{connection.runtime.rng.getrandbits(64):016x}"
    expiry_s = min(event.session_expiry_s, services.session_expiry_s_max)
    claim = ClaimSession(client_id, event.clean_start, expiry_s, connection.cell)
    claimed: SessionClaimed = await connection.directory.ask(claim)
    if not connection.is_open():
        # The client left while its session was being fetched. It goes back at once, with the will it came with.
        connection.give_back(claimed.session, event.will)
        return
    _accept(connection, event, claimed, client_id, expiry_s, proven)
    session = claimed.session
    attached = connection.attached = _attach(connection, event, session)
    _tell_connected(connection, event, session, claimed.present)
    if session.is_durable:
        await attached.writes.store_session(attached.will)
    await resume_flows(connection, session)


async def _refusal(
    connection: "MqttConnection", event: ConnectReceived, proven: Proven | None
) -> tuple[int, str] | None:
    """Return reason code and text when the client may not come in."""
    if not event.client_id and not connection.services.allows_no_client_id:
        return CLIENT_IDENTIFIER_NOT_VALID, "a client identifier is wanted here"
    if not event.client_id and event.level < 5 and (event.level == 3 or not event.clean_start):
        return CLIENT_IDENTIFIER_NOT_VALID, "a client that keeps its session needs a client identifier [311:3.1.3-8]"
    principal = await _principal(connection, event) if proven is None else proven.principal
    if principal is None:
        if event.user_name is None:
            return NOT_AUTHORIZED, "this listener wants a user name"
        return BAD_USER_NAME_OR_PASSWORD, "user name or password is wrong"
    connection.authenticated(principal)
    if event.will is not None and event.will.topic.startswith(RESERVED_PREFIXES):
        return TOPIC_NAME_INVALID, f"will topic {event.will.topic!r} belongs to the server"
    return None


async def _principal(connection: "MqttConnection", event: ConnectReceived) -> Principal | None:
    authenticator = connection.services.authenticator
    peer = connection.peer
    assert peer is not None
    if event.user_name is not None:
        known = await authenticator.password(event.user_name, event.password or b"")
        if known is not None or not authenticator.admits_anonymous(peer.listener):
            return known
        # Where nobody needs an account, a name that no account has is as good as none.
        return None if authenticator.knows(event.user_name) else ANONYMOUS
    if peer.certificate_name:
        return authenticator.certificate(peer.certificate_name)
    return ANONYMOUS if authenticator.admits_anonymous(peer.listener) else None


def _accept(
    connection: "MqttConnection",
    event: ConnectReceived,
    claimed: SessionClaimed,
    client_id: str,
    expiry_s: int,
    proven: Proven | None,
) -> None:
    services = connection.services
    keep_alive = services.keep_alive_s_max
    overrides = keep_alive > 0 and (event.keep_alive_s == 0 or event.keep_alive_s > keep_alive)
    connection.engine.accept(
        claimed.present,
        assigned_client_id=client_id if not event.client_id else None,
        server_keep_alive_s=keep_alive if overrides and event.level == 5 else -1,
        session_expiry_s=expiry_s if expiry_s != event.session_expiry_s else -1,
        authentication_method=event.authentication_method,
        authentication_data=None if proven is None else proven.data,
    )
    connection.ask_flush()


def _attach(connection: "MqttConnection", event: ConnectReceived, session: Session) -> AttachedSession:
    services = connection.services
    counters = services.counters
    limit = event.receive_maximum if event.level == 5 else services.window_v3
    watch = connection.watch_writing()
    writes = SessionWrites(connection.cell, services, session)
    publisher = Publisher(
        space=services.space, spool=services.spool, address=connection.cell.inbox, rng=connection.runtime.rng
    )
    publishing = PublishingSide(
        engine=connection.engine,
        level=event.level,
        session=session,
        publisher=publisher,
        before_answer=writes.before_exactly_once,
        forget_received=writes.forget_received,
        explains=event.request_problem_information,
        opens_flow=lambda: connection.runtime.events.emit(
            CLIENT_FLOW_OPENED, "publisher flow opened", client=session.client_id
        ),
    )
    delivering = DeliveringSide(
        engine=connection.engine,
        level=event.level,
        session=session,
        window=CreditWindow(limit, services.credit),
        before_exactly_once=writes.before_exactly_once,
        wall_ms=connection.runtime.clock.wall_ms,
        too_large=lambda count: counters.count(counters.dropped, "packet_too_large", count),
        later=connection.go_on_later,
    )
    delivering.resend_releases()
    wall_ms = connection.runtime.clock.wall_ms()
    delivering.retained.resend(wall_ms)
    delivering.retained.go_on(wall_ms)
    services.space.prioritise(session.subscriber, services.profiles.of(connection.user).dto_local_priority)
    session.subscriber.address = connection.cell.inbox
    session.subscriber.pressure = watch.pressure
    return AttachedSession(
        session, event.will, publishing=publishing, delivering=delivering, writes=writes, watch=watch
    )


def _tell_connected(connection: "MqttConnection", event: ConnectReceived, session: Session, resumed: bool) -> None:
    level = LEVEL_NAMES[event.level]
    what = "resumed" if resumed else "new"
    text = f"MQTT {level} client connected from {connection.peer_name()}, {what} session"
    connection.runtime.events.emit(CLIENT_CONNECTED, text, client=session.client_id)


def tell_disconnected(connection: "MqttConnection", attached: AttachedSession) -> None:
    """Tell operators that a client's session has left its connection."""
    events, client = connection.runtime.events, attached.session.client_id
    if attached.publishing.has_flow:
        events.emit(CLIENT_FLOW_CLOSED, "publisher flow closed", client=client)
    events.emit(CLIENT_DISCONNECTED, f"MQTT client at {connection.peer_name()} disconnected", client=client)
