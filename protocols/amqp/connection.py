"""One AMQP connection: a client's transport and engine, and both directions of its messages, brought together.

It holds no rule of AMQP: the engine speaks the protocol, `sasl` lets clients in, `attaching` carries out what needs
other actors, `sides` has the directions of the data path.
"""

import logging
from collections.abc import Coroutine
from typing import Any

from sluicegate.actors.messages.data import Confirmed, Deliveries, Refused, Resume
from sluicegate.actors.messages.partitions import FlowDrained
from sluicegate.actors.messages.queues import Browsed, FlowGone, FlowState
from sluicegate.actors.runtime.inbox import Flushed, Scheduled
from sluicegate.actors.runtime.runtime import ActorCell, Behaviour
from sluicegate.actors.runtime.tasks import run_for
from sluicegate.messaging.clients.rights import NOT_AUTHENTICATED
from sluicegate.messaging.observability.events import CLIENT_FLOW_CLOSED, CLIENT_FLOW_OPENED, EventKind, as_word
from sluicegate.protocols.amqp.client import Sides
from sluicegate.protocols.amqp.codec.delivery_states import TRANSACTIONAL, AmqpError
from sluicegate.protocols.amqp.codec.performatives import Open
from sluicegate.protocols.amqp.codec.termini import Coordinator, Source, Target
from sluicegate.protocols.amqp.datapath.consuming import DurableSettlement, check_writable
from sluicegate.protocols.amqp.engine.engine import AmqpEngine
from sluicegate.protocols.amqp.engine.events import (
    AmqpEvent,
    AttachReceived,
    CloseReceived,
    CreditReceived,
    CreditSpent,
    DeliveriesReceived,
    DispositionReceived,
    LinkDetached,
    OpenReceived,
    PeerViolated,
    SaslInitReceived,
    SaslResponseReceived,
    SessionEnded,
    WindowOpened,
)
from sluicegate.protocols.amqp.engine.link import IncomingLink, OutgoingLink
from sluicegate.protocols.amqp.engine.session import Session
from sluicegate.protocols.amqp.handshake.open import CAPABILITIES, answer_open
from sluicegate.protocols.amqp.handshake.sasl import AmqpSasl
from sluicegate.protocols.amqp.links.attach_receiver import attach_consumer, end_browser, end_consumer
from sluicegate.protocols.amqp.links.attach_sender import attach_publisher
from sluicegate.protocols.amqp.links.subscriptions import end_look_up
from sluicegate.protocols.amqp.services import AmqpServices
from sluicegate.protocols.amqp.types import errors as conditions
from sluicegate.protocols.connection.identity import Identity
from sluicegate.protocols.connection.message_vpns import MessageVpns
from sluicegate.protocols.connection.read_control import ReadControl
from sluicegate.protocols.connection.sasl import ANONYMOUS_NAME
from sluicegate.protocols.connection.unwritable import reject_unwritable, tell_unwritable
from sluicegate.protocols.connection.write_control import write_gathered
from sluicegate.protocols.transport.interface import ByteTransport, PeerInfo
from sluicegate.protocols.transport.unfinished import COUNTED_BYTES_MIN, COUNTER, TEXT, UnfinishedShare

log = logging.getLogger("sluicegate.amqp")


