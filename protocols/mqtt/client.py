"""One MQTT client as its request handlers see it: engine, identity, and the session while it is connected.

`MqttConnection` derives from `MqttClient`, receives from the transport and from other actors, and dispatches to the
handlers. Objects that many clients never need are made here on first use: many clients only get direct messages.
"""

import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, final

from mypy_extensions import i32, i64

from sluicegate.actors.messages.queues import SuspendFlow, UnbindFlow
from sluicegate.actors.publishing.publisher import Publisher
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.inbox import Flushed, Scheduled
from sluicegate.actors.runtime.runtime import ActorCell, Behaviour, Runtime
from sluicegate.actors.runtime.tasks import run_for
from sluicegate.messaging.clients.homes import Homes
from sluicegate.messaging.clients.roster import ClientRoster
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.observability.events import CLIENT_DISCONNECTED, CLIENT_FLOW_CLOSED, CLIENT_FLOW_OPENED
from sluicegate.messaging.queues.credit import CreditPool, CreditWindow
from sluicegate.messaging.queues.definition import QueueDefinition
from sluicegate.messaging.routing.destinations import Subscriber
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.selectors.selector import Selectors
from sluicegate.protocols.connection.counters import ProtocolCounters, Traffic
from sluicegate.protocols.connection.identity import Identity
from sluicegate.protocols.connection.message_vpns import MessageVpns
from sluicegate.protocols.connection.read_control import ReadControl
from sluicegate.protocols.connection.write_control import WriteControl
from sluicegate.protocols.mqtt.codec.events import AuthReceived, DisconnectReceived, MqttEvent, Will
from sluicegate.protocols.mqtt.codec.limits import ASKED_NOW_MAX, FILTERS_PER_TURN_MAX, MqttLimits
from sluicegate.protocols.mqtt.codec.reason_codes import SUCCESS
from sluicegate.protocols.mqtt.datapath.delivering import Deliverer
from sluicegate.protocols.mqtt.datapath.publishing import PublishHandler
from sluicegate.protocols.mqtt.engine.engine import MqttEngine
from sluicegate.protocols.mqtt.session.messages import SessionReleased
from sluicegate.protocols.mqtt.session.other_servers import OtherServers
from sluicegate.protocols.mqtt.session.quota import SessionQuota
from sluicegate.protocols.mqtt.session.session import Session, SuspendedFlow
from sluicegate.protocols.mqtt.session.writes import SessionWrites
from sluicegate.protocols.security.authentication import Authenticator
from sluicegate.protocols.transport.interface import ByteTransport, PeerInfo
from sluicegate.protocols.transport.unfinished import UnfinishedBytes, UnfinishedShare

log = logging.getLogger("sluicegate.mqtt")


@dataclass(frozen=True, slots=True)
class MqttServices:
    """The services that the MQTT connections of one message VPN share."""

    vpns: "MessageVpns[MqttServices]"  # all of them
    runtime: Runtime
    events: Events
    space: TopicSpace
    router: ActorCell
    queues: ActorCell
    sessions: ActorCell  # the session directory
    session_quota: SessionQuota
    spool: Address
    authenticator: Authenticator
    clients: ClientRoster
    limits: MqttLimits
    selectors: Selectors
    credit: CreditPool[Address]  # what all consumers of the node may hold unsettled together
    counters: ProtocolCounters
    unfinished: UnfinishedBytes  # of all clients of the node
    window_v3: int  # unacknowledged messages to a 3.x client, which has no Receive Maximum
    session_expiry_s_max: int
    keep_alive_s_max: int
    allows_no_client_id: bool  # a client without an identifier is given one
    other_servers: OtherServers  # where 5.0 clients are sent that are not served here
    response_information: str  # the pattern of topics for responses; empty: clients are told none
    connection_buffer_bytes_max: int  # direct messages beyond it are dropped
    slow_subscriber_stall_ms: int
    homes: Homes | None  # of client identifiers; None: there is one broker on this machine
    session_queue: Callable[[str, bool], QueueDefinition]  # name and durability -> how a session's queue is declared


