"""Carrying out CONNECT: who is it, whose session, and everything that goes on where it was left (section 3.1.4)."""

import logging
from typing import TYPE_CHECKING, Final

from sluicegate.actors.spool.stored_answer import StoreRefused
from sluicegate.messaging.clients.rights import NOT_AUTHENTICATED, ClientDenied
from sluicegate.messaging.observability.events import CLIENT_CONNECTED, CLIENT_DISCONNECTED, CLIENT_FLOW_CLOSED
from sluicegate.messaging.topics.syntax import EVENT_TOPICS
from sluicegate.protocols.mqtt.client import AttachedSession, begin_delivering, reach, writes_of
from sluicegate.protocols.mqtt.codec.events import ConnectReceived, Will
from sluicegate.protocols.mqtt.codec.reason_codes import (
    BAD_USER_NAME_OR_PASSWORD,
    CLIENT_IDENTIFIER_NOT_VALID,
    DENIAL_CODES,
    NOT_AUTHORIZED,
    TOPIC_NAME_INVALID,
    name_of,
)
from sluicegate.protocols.mqtt.datapath.publishing import DROPPED
from sluicegate.protocols.mqtt.requests.flows import resume_flows
from sluicegate.protocols.mqtt.requests.subscribe import denied_subscriptions, revoke
from sluicegate.protocols.mqtt.requests.turn_budget import share_of
from sluicegate.protocols.mqtt.session.messages import ClaimSession, SessionClaimed, SessionReleased
from sluicegate.protocols.mqtt.session.session import Session
from sluicegate.protocols.security.authentication import ANONYMOUS, Principal, Proven

if TYPE_CHECKING:
    from sluicegate.protocols.mqtt.connection import MqttConnection

log = logging.getLogger("sluicegate.mqtt")

ASSIGNED_PREFIX: Final = "auto-"
LEVEL_NAMES: Final = {3: "3.1", 4: "3.1.1", 5: "5.0"}


class ConnectRefused(Exception):
    """A CONNECT is answered with a reason code, and the connection ends. `counter` is what it counts as."""

    def __init__(self, reason_code: int, text: str, counter: str = "") -> None:
        super().__init__(text)
        self.reason_code = reason_code
        self.counter = counter or name_of(reason_code).replace(" ", "_")


async def connect(connection: "MqttConnection", event: ConnectReceived, proven: Proven | None = None) -> None:
    """Answer CONNECT, and with a success bring the session to this connection.

    `proven` is the outcome of an enhanced authentication: then name and password are not looked at.
    """
    client_id = event.client_id or f"{ASSIGNED_PREFIX}{connection.cell.runtime.rng.getrandbits(64):016x}"
    expiry_s = min(event.session_expiry_s, connection.services.session_expiry_s_max)
    try:
        _check_client_id(connection, event)
        if proven is not None:
            principal: Principal | None = proven.principal
        elif event.user_name is not None:
            principal = await _named(connection, event.user_name, event)
        else:
            principal = _unnamed(connection)
        will = _admit(connection, event, client_id, principal)
        user = connection.identity.user
        will_bytes = 0 if will is None else will.usage_bytes()
        claim = ClaimSession(client_id, event.clean_start, expiry_s, connection.cell, user, will_bytes)
        claimed: SessionClaimed = await share_of(connection).ask(connection.services.sessions, claim)
    except ConnectRefused as refusal:
        connection.engine.refuse(refusal.reason_code, str(refusal))
        connection.refuse(refusal.counter, str(refusal))
        return
    except ClientDenied as denied:
        refuse_denied(connection, denied)
        return
    if not connection.is_open():
        # The client left while its session was being fetched. It goes back at once, with the will it came with.
        due = will if connection.engine.goodbye is None and not connection.is_closing else None
        released = SessionReleased(claimed.session, due, connection.cell)
        connection.services.sessions.inbox.post(released)
        return
    session = claimed.session
    attached = connection.attached = _attached(connection, event, session, will)  # at once: who fails now gives it back
    if session.has_rows:  # CONNACK says that the session is kept, and its will [3.1.2-7]: no crash loses them then
        try:
            await writes_of(connection, attached).store_session(will)
        except StoreRefused:
            _give_back(connection, claimed)
            raise
        if not connection.is_open():
            if connection.is_closing:  # it has heard that it is not let in, so it has no will either
                attached.will = None
            return
    if not _accept(connection, event, claimed, client_id, expiry_s, proven):
        _give_back(connection, claimed)
        connection.refuse("no_connack", "it broke a rule meanwhile, or takes no packet as large as its CONNACK")
        return
    revoked = denied_subscriptions(connection, session) if claimed.present else []
    for text in revoked:
        session.retained_wanted.pop(text, None)  # what it has yet to bring goes out as the session begins
    _begin(connection, attached)
    _tell_connected(connection, event, session, claimed.present)
    if revoked:
        await revoke(connection, session, revoked)
        await writes_of(connection, attached).store_subscriptions()
    if session.has_deliveries:
        await resume_flows(connection, session)


