"""Carry out CONNECT: authenticate, claim the session, and resume its deliveries (section 3.1.4)."""

import logging
from typing import Final

from sluicegate.actors.messages.data import StoreRefused
from sluicegate.messaging.clients.homes import assigned_id
from sluicegate.messaging.clients.rights import NOT_AUTHENTICATED, ClientDenied
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.observability.events import CLIENT_CONNECTED
from sluicegate.messaging.topics.syntax import EVENT_TOPICS
from sluicegate.protocols.mqtt.client import AttachedSession, MqttClient
from sluicegate.protocols.mqtt.codec.events import ConnectReceived, Will
from sluicegate.protocols.mqtt.codec.reason_codes import (
    BAD_USER_NAME_OR_PASSWORD,
    CLIENT_IDENTIFIER_NOT_VALID,
    DENIAL_CODES,
    NOT_AUTHORIZED,
    SERVER_BUSY,
    SERVER_MOVED,
    TOPIC_NAME_INVALID,
    USE_ANOTHER_SERVER,
    name_of,
)
from sluicegate.protocols.mqtt.datapath.publishing import DROPPED, NOT_A_TOPIC, NOT_FOR_CLIENTS
from sluicegate.protocols.mqtt.requests.flows import resume_flows
from sluicegate.protocols.mqtt.requests.response_information import response_information
from sluicegate.protocols.mqtt.requests.subscribe import denied_subscriptions, revoke
from sluicegate.protocols.mqtt.session.messages import ClaimSession, FindSession, SessionClaimed, SessionReleased
from sluicegate.protocols.mqtt.session.other_servers import MOVED, SESSION
from sluicegate.protocols.mqtt.session.session import Session
from sluicegate.protocols.security.authentication import ANONYMOUS, Authenticated, Principal

log = logging.getLogger("sluicegate.mqtt")

LEVEL_NAMES: Final = {3: "3.1", 4: "3.1.1", 5: "5.0"}


class ConnectRefused(Exception):
    """A CONNECT is refused with a reason code, and the connection ends. `counter` is the counter of the refusal."""

    def __init__(self, reason_code: int, text: str, counter: str = "", server_reference: str = "") -> None:
        super().__init__(text)
        self.reason_code = reason_code
        self.server_reference = server_reference  # where to connect instead
        self.counter = counter or name_of(reason_code).replace(" ", "_")


async def connect(client: MqttClient, event: ConnectReceived, outcome: Authenticated | None = None) -> None:
    """Answer CONNECT; on success attach the session to this client.

    `outcome` is the result of an enhanced authentication, which replaces name and password.
    """
    client_id = event.client_id or _assigned(client)
    expiry_s = min(event.session_expiry_s, client.services.session_expiry_s_max)
    try:
        _check_client_id(client, event)
        if outcome is not None:
            principal: Principal | None = outcome.principal
        elif event.user_name is not None:
            principal = await _named(client, event.user_name, event)
        else:
            principal = _unnamed(client)
        will = _admit(client, event, client_id, principal)
        user = client.identity.user
        await _check_server(client, event)
        will_bytes = 0 if will is None else will.usage_bytes()
        claim = ClaimSession(client_id, event.clean_start, expiry_s, client.cell, user, will_bytes, not event.client_id)
        claimed: SessionClaimed = await client.turn_budget().ask(client.services.sessions, claim)
    except ConnectRefused as refusal:
        client.engine.refuse(refusal.reason_code, str(refusal), refusal.server_reference)
        client.refuse(refusal.counter, str(refusal))
        return
    except ClientDenied as denied:
        refuse_denied(client, denied)
        return
    if not client.is_open():
        # The client left while its session was being fetched. It goes back at once, with the will it came with.
        due = will if client.engine.disconnected_by is None and not client.is_closing else None
        released = SessionReleased(claimed.session, due, client.cell)
        client.services.sessions.inbox.post(released)
        return
    session = claimed.session
    _attach(client, event, session, will)  # at once: a failure from here on returns it
    if session.has_rows:  # CONNACK promises to keep session and will [3.1.2-7], so they are stored before it
        try:
            await client.writes(_attached(client)).store_session(will)
        except StoreRefused:
            _give_back(client, claimed)
            raise
        if not client.is_open():
            if client.is_closing:  # the client was refused, so there is no will either
                _attached(client).will = None
            return
    if not _accept(client, event, claimed, client_id, expiry_s, outcome):
        _give_back(client, claimed)
        client.refuse("no_connack", "protocol error before CONNACK, or CONNACK exceeds its Maximum Packet Size")
        return
    revoked = denied_subscriptions(client, session) if claimed.present else []
    for text in revoked:
        session.pending_retained.pop(text, None)  # else its retained messages would be sent below
    _begin(client, session)
    _report_connected(client, event, session, claimed.present)
    if revoked:
        await revoke(client, session, revoked)
        await client.writes(_attached(client)).store_subscriptions()
    if session.has_deliveries:
        await resume_flows(client, session)