class AmqpConnection(Behaviour, Flushed):
    """One AMQP client. Its transport calls `opened`, `received`, `closed`; its actor brings messages."""

    def __init__(self, cell: ActorCell, vpns: MessageVpns[AmqpServices]) -> None:
        self.cell = cell
        self.runtime = cell.runtime
        services = vpns.default
        self.vpns = vpns
        self.services = services  # of the message VPN that the client is in
        self.peer: PeerInfo | None = None
        self.client = ""  # the container id, from open on
        self.identity = Identity(services.clients, cell.runtime.clock)
        self.number = cell.runtime.next_urn()
        self.sasl: AmqpSasl | None = None  # None until the transport is there, and when the client is in
        # Made anew when the transport is there: what is offered to the client depends on it.
        self.engine = AmqpEngine(services.limits, 0, container_id="", mechanisms=[], allows_bare=False)
        self.read_control = ReadControl(cell.inbox)
        self.sides = Sides(self, is_full=False)  # made anew when the client has opened: its name is known then
        self._clock = cell.runtime.clock
        self._counters = services.counters
        self._transport: ByteTransport | None = None
        self._flush_asked = False
        self._unfinished: UnfinishedShare | None = None  # of what is not whole, if much of it has come
        self.is_released = False

    # --- the transport ---

    def opened(self, transport: ByteTransport, peer: PeerInfo) -> None:
        """Begin: the transport is ready."""
        self._transport = transport
        self.read_control.attach(transport)
        self.peer = peer
        self.enter(self.vpns.of_listener(peer.listener))
        self._counters.connected += 1
        self.sasl = AmqpSasl(self, peer)
        mechanisms = self.sasl.offered()
        self.engine = AmqpEngine(
            self.services.limits,
            self._clock.now_ms(),
            container_id=self.services.container_id,
            mechanisms=mechanisms,
            allows_bare=ANONYMOUS_NAME in mechanisms,
        )

    def enter(self, services: AmqpServices) -> None:
        """Be in the message VPN of these services; not later than with the open."""
        self.services = services
        self.identity.enter(services.clients)

    def received(self, data: bytes) -> None:
        """Handle bytes of the client."""
        self._counters.bytes_received += len(data)
        self._handle(self.engine.feed(data, self._clock.now_ms()))
        self._count_unfinished()

    def _count_unfinished(self) -> None:
        """Count what has come of a frame and of deliveries that are not whole among those of all clients."""
        held_bytes = self.engine.unfinished_bytes
        if held_bytes >= COUNTED_BYTES_MIN or self._unfinished is not None:
            self._unfinished = self.services.unfinished.count(self._unfinished, held_bytes, self._give_up)

    def _give_up(self) -> None:
        self.cell.after(0, self._end_unfinished)

    def _end_unfinished(self) -> None:
        """End, unless all has become whole meanwhile: all clients together have begun too much."""
        if self.engine.unfinished_bytes >= COUNTED_BYTES_MIN and not self.is_released:
            self._counters.count(self._counters.violated, COUNTER)
            log.info("connection of client %r at %s ends: %s", self.client, self.peer_name(), TEXT)
            self.engine.fail(conditions.RESOURCE_LIMIT_EXCEEDED, TEXT, self._clock.now_ms())
            self._close_transport()

    def tick(self, now_ms: int) -> None:
        """Bring time: heartbeats, silence, handshakes that take too long."""
        if self.read_control.stopped:
            self.engine.alive(now_ms)  # a client that we do not read from cannot show that it is alive
        self._handle(self.engine.tick(now_ms))
        self.services.registry.temporary_nodes.look_after(self)
        self.sides.tick(now_ms)
        if self.identity.is_over() and not self.is_released:
            self.end(AmqpError(conditions.UNAUTHORIZED_ACCESS, "the token has expired"))

    def closed(self, error: Exception | None) -> None:
        """The transport is gone."""
        self._transport = None
        self.read_control.attach(None)
        self._release()
        self.engine.drop()
        self._count_unfinished()
        self.sides.end()
        self.sasl = None
        self.identity.close()
        self.cell.stop()

    def writing_paused(self) -> None:
        """The client reads slower than we write."""
        self.sides.hold_back(True, self._clock.wall_ms())

    def writing_resumed(self) -> None:
        """The client has caught up."""
        self._counters.messages_sent += self.sides.hold_back(False, self._clock.wall_ms())
        self.drained()

    @property
    def is_writing_paused(self) -> bool:
        """Whether the client reads slower than we write."""
        return self.sides.is_full

    def ask_flush(self) -> None:
        """Write what the engine has to say at the end of this turn."""
        if not self._flush_asked:
            self._flush_asked = True
            self.runtime.dispatcher.at_turn_end(self)

    def owner(self) -> Scheduled | None:
        """Return the actor that fails if writing does."""
        return self.cell

    def flush(self) -> None:
        """Write, once for everything of this turn."""
        self._flush_asked = False
        pieces = self.engine.take()
        transport = self._transport
        if transport is not None and pieces:
            self.engine.wrote(self._clock.now_ms())
            write_gathered(transport, pieces, self._counters)
            if self.sides.is_full and self.sides.asks_and_reads_nothing(pieces, transport):
                self._counters.count(self._counters.violated, "answers_not_read")
                log.info("client %r at %s goes on asking and reads no answers", self.client, self.peer_name())
                self.fail()

    # --- events of the engine ---

    def _handle(self, events: list[AmqpEvent]) -> None:
        for event in events:
            if isinstance(event, DeliveriesReceived):
                self._publish(event)
            elif isinstance(event, DispositionReceived):
                self._disposition(event)
            elif isinstance(event, CreditReceived):
                self.credit(event.link)
            else:
                self._handle_rare(event)
        if self.engine.has_output:
            self.ask_flush()

    def _handle_rare(self, event: AmqpEvent) -> None:
        if isinstance(event, AttachReceived):
            link = event.link
            if self.is_released:
                return  # it was sent before the client has heard that its connection ends
            if isinstance(link, IncomingLink):
                self.carry_out(attach_publisher(self, event.session, link))
            else:
                self.carry_out(attach_consumer(self, event.session, link))
        elif isinstance(event, CreditSpent):
            self.sides.top_up(event.link)
        elif isinstance(event, WindowOpened):
            self._counters.messages_sent += self.sides.window_opened(event.session, self._clock.wall_ms())
        elif isinstance(event, LinkDetached):
            self._detached(event.link, closed=event.closed)
        elif isinstance(event, SessionEnded):
            self._session_ended(event.session)
        elif isinstance(event, OpenReceived):
            self._open(event.peer)
        elif isinstance(event, SaslInitReceived):
            assert self.sasl is not None, "the transport comes before its bytes"
            self.carry_out(self.sasl.begin(event))
        elif isinstance(event, SaslResponseReceived):
            assert self.sasl is not None, "the transport comes before its bytes"
            self.sasl.step(event.response)
        elif isinstance(event, CloseReceived):
            self._close_transport()
        else:
            assert isinstance(event, PeerViolated)
            self._violated(event)

    def _publish(self, event: DeliveriesReceived) -> None:
        if self.sides.is_coordinator(event.link):
            self.sides.transacting(self).control(event, self._clock.now_ms())
            return
        self._counters.messages_received += len(event.delivery_ids)
        publishing = self.sides.publishing
        if event.txn_id is None:
            publishing.publish(event, self._clock.wall_ms())
        else:
            now_ms, wall_ms = self.runtime.dispatcher.both_ms()
            self.sides.transacting(self).publish(event, now_ms, wall_ms)
        self.read_control.published(publishing.publisher.pressures, publishing.unanswered_count)

    def _disposition(self, event: DispositionReceived) -> None:
        """Take what the client says of what it received; of what it sent it says nothing that matters."""
        state = event.disposition.state
        if not event.disposition.is_receiver:
            return
        if state is not None and state.code == TRANSACTIONAL:
            self.sides.transacting(self).retire(event.session, event.disposition, self._clock.now_ms())
        else:
            self.sides.consuming.disposition(event.session, event.disposition)

    def credit(self, link: OutgoingLink) -> None:
        """See to what the client grants. Where its attach is not answered yet, that is done then."""
        consuming = self.sides.consuming.by_link.get(link)
        if consuming is not None:
            self.sides.consuming.credit(consuming)
            return
        browsing = self.sides.browsing_link(link)
        if browsing is not None:
            self._counters.messages_sent += self.sides.browsing.credit(browsing, self._clock.wall_ms())

    def _open(self, peer: Open) -> None:
        self.client = peer.container_id
        self.sasl = None
        error = answer_open(self, peer)
        self.sides = Sides(self, is_full=self.sides.is_full)
        if error is not None:
            self.end(error)

    def _detached(self, link: IncomingLink | OutgoingLink, *, closed: bool) -> None:
        """Let go of a link, and of what there is for it alone."""
        if isinstance(link, IncomingLink):
            self._end_publisher(link, closed=closed)
            self.sides.coordinator_detached(link)
        else:
            consuming = self.sides.consuming.by_link.get(link)
            if consuming is not None:
                end_consumer(self, consuming, closed=closed)
            browsing = self.sides.browsing_link(link)
            if browsing is not None:
                end_browser(self, browsing)
            end_look_up(self, link, closed=closed)
        registry = self.services.registry
        registry.containers.detached(link)
        registry.temporary_nodes.detached(link, closed=closed)

    def tell_flow(self, kind: EventKind, link: IncomingLink) -> None:
        """Tell operators that a link on which the client sends has begun or ended."""
        what = "opened" if kind is CLIENT_FLOW_OPENED else "closed"
        self.services.events.emit(kind, f"publisher flow {as_word(link.name)} {what}", client=self.client)

    def _end_publisher(self, link: IncomingLink, *, closed: bool) -> None:
        if link in self.sides.publishing.links:
            self.sides.publishing.detached(link, closed=closed, now_ms=self._clock.now_ms())
            self.tell_flow(CLIENT_FLOW_CLOSED, link)

    def _session_ended(self, session: Session) -> None:
        self.sides.session_ends(session)
        self._release_links(session)
        self.sides.session_ended(session, self._clock.now_ms())

    def _release_links(self, session: Session) -> None:
        for link in session.links():
            self._detached(link, closed=False)

    def _violated(self, event: PeerViolated) -> None:
        rule = event.condition or "handshake"
        self._counters.count(self._counters.violated, rule)
        log.info("client %r at %s broke a rule (%s): %s", self.client, self.peer_name(), rule, event.text)
        self._close_transport()

    # --- who it is ---

    def refuse(self, why: str) -> None:
        """Count and log that somebody is not let in. The client does not hear why."""
        self.count_refused(NOT_AUTHENTICATED)
        log.info("client at %s is not let in: %s", self.peer_name(), why)

    def count_refused(self, reason: str) -> None:
        """Count a connection that is not let in."""
        self._counters.count(self._counters.refused, reason)

    def challenge(self, data: bytes) -> None:
        """Send a SASL challenge, and go on with what came meanwhile."""
        self._handle(self.engine.sasl_challenge(data, self._clock.now_ms()))

    def sasl_outcome(self, code: int, data: bytes | None) -> None:
        """End SASL, and go on with what came meanwhile."""
        self._handle(self.engine.sasl_outcome(code, data, self._clock.now_ms()))

    def peer_name(self) -> str:
        """Return where the client is, for logs."""
        return "?" if self.peer is None else f"{self.peer.host}:{self.peer.port}"

    # --- requests to other actors ---

    def carry_out(self, request: Coroutine[Any, Any, None]) -> None:
        """Run what needs other actors; if it fails, so does the connection."""
        run_for(self.cell, self, request)

    def carried_out(self, error: BaseException | None) -> None:
        """Go on behind a request."""
        if error is not None:
            log.error("a request of client %s failed", self.peer_name(), exc_info=error)
            self.end(AmqpError(conditions.INTERNAL_ERROR, "a fault of this broker; its log says more"))
        if self.engine.has_output:
            self.ask_flush()

    # --- messages of other actors ---

    def receive(self, message: Any) -> Any:
        """Handle deliveries, confirmations, or a word of another actor."""
        if isinstance(message, Deliveries):
            self._deliver(message)
        elif isinstance(message, Confirmed):
            self.sides.publishing.confirmed(message.token)
            self.read_control.answered(self.sides.publishing.unanswered_count)
        elif isinstance(message, Refused):
            self.sides.publishing.confirmed(message.token, message)
            self.read_control.answered(self.sides.publishing.unanswered_count)
        elif isinstance(message, Resume):
            self.read_control.resume()
        elif isinstance(message, FlowGone):
            self._flow_gone(message)
        elif isinstance(message, FlowDrained):
            self.sides.drained(message)
        elif isinstance(message, DurableSettlement):
            self.sides.consuming.stored(message)
        elif isinstance(message, Browsed):
            self._counters.messages_sent += self.sides.browsing.shown(message, self._clock.wall_ms())
        else:
            assert isinstance(message, FlowState)
            self.sides.consuming.assigned(message)
        return None

    def _deliver(self, message: Deliveries) -> None:
        consuming, counters = self.sides.consuming, self._counters
        sent, passed_over = consuming.sent_count, consuming.passed_over_count
        try:
            consuming.deliver(message, self._clock.wall_ms())
        except Exception:
            reject_unwritable(message, check_writable, self._tell_unwritable)
            raise
        counters.messages_sent += consuming.sent_count - sent
        if consuming.passed_over_count > passed_over:
            counters.count(counters.dropped, "no_local", consuming.passed_over_count - passed_over)

    def _tell_unwritable(self, sequence: int, error: Exception) -> None:
        tell_unwritable(self.services.events, self._counters, sequence, error, client=self.client)

    def drained(self) -> None:
        """Have everything of this turn written at its end."""
        if self.engine.has_output:
            self.ask_flush()

    def _flow_gone(self, message: FlowGone) -> None:
        condition = conditions.DETACH_FORCED if message.may_return else conditions.RESOURCE_DELETED
        error = AmqpError(condition, message.reason)
        consuming = self.sides.consuming.by_flow.get(message.flow_id)
        if consuming is not None:
            self.end_link(consuming.session, consuming.link, error)
        browsing = self.sides.browsing.by_flow.get(message.flow_id)
        if browsing is not None:
            self.end_link(browsing.session, browsing.link, error)

    # --- links ---

    def attach(
        self,
        session: Session,
        link: IncomingLink | OutgoingLink,
        *,
        source: Source | None,
        target: Target | Coordinator | None,
        can_be_stolen: bool = True,
    ) -> None:
        """Answer an attach that still waits with what is in force; what was attached as the same link before ends."""
        if can_be_stolen:
            self.services.registry.containers.attach(self, session, link)
        offered = [each for each in link.attach.desired if each in CAPABILITIES]
        self.engine.sessions.attach(session, link, source=source, target=target, offered=offered)

    def end_link(
        self, session: Session, link: IncomingLink | OutgoingLink, error: AmqpError, *, closed: bool = True
    ) -> None:
        """End a link by our own will. What it has of its own is kept as if the client had only detached it."""
        self._detached(link, closed=False)
        self.engine.sessions.detach(session, link, closed=closed, error=error)
        if self.engine.has_output:
            self.ask_flush()

    # --- the end ---

    def end(self, error: AmqpError) -> None:
        """Close the connection by our own will; the client's close, or the end of its patience, ends the transport."""
        self.engine.close(error, self._clock.now_ms())
        self.ask_flush()
        self._release()

    def send_away(self, reason: str, *, node_stops: bool = False) -> None:
        """End the connection because operators want it so, or the node stops. AMQP 2.8.16 has one word for both."""
        self.end(AmqpError(conditions.CONNECTION_FORCED, reason))
        self._close_transport()

    def _close_transport(self) -> None:
        self._release()
        self.flush()
        if self._transport is not None:
            self._transport.close_after_flush()

    def _release(self) -> None:
        """Let go of every link: what was delivered and not settled is delivered to somebody again."""
        if not self.is_released:
            self.is_released = True
            self.sides.connection_ends()
            for session in self.engine.sessions.by_channel.values():
                self._release_links(session)
            self.sides.connection_ended(self._clock.now_ms())
            registry = self.services.registry
            registry.temporary_nodes.end_of(self)
            registry.containers.closed(self)

    def fail(self) -> None:
        """Our own mistake: the client gets its messages again over another connection."""
        self._release()
        if self._transport is not None:
            self._transport.abort()