def _check_client_id(connection: "MqttConnection", event: ConnectReceived) -> None:
    """Raise ConnectRefused where a client without an identifier is not let in."""
    if not event.client_id and not connection.services.allows_no_client_id:
        raise ConnectRefused(CLIENT_IDENTIFIER_NOT_VALID, "a client identifier is wanted here")
    if not event.client_id and event.level < 5 and (event.level == 3 or not event.clean_start):
        text = "a client that keeps its session needs a client identifier [311:3.1.3-8]"
        raise ConnectRefused(CLIENT_IDENTIFIER_NOT_VALID, text)


def _admit(
    connection: "MqttConnection", event: ConnectReceived, client_id: str, principal: Principal | None
) -> Will | None:
    """Give the client its place; return its will. Raises ConnectRefused and ClientDenied."""
    if principal is None:
        connection.services.clients.denials.deny(NOT_AUTHENTICATED, client_id, _who(connection, event))
        if event.user_name is None:
            raise ConnectRefused(NOT_AUTHORIZED, "this listener wants a user name", NOT_AUTHENTICATED)
        raise ConnectRefused(BAD_USER_NAME_OR_PASSWORD, "user name or password is wrong", NOT_AUTHENTICATED)
    identity = connection.identity
    identity.authenticated(principal)
    assert connection.peer is not None
    rights = identity.admit(client_id, connection.peer.host, takes_over=True)
    if connection.read_control is not None:
        connection.read_control.limit(rights)
    will = event.will
    if will is not None and will.topic.startswith(EVENT_TOPICS):
        text = f"will topic {will.topic!r} belongs to the server"
        if event.level == 5:
            raise ConnectRefused(TOPIC_NAME_INVALID, text)
        # Dropped like what 3.x publishes there, for it has no word for it. Bridges of mosquitto set such a will.
        log.info("will of client %r at %s is dropped: %s", client_id, connection.peer_name(), text)
        connection.services.counters.count(connection.services.counters.dropped, DROPPED)
        return None
    if will is not None:
        rights.check_publish(will.topic, guaranteed=will.qos > 0)
    return will


def _who(connection: "MqttConnection", event: ConnectReceived) -> str:
    name = "without a user name" if event.user_name is None else f"as user {event.user_name[:80]!r}"
    return f"401 Unauthorized: MQTT client at {connection.peer_name()} {name}"


async def _named(connection: "MqttConnection", user_name: str, event: ConnectReceived) -> Principal | None:
    """Return who a client with a user name is, None if it is not. Raises ClientDenied."""
    peer = connection.peer
    assert peer is not None
    own_name = enter_vpn(connection, user_name, event.client_id)
    password = event.password or b""
    authenticator = connection.services.authenticator
    return await authenticator.client(own_name, password, listener=peer.listener, host=peer.host)


def _unnamed(connection: "MqttConnection") -> Principal | None:
    """Return who a client without a user name is, None if it has to have one."""
    peer, authenticator = connection.peer, connection.services.authenticator
    assert peer is not None
    if peer.certificate_name:
        return authenticator.certificate(peer.certificate_name)
    return ANONYMOUS if authenticator.admits_anonymous(peer.listener) else None