async def _check_server(client: MqttClient, event: ConnectReceived) -> None:
    """Raise ConnectRefused for a 5.0 client that another server is to serve (section 4.11).

    Neighbors are asked only for a client that wants to go on with a session, and has none here.
    """
    servers = client.services.other_servers
    if event.level < 5:
        return
    if servers.has_moved:
        servers.sent(MOVED)
        raise ConnectRefused(SERVER_MOVED, "this broker has moved", server_reference=servers.reference)
    if not servers.neighbors or event.clean_start or not event.client_id:
        return
    is_here: bool = await client.turn_budget().ask(client.services.sessions, FindSession(event.client_id))
    if is_here:
        return
    if servers.are_busy:
        raise ConnectRefused(SERVER_BUSY, "other brokers are being asked for too many sessions: try again later")
    reference = await servers.look(event.client_id, client.identity.user)
    if reference:
        servers.sent(SESSION)
        text = "another broker keeps the session of this client"
        raise ConnectRefused(USE_ANOTHER_SERVER, text, server_reference=reference)


def _assigned(client: MqttClient) -> str:
    """Return an identifier for a client that brings none. Of several brokers on a machine, this one is its home."""
    homes, draw = client.services.homes, client.cell.runtime.rng.getrandbits
    return assigned_id(draw) if homes is None else homes.assign(draw)


def _check_client_id(client: MqttClient, event: ConnectReceived) -> None:
    """Raise ConnectRefused where a client without an identifier is not let in."""
    if not event.client_id and not client.services.allows_no_client_id:
        raise ConnectRefused(CLIENT_IDENTIFIER_NOT_VALID, "a client identifier is required")
    if not event.client_id and event.level < 5 and (event.level == 3 or not event.clean_start):
        text = "a client that keeps its session needs a client identifier [311:3.1.3-8]"
        raise ConnectRefused(CLIENT_IDENTIFIER_NOT_VALID, text)


def _admit(client: MqttClient, event: ConnectReceived, client_id: str, principal: Principal | None) -> Will | None:
    """Admit the client; return its will. Raises ConnectRefused and ClientDenied."""
    if principal is None:
        client.services.clients.denials.deny(NOT_AUTHENTICATED, client_id, _who(client, event))
        if event.user_name is None:
            raise ConnectRefused(NOT_AUTHORIZED, "this listener requires a user name", NOT_AUTHENTICATED)
        raise ConnectRefused(BAD_USER_NAME_OR_PASSWORD, "user name or password is wrong", NOT_AUTHENTICATED)
    identity = client.identity
    identity.authenticated(principal)
    assert client.peer is not None
    rights = identity.admit(client_id, client.peer.host, client.cell.runtime.clock.now_ms(), takes_over=True)
    if client.read_control is not None:
        client.read_control.limit(rights)
    will = event.will
    if will is not None and will.topic.startswith(NOT_FOR_CLIENTS):
        text = (
            f"will topic {will.topic!r} belongs to the server" if will.topic.startswith(EVENT_TOPICS) else NOT_A_TOPIC
        )
        if event.level == 5:
            raise ConnectRefused(TOPIC_NAME_INVALID, text)
        # Dropped like 3.x publishes to such topics, which cannot be refused. Bridges of mosquitto set such a will.
        log.info("client %r at %s: will dropped: %s", client_id, client.peer_name(), text)
        client.services.counters.count(client.services.counters.dropped, DROPPED)
        return None
    if will is not None:
        rights.check_publish(will.topic, guaranteed=will.qos > 0)
        if rights.limits_publishing:
            rights.check_later(_batch_of(will, client_id))
    return will


def _batch_of(will: Will, client_id: str) -> MessageBatch:
    """Return the message of a will, to check its payload."""
    return MessageBatch(
        topic=will.topic,
        topics=None,
        payloads=[will.payload],
        headers=None,
        qos=will.qos,
        retain=will.retain,
        publisher=client_id,
        received_ms=0,
        payload_bytes=len(will.payload),
    )