@final
class AttachedSession:
    """A session while a connection has it, from the accepted CONNECT until its release."""

    def __init__(
        self,
        session: Session,
        will: Will | None,
    ) -> None:
        self.session = session
        self.will = will
        # Each is made by `MqttClient` when it is needed.
        self.publishing: PublishHandler | None = None  # until it publishes
        self.delivering: Deliverer | None = None  # until anything but direct messages may come for it
        self.writes: SessionWrites | None = None  # until the session is stored

    def apply_disconnect(self, event: DisconnectReceived, session_expiry_s_max: int) -> None:
        """Apply the client's DISCONNECT to its session and its will [3.14.4-3]."""
        if event.session_expiry_s >= 0:
            self.session.expiry_s = min(event.session_expiry_s, session_expiry_s_max)
        if event.reason_code == SUCCESS:
            self.will = None

    def release(self) -> None:
        """Detach the session: end its flows, remember its packet ids."""
        session = self.session
        if self.writes is not None:
            self.writes.abandon()
        if session.subscriber is not None:
            session.subscriber.address = session.subscriber.pressure = None
        if self.publishing is not None:
            self.publishing.leave()
        if self.delivering is not None:
            _end(self.delivering)


def _end(delivering: Deliverer) -> None:
    delivering.remember()
    for flow_id, bound in delivering.flows.items():
        bound.release_unsent(flow_id, delivering.queued)
        extra = bound.extra
        awaited = [] if extra is None or bound.is_named_queue else extra.ids.awaited_ranges()
        if extra is not None and awaited:
            extra.suspended = SuspendedFlow(flow_id, bound.queue)
            bound.queue.post(SuspendFlow(flow_id, awaited))
        else:
            bound.queue.post(UnbindFlow(flow_id))
    delivering.flows.clear()
    delivering.window.close()


@final
class TurnBudget:
    """The share of a turn that one client's requests may use; those beyond it wait while other clients are served."""

    def __init__(self, cell: ActorCell) -> None:
        self._cell = cell
        self._asks_count = 0
        self._filters_count = 0

    def ask(self, actor: ActorCell, message: object) -> LoopFuture[Any]:
        """Ask an actor on the client's behalf: inline for the first few times in a turn, if the actor is idle."""
        self._asks_count += 1
        return actor.ask_now(message) if self._asks_count <= ASKED_NOW_MAX else actor.ask(message)

    def next_filter(self) -> LoopFuture[None] | None:
        """Return the future to await before the next filter, so that other sockets are served; None: go ahead.

        Many filters need no other actor, such as refused or unknown ones: nothing else would end the turn.
        """
        self._filters_count += 1
        if self._filters_count <= FILTERS_PER_TURN_MAX:
            return None
        self._filters_count = 1
        turn: LoopFuture[None] = LoopFuture()
        self._cell.after(0, turn.set)
        return turn


class AuthExchange:
    """The exchange of AUTH packets with a client: see `protocols.mqtt.requests.enhanced_auth`."""

    def received(self, event: AuthReceived) -> None:
        """Handle the client's AUTH."""
        raise AssertionError("AuthExchange is abstract")


@final
class ClientParts:
    """What a client has that does more than stay, and only while it does."""

    def __init__(self) -> None:
        self.queued: list[MqttEvent] | None = None  # behind a request that is being carried out; None: none is
        self.next_event = 0  # index of the first of them that is not handled yet
        self.budget: TurnBudget | None = None  # of requests in this turn
        self.taken_over: LoopFuture[SessionReleased | None] | None = None  # resolved when the running request is done
        self.authentication: AuthExchange | None = None  # CONNECT named a method
        self.unfinished: UnfinishedShare | None = None  # of a packet that is not whole, if much of it has come

    def are_needed(self) -> bool:
        """Return whether there is any, beside what a turn needs."""
        return self.queued is not None or self.authentication is not None or self.unfinished is not None