def enter_vpn(connection: "MqttConnection", user_name: str, client_id: str) -> str:
    """Bring the client into the message VPN that stands behind its user name; return the name itself.

    Raises ClientDenied.
    """
    own_name, services = connection.vpns.of_user(user_name, connection.services, client_id)
    connection.enter(services)
    return own_name


def refuse_denied(connection: "MqttConnection", denied: ClientDenied) -> None:
    """Answer a CONNECT with what a client was denied."""
    connection.engine.refuse(DENIAL_CODES.get(denied.reason, NOT_AUTHORIZED), denied.text)
    connection.refuse(denied.reason, denied.text)


def _accept(
    connection: "MqttConnection",
    event: ConnectReceived,
    claimed: SessionClaimed,
    client_id: str,
    expiry_s: int,
    proven: Proven | None,
) -> bool:
    services = connection.services
    keep_alive = services.keep_alive_s_max
    overrides = keep_alive > 0 and (event.keep_alive_s == 0 or event.keep_alive_s > keep_alive)
    connection.ask_flush()
    return connection.engine.accept(
        claimed.present,
        assigned_client_id=client_id if not event.client_id else None,
        server_keep_alive_s=keep_alive if overrides and event.level == 5 else -1,
        session_expiry_s=expiry_s if expiry_s != event.session_expiry_s else -1,
        authentication_method=event.authentication_method,
        authentication_data=None if proven is None else proven.data,
    )


def _attached(
    connection: "MqttConnection", event: ConnectReceived, session: Session, will: Will | None
) -> AttachedSession:
    limit = event.receive_maximum if event.level == 5 else connection.services.window_v3
    return AttachedSession(session, will, receive_maximum=limit, explains=event.request_problem_information)


def _give_back(connection: "MqttConnection", claimed: SessionClaimed) -> None:
    """Return the session of a client that is not let in. It hears of none that was made for it; so there is none."""
    connection.attached = None
    if not claimed.present:
        claimed.session.expiry_s = 0
    connection.services.sessions.inbox.post(SessionReleased(claimed.session, None, connection.cell))


def _begin(connection: "MqttConnection", attached: AttachedSession) -> None:
    """Send what the session's last connection left, and be where its messages go."""
    session = attached.session
    if session.has_deliveries:
        delivering = begin_delivering(connection, attached)
        delivering.resend_releases()
        wall_ms = connection.cell.runtime.clock.wall_ms()
        delivering.retained.resend(wall_ms)
        delivering.retained.go_on(wall_ms)
    if session.subscriber is not None:
        reach(connection, session.subscriber)


def _tell_connected(connection: "MqttConnection", event: ConnectReceived, session: Session, resumed: bool) -> None:
    events = connection.services.events
    if not events.admits(CLIENT_CONNECTED):  # many come at once
        return
    level = LEVEL_NAMES[event.level]
    what = "resumed" if resumed else "new"
    text = f"MQTT {level} client connected from {connection.peer_name()}, {what} session"
    events.tell(CLIENT_CONNECTED, text, client=session.client_id)


def detach(connection: "MqttConnection", attached: AttachedSession) -> SessionReleased:
    """Take the session off a connection that ends. A goodbye counts also where its turn has not come yet.

    Whatever fails over that, the directory gets the session: who claims it waits for that, and would never be answered.
    """
    connection.attached = None
    try:
        if connection.engine.goodbye is not None:
            attached.says_goodbye(connection.engine.goodbye, connection.services.session_expiry_s_max)
        attached.release()
        _tell_disconnected(connection, attached)
    except Exception:
        log.exception("taking the session of %r off its connection failed", attached.session.client_id)
    return SessionReleased(attached.session, attached.will, connection.cell)


def _tell_disconnected(connection: "MqttConnection", attached: AttachedSession) -> None:
    """Tell operators that a client's session has left its connection."""
    events, client = connection.services.events, attached.session.client_id
    if attached.publishing is not None and attached.publishing.has_flow:
        events.emit(CLIENT_FLOW_CLOSED, "publisher flow closed", client=client)
    if events.admits(CLIENT_DISCONNECTED):
        events.tell(CLIENT_DISCONNECTED, f"MQTT client at {connection.peer_name()} disconnected", client=client)