def _who(client: MqttClient, event: ConnectReceived) -> str:
    name = "without a user name" if event.user_name is None else f"as user {event.user_name[:80]!r}"
    return f"401 Unauthorized: MQTT client at {client.peer_name()} {name}"


async def _named(client: MqttClient, user_name: str, event: ConnectReceived) -> Principal | None:
    """Return who a client with a user name is, None if it is not. Raises ClientDenied."""
    peer = client.peer
    assert peer is not None
    own_name = enter_vpn(client, user_name, event.client_id)
    password = event.password or b""
    authenticator = client.services.authenticator
    name, listener, host = event.client_id, peer.listener, peer.host
    return await authenticator.client(own_name, password, listener=listener, host=host, client=name)


def _unnamed(client: MqttClient) -> Principal | None:
    """Return who a client without a user name is, None if it has to have one."""
    peer, authenticator = client.peer, client.services.authenticator
    assert peer is not None
    if peer.certificate_name:
        return authenticator.certificate(peer.certificate_name)
    return ANONYMOUS if authenticator.admits_anonymous(peer.listener) else None


def enter_vpn(client: MqttClient, user_name: str, client_id: str) -> str:
    """Bring the client into the message VPN that stands behind its user name; return the name itself.

    Raises ClientDenied.
    """
    own_name, services = client.vpns.of_user(user_name, client.services, client_id)
    client.enter(services)
    return own_name


def refuse_denied(client: MqttClient, denied: ClientDenied) -> None:
    """Refuse a CONNECT with the reason of a denial."""
    client.engine.refuse(DENIAL_CODES.get(denied.reason, NOT_AUTHORIZED), denied.text)
    client.refuse(denied.reason, denied.text)


def _accept(
    client: MqttClient,
    event: ConnectReceived,
    claimed: SessionClaimed,
    client_id: str,
    expiry_s: int,
    outcome: Authenticated | None,
) -> bool:
    services = client.services
    keep_alive = services.keep_alive_s_max
    overrides = keep_alive > 0 and (event.keep_alive_s == 0 or event.keep_alive_s > keep_alive)
    client.ask_flush()
    return client.engine.accept(
        claimed.present,
        assigned_client_id=client_id if not event.client_id else None,
        server_keep_alive_s=keep_alive if overrides and event.level == 5 else -1,
        session_expiry_s=expiry_s if expiry_s != event.session_expiry_s else -1,
        authentication_method=event.authentication_method,
        authentication_data=None if outcome is None else outcome.data,
        response_information=response_information(
            services.response_information if event.request_response_information else "", client_id, client.identity.user
        ),
    )


def _give_back(client: MqttClient, claimed: SessionClaimed) -> None:
    """Return the session of a refused client. A session made for it is dropped: the client never learns of it."""
    client.detach()
    if not claimed.present:
        claimed.session.expiry_s = 0
    client.services.sessions.inbox.post(SessionReleased(claimed.session, None, client.cell))


def _attach(client: MqttClient, event: ConnectReceived, session: Session, will: Will | None) -> None:
    client.explains = event.request_problem_information
    client.receive_maximum = event.receive_maximum if event.level == 5 else client.services.window_v3
    client.attach(session, will)


def _attached(client: MqttClient) -> AttachedSession:
    attached = client.attached
    assert attached is not None, "a session is not released while a request is carried out"
    return attached


def _begin(client: MqttClient, session: Session) -> None:
    """Resume the deliveries of the session's last connection, and connect its subscriber."""
    if session.has_deliveries:
        delivering = client.begin_delivering(_attached(client))
        delivering.resend_pubrels()
        wall_ms = client.cell.runtime.clock.wall_ms()
        delivering.retained.resend(wall_ms)
        delivering.retained.send_slice(wall_ms)
    if session.subscriber is not None:
        client.connect_subscriber(session.subscriber)


def _report_connected(client: MqttClient, event: ConnectReceived, session: Session, resumed: bool) -> None:
    events = client.services.events
    if not events.admits(CLIENT_CONNECTED):  # many come at once
        return
    level = LEVEL_NAMES[event.level]
    what = "resumed" if resumed else "new"
    text = f"MQTT {level} client connected from {client.peer_name()}, {what} session"
    events.tell(CLIENT_CONNECTED, text, client=session.client_id)