class MqttClient(Behaviour, Flushed):
    """The state and the verbs that a connection shares with its request handlers."""

    def __init__(self, cell: ActorCell, vpns: MessageVpns[MqttServices]) -> None:
        services = vpns.default
        self.cell = cell
        self.services = services  # of the message VPN that the client is in
        self.engine = MqttEngine(services.limits, cell.runtime.clock.now_ms())
        self.transport: ByteTransport | None = None
        self.peer: PeerInfo | None = None
        self.identity = Identity(services.clients)
        self.session: Session | None = None  # from the accepted CONNECT until it is released
        self._attached: AttachedSession | None = None  # what it has beside that, made on first use: see `attached`
        self.read_control: ReadControl | None = None  # until the client may have to wait: see `ensure_read_control`
        self.write_control: WriteControl | None = (
            None  # from when the client first lagged behind, whoever has the session
        )
        self.parts: ClientParts | None = None
        # What is smaller than a pointer stands together.
        self.is_closing = False
        self._flush_asked = False
        self.explains = False  # the client wants Reason Strings [3.1.2-29]
        self.receive_maximum: i32 = 0  # messages that the client takes unacknowledged

    # --- identity and state ---

    @property
    def traffic(self) -> Traffic:
        """What has come and gone over this connection."""
        return self.engine.traffic

    @property
    def stream(self) -> ByteTransport | None:
        """What is written to; None: it is gone."""
        return self.transport

    def write_to(self, stream: ByteTransport) -> None:
        """Write to another stream from now on, which leads to the same client."""
        self.transport = stream

    def is_within_packet(self) -> bool:
        """Return whether the beginning of a packet has come, and its rest has not."""
        return self.engine.partial is not None

    def enter(self, services: MqttServices) -> None:
        """Enter the message VPN of these services; at the latest with CONNECT."""
        self.services = services
        self.identity.enter(services.clients)

    def is_open(self) -> bool:
        """Return whether the client is still there."""
        return self.transport is not None and not self.is_closing

    @property
    def is_writing_paused(self) -> bool:
        """Whether the client reads slower than we write."""
        return self.write_control is not None and self.write_control.paused

    @property
    def attached(self) -> AttachedSession | None:
        """The session with what the connection has for it. To look at the session alone makes nothing: `session`."""
        attached = self._attached
        if attached is None and self.session is not None:
            attached = self._attached = AttachedSession(self.session, None)
        return attached

    @property
    def will(self) -> Will | None:
        """The will that is published if the client leaves without a DISCONNECT."""
        return None if self._attached is None else self._attached.will

    def attach(self, session: Session, will: Will | None) -> None:
        """Take a session that the directory has given to this connection."""
        self.session = session
        if will is not None:
            self._attached = AttachedSession(session, will)

    def detach(self) -> None:
        """Give the session up."""
        self.session = None
        self._attached = None

    @property
    def vpns(self) -> MessageVpns[MqttServices]:
        """The message VPNs of the node."""
        return self.services.vpns

    @property
    def is_busy(self) -> bool:
        """Whether a request of the client is being carried out; events behind it are queued."""
        return self.parts is not None and self.parts.queued is not None

    def made_parts(self) -> ClientParts:
        """Return what only clients have that do more than stay."""
        parts = self.parts
        if parts is None:
            parts = self.parts = ClientParts()
        return parts

    def peer_name(self) -> str:
        """Return the client's address, for logs."""
        return f"{self.peer.host}:{self.peer.port}" if self.peer is not None else "?"

    # --- made on first use ---

    def publishing(self) -> PublishHandler:
        """Return the publish handler; the first publish makes it."""
        attached = self._attached
        if attached is None or attached.publishing is None:
            return self._begin_publishing()
        return attached.publishing

    def _begin_publishing(self) -> PublishHandler:
        attached = self.attached
        assert attached is not None
        services, session, writes = self.services, attached.session, self.writes(attached)
        publisher = Publisher(
            space=services.space, spool=services.spool, address=self.cell.inbox, rng=self.cell.runtime.rng
        )
        publisher.rights = self.identity.rights
        publisher.hears_of_retained = self.engine.level == 5
        attached.publishing = PublishHandler(
            engine=self.engine,
            level=self.engine.level,
            session=session,
            quota=services.session_quota,
            publisher=publisher,
            counters=services.counters,
            before_answer=writes.before_exactly_once,
            forget_received=writes.forget_received,
            explains=self.explains,
            opens_flow=lambda: services.events.emit(
                CLIENT_FLOW_OPENED, "publisher flow opened", client=session.client_id
            ),
        )
        return attached.publishing

    def delivering(self) -> Deliverer | None:
        """Return the deliverer of queue and retained messages, if there is one."""
        return None if self._attached is None else self._attached.delivering

    def delivering_of(self, attached: AttachedSession) -> Deliverer:
        """Return the deliverer; while a request is carried out, its deliveries wait for the response."""
        if attached.delivering is not None:
            return attached.delivering
        delivering = self.begin_delivering(attached)
        if self.is_busy:
            delivering.hold()
        return delivering

    def begin_delivering(self, attached: AttachedSession) -> Deliverer:
        """Make the deliverer of queue and retained messages."""
        services, runtime = self.services, self.cell.runtime
        delivering = attached.delivering = Deliverer(
            engine=self.engine,
            level=self.engine.level,
            session=attached.session,
            window=CreditWindow(i64(self.receive_maximum), services.credit),
            dispatcher=runtime.dispatcher,
            before_exactly_once=self.writes(attached).before_exactly_once,
            clock=runtime.clock,
            counters=services.counters,
            events=services.events,
            later=lambda: self.cell.after(0, self.send_more_retained),
            address=self.cell.inbox,
        )
        if self.is_writing_paused:
            delivering.hold_back(True)
        return delivering

    def send_more_retained(self) -> None:
        """Send the next slice of retained messages, after other sockets were served or credit was returned."""
        delivering = self.delivering()
        if delivering is not None:
            delivering.retained.send_scheduled_slice(self.cell.runtime.clock.wall_ms())
            self.turn_ended()

    def writes(self, attached: AttachedSession) -> SessionWrites:
        """Return the store writes of the client's session."""
        if attached.writes is None:
            attached.writes = SessionWrites(self.cell, self.services.spool, attached.session)
        return attached.writes

    def subscriber(self, session: Session) -> Subscriber:
        """Return the subscriber of the session's subscriptions."""
        subscriber = session.subscriber
        if subscriber is None:
            subscriber = session.subscriber = Subscriber(session.client_id)
            self.connect_subscriber(subscriber)
        return subscriber

    def connect_subscriber(self, subscriber: Subscriber) -> None:
        """Route the messages of a session's subscriptions to this connection."""
        self.services.space.prioritise(subscriber, self.identity.rights.profile.dto_local_priority)
        subscriber.address = self.cell.inbox
        subscriber.pressure = None if self.write_control is None else self.write_control.pressure
        self.services.space.presence_changed(subscriber)

    def ensure_read_control(self) -> ReadControl:
        """Return the read control of the client's socket, made when something may first pause reading."""
        gate = self.read_control
        if gate is None:
            gate = self.read_control = ReadControl(self.cell.inbox)
            gate.attach(self.transport)
            rights = self.identity.admitted()
            if rights is not None:
                gate.limit(rights)
        return gate

    def ensure_write_control(self) -> WriteControl | None:
        """Return the write control of the client's socket; None: the client is not connected yet, or gone.

        It is made when the client first lags; publishers need not know of it before.
        """
        services, session, transport = self.services, self.session, self.transport
        if self.write_control is not None or session is None or transport is None:
            return self.write_control
        watch = self.write_control = WriteControl(
            self.cell,
            services.counters,
            buffer_bytes_max=services.connection_buffer_bytes_max,
            slow_subscriber_stall_ms=services.slow_subscriber_stall_ms,
        )
        watch.attach(transport)
        if session.subscriber is not None:
            session.subscriber.pressure = watch.pressure
        return watch

    def turn_budget(self) -> TurnBudget:
        """Return the budget of the client's requests in this turn; it ends with the turn."""
        parts = self.made_parts()
        budget = parts.budget
        if budget is None:
            budget = parts.budget = TurnBudget(self.cell)
        return budget

    # --- requests to other actors ---

    def carry_out(self, request: Coroutine[Any, Any, None]) -> None:
        """Run a request; later packets of the client are queued behind it."""
        parts = self.made_parts()
        parts.queued, parts.next_event = [], 0
        if (delivering := self.delivering()) is not None:
            delivering.hold()
        self.ask_flush()
        run_for(self.cell, self, request)
        self.cell.accepts_inline = False  # the request may be done already, but the caller is not

    def ask_flush(self) -> None:
        """Write the engine's output at the end of this turn."""
        if not self._flush_asked:
            self._flush_asked = True
            self.cell.dispatcher.at_turn_end(self)

    def owner(self) -> Scheduled | None:
        """Return the actor that fails if writing does."""
        return self.cell

    # --- the end ---

    def end(self, reason_code: int, text: str) -> None:
        """End the connection on our initiative, unless it is ending. The will is published."""
        if not self.is_closing:
            log.info("connection of %s ends (0x%02x): %s", self.peer_name(), reason_code, text)
            self.engine.disconnect(reason_code, text)
            self._close_abnormally()

    def refuse(self, reason: str, text: str) -> None:
        """Close the connection after the engine refused the CONNECT."""
        self.services.counters.count(self.services.counters.refused, reason)
        log.info("connection of %s refused: %s", self.peer_name(), text)
        self._close()

    def _close_abnormally(self) -> None:
        self._release()
        self._close()

    def _close(self) -> None:
        """Flush the output to the client, then close."""
        self.is_closing = True
        if self.transport is not None:
            self.flush()
            self.transport.close_after_flush()

    def _release(self) -> None:
        """Return the session to the directory; at most once."""
        attached = self.attached
        if attached is None or self.is_busy:
            return  # none, or a request is changing it: called again after that
        self.services.sessions.inbox.post(self._detach(attached))

    def _detach(self, attached: AttachedSession) -> SessionReleased:
        """Detach the session from a connection that ends. A DISCONNECT that is still queued counts too.

        The directory gets the session even if this fails: a claim that waits for it would never be answered.
        """
        self.detach()
        try:
            if self.engine.disconnected_by is not None:
                attached.apply_disconnect(self.engine.disconnected_by, self.services.session_expiry_s_max)
            attached.release()
            if attached.session.subscriber is not None:
                self.services.space.presence_changed(attached.session.subscriber)
            self._report_disconnected(attached)
        except Exception:
            log.exception("session of %r: cannot detach it from its connection", attached.session.client_id)
        return SessionReleased(attached.session, attached.will, self.cell)

    def _report_disconnected(self, attached: AttachedSession) -> None:
        """Report to operators that the client has disconnected."""
        events, client = self.services.events, attached.session.client_id
        if attached.publishing is not None and attached.publishing.has_flow:
            events.emit(CLIENT_FLOW_CLOSED, "publisher flow closed", client=client)
        if events.admits(CLIENT_DISCONNECTED):
            events.tell(CLIENT_DISCONNECTED, f"MQTT client at {self.peer_name()} disconnected", client=client)
