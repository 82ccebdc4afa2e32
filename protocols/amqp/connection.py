"""One AMQP connection: bytes of the transport, events of the engine, and messages of other actors, dispatched.

It holds no rule of AMQP: the engine speaks the protocol, `handshake` lets clients in, `links` carries out what needs
other actors, and the endpoints of the client carry its messages (`client`).
"""

import logging
from typing import Any, final

from sluicegate.actors.messages.data import Confirmed, Deliveries, PublishFailed, Resume
from sluicegate.actors.messages.queues import Browsed, FlowDrained, FlowGone, FlowState
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.inbox import Flushed, Scheduled
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.clients.names import name_by_broker
from sluicegate.messaging.clients.rights import ClientDenied
from sluicegate.messaging.observability.events import CLIENT_FLOW_CLOSED
from sluicegate.protocols.amqp.client import AmqpClient, AmqpServices, Endpoints
from sluicegate.protocols.amqp.codec.delivery_states import TRANSACTIONAL, AmqpError
from sluicegate.protocols.amqp.codec.performatives import Open
from sluicegate.protocols.amqp.datapath.consuming import RunSettlement, check_writable
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
    OpenAnnounced,
    OpenReceived,
    PeerViolated,
    SaslInitReceived,
    SaslResponseReceived,
    SessionEnded,
    WindowOpened,
)
from sluicegate.protocols.amqp.engine.link import CLOSING, IncomingLink, OutgoingLink
from sluicegate.protocols.amqp.engine.session import Session
from sluicegate.protocols.amqp.handshake.open import answer_open
from sluicegate.protocols.amqp.handshake.sasl import AmqpSasl
from sluicegate.protocols.amqp.links.attach_receiver import attach_consumer, end_browser, end_consumer
from sluicegate.protocols.amqp.links.attach_sender import attach_publisher
from sluicegate.protocols.amqp.links.coordinator import coordinators_of
from sluicegate.protocols.amqp.links.subscriptions import answer_close, end_found_subscription
from sluicegate.protocols.amqp.types import errors as conditions
from sluicegate.protocols.connection.forwarding import NotForwarded
from sluicegate.protocols.connection.message_vpns import MessageVpns
from sluicegate.protocols.connection.passed_client import PassedClient
from sluicegate.protocols.connection.sasl import ANONYMOUS_NAME
from sluicegate.protocols.connection.unwritable import reject_unwritable, report_unwritable
from sluicegate.protocols.connection.write_control import write_gathered
from sluicegate.protocols.transport.interface import ByteTransport, PeerInfo
from sluicegate.protocols.transport.stream.user import StreamUser
from sluicegate.protocols.transport.unfinished import COUNTED_BYTES_MIN, COUNTER, TEXT, UnfinishedShare

log = logging.getLogger("sluicegate.amqp")


@final
class AmqpConnection(AmqpClient, Flushed, StreamUser):
    """One AMQP client. Its transport calls `opened`, `received`, `closed`; its actor brings messages."""

    def __init__(self, cell: ActorCell, vpns: MessageVpns[AmqpServices]) -> None:
        super().__init__(cell, vpns)
        self.sasl: AmqpSasl | None = None  # None until the transport is there, and when the client is in
        self._transport: ByteTransport | None = None
        self._passed: PassedClient | None = None  # who it is, as another broker of this machine has found out
        self._flush_requested = False
        self._unfinished: UnfinishedShare | None = None  # of what is not whole, if much of it has come

    def passed(self, client: PassedClient) -> None:
        """Go on with a client at its open, behind the handshake that another broker of this machine has done.

        Call it before the stream is opened.
        """
        self._passed = client

    # --- the transport ---

    def opened(self, transport: ByteTransport, peer: PeerInfo) -> None:
        """Begin: the transport is ready."""
        self._transport = transport
        self.read_control.attach(transport)
        self.peer = peer
        if self._passed is not None:
            self._join(self._passed, transport)
            return
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
        if self.services.forwarding is not None:
            self.engine.stop_at_open()

    def _join(self, client: PassedClient, transport: ByteTransport) -> None:
        try:
            self.enter(self.vpns.of_passed(client, self.services))
        except ClientDenied:  # its message VPN or profile has been deleted meanwhile
            transport.abort()
            return
        self.identity.authenticated(client.principal)
        limits, container_id = self.services.limits, self.services.container_id
        now_ms = self._clock.now_ms()
        self.engine = AmqpEngine(limits, now_ms, container_id=container_id, mechanisms=[], allows_bare=False)
        self.engine.join()

    @property
    def stream(self) -> ByteTransport | None:
        """What is written to; None: it is gone."""
        return self._transport

    def write_to(self, stream: ByteTransport) -> None:
        """Write to another stream from now on, which leads to the same client."""
        self._transport = stream

    def is_within_packet(self) -> bool:
        """Return whether the beginning of a frame has come, and its rest has not."""
        return bool(self.engine.unread)

    def received(self, data: bytes) -> None:
        """Handle bytes of the client."""
        self._counters.bytes_received += len(data)
        self.traffic.bytes_received += len(data)
        dispatcher = self.runtime.dispatcher
        now_ms, _ = dispatcher.begin_read()
        try:
            self.handle(self.engine.feed(data, now_ms))
        finally:
            dispatcher.end_read()
        self._count_unfinished()

    def _count_unfinished(self) -> None:
        """Count the bytes of unfinished frames and deliveries among those of all clients."""
        held_bytes = self.engine.unfinished_bytes
        if held_bytes >= COUNTED_BYTES_MIN or self._unfinished is not None:
            self._unfinished = self.services.unfinished.count(self._unfinished, held_bytes, self._give_up)

    def _give_up(self) -> None:
        self.cell.after(0, self._end_unfinished)

    def _end_unfinished(self) -> None:
        """End, unless the input is complete meanwhile: all clients together have too much unfinished input."""
        if self.engine.unfinished_bytes >= COUNTED_BYTES_MIN and not self.is_released:
            self._counters.count(self._counters.violated, COUNTER)
            log.info("disconnecting client %r at %s: %s", self.client_name, self.peer_name(), TEXT)
            self.engine.fail(conditions.RESOURCE_LIMIT_EXCEEDED, TEXT, self._clock.now_ms())
            self._close_transport()

    def tick(self, now_ms: int) -> None:
        """Bring time: heartbeats, silence, handshakes that take too long."""
        if self.read_control.stopped:
            self.engine.alive(now_ms)  # a client that we do not read from cannot show that it is alive
        self.handle(self.engine.tick(now_ms))
        self.services.registry.temporary_nodes.delete_ended(self)
        self.endpoints.tick(now_ms)
        if self.identity.is_over(self.runtime.clock) and not self.is_released:
            self.end(AmqpError(conditions.UNAUTHORIZED_ACCESS, "the token has expired"))

    def stalled(self, stall_ms: int, now_ms: int) -> None:
        """Do not count a time in which this broker read nothing."""
        self.engine.stalled(stall_ms, now_ms)
        self.endpoints.stalled(stall_ms)

    def closed(self, error: Exception | None) -> None:
        """The transport is gone."""
        self._transport = None
        self.read_control.attach(None)
        self._release()
        self.engine.drop()
        self._count_unfinished()
        self.endpoints.end()
        self.sasl = None
        self.identity.close()
        self.cell.stop()

    def writing_paused(self) -> None:
        """The client reads slower than we write."""
        self.endpoints.pause_output(True, self._clock.wall_ms())

    def writing_resumed(self) -> None:
        """The client has caught up."""
        self.count_sent(self.endpoints.pause_output(False, self._clock.wall_ms()))
        self.turn_ended()

    @property
    def is_writing_paused(self) -> bool:
        """Whether the client reads slower than we write."""
        return self.endpoints.is_full

    def request_flush(self) -> None:
        """Write the engine's output at the end of this turn."""
        if not self._flush_requested:
            self._flush_requested = True
            self.runtime.dispatcher.at_turn_end(self)

    def owner(self) -> Scheduled | None:
        """Return the actor that fails if writing does."""
        return self.cell

    def flush(self) -> None:
        """Write, once for everything of this turn."""
        self._flush_requested = False
        pieces = self.engine.take()
        transport = self._transport
        if transport is not None and pieces:
            self.engine.wrote(self._clock.now_ms())
            self.traffic.bytes_sent += write_gathered(transport, pieces, self._counters)
            if self.endpoints.is_full and self.endpoints.ignores_responses(pieces, transport):
                self._counters.count(self._counters.violated, "answers_not_read")
                log.info("client %r at %s does not read responses; disconnecting", self.client_name, self.peer_name())
                self.fail()

    # --- events of the engine ---

    def handle(self, events: list[AmqpEvent]) -> None:
        """Handle events of the engine, the frequent ones first."""
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
            self.request_flush()

    def _handle_rare(self, event: AmqpEvent) -> None:
        if isinstance(event, AttachReceived):
            link = event.link
            if self.is_released:
                return  # it was sent before the client received the close
            if isinstance(link, IncomingLink):
                self.carry_out(attach_publisher(self, event.session, link))
            else:
                self.carry_out(attach_consumer(self, event.session, link))
        elif isinstance(event, CreditSpent):
            self.endpoints.top_up(event.link)
        elif isinstance(event, WindowOpened):
            self.count_sent(self.endpoints.window_opened(event.session, self._clock.wall_ms()))
        elif isinstance(event, LinkDetached):
            deletion = self._detached(event.link, closed=event.closed)
            if isinstance(event.link, OutgoingLink) and event.link.state == CLOSING:
                self.carry_out(answer_close(self, event.session, event.link, deletion))
        elif isinstance(event, SessionEnded):
            self._session_ended(event.session)
        elif isinstance(event, OpenReceived):
            self._open(event.peer)
        elif isinstance(event, OpenAnnounced):
            self._announced(event.container_id)
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
        if self.endpoints.is_coordinator(event.link):
            coordinators_of(self).control(event, self._clock.now_ms())
            return
        self._counters.messages_received += len(event.delivery_ids)
        self.traffic.messages_received += len(event.delivery_ids)
        publishers = self.endpoints.publishers
        if event.txn_id is None:
            publishers.publish(event, self.runtime.dispatcher.both_ms()[1])
        else:
            now_ms, wall_ms = self.runtime.dispatcher.both_ms()
            coordinators_of(self).publish(event, now_ms, wall_ms)
        self.read_control.published(publishers.publisher.pressures, publishers.unanswered_count)

    def _disposition(self, event: DispositionReceived) -> None:
        """Settle deliveries that the client received; what it says of deliveries that it sent is ignored."""
        state = event.disposition.state
        if not event.disposition.is_receiver:
            return
        if state is not None and state.code == TRANSACTIONAL:
            coordinators_of(self).retire(event.session, event.disposition, self._clock.now_ms())
        else:
            self.endpoints.consumers.disposition(event.session, event.disposition)

    def _announced(self, container_id: str) -> None:
        """Have the client served at the home of its container: here, or by another broker, which reads the open."""
        forwarding, transport, peer = self.services.forwarding, self._transport, self.peer
        if transport is None or peer is None:
            return
        assert forwarding is not None, "nobody else asked"
        homes = forwarding.homes
        home = homes.home_of(container_id) if container_id else homes.here
        if home == homes.here:
            self.handle(self.engine.go_on(self._clock.now_ms()))
            return
        self.flush()  # the end of the handshake
        granted = self.services.authenticator.granted(self.identity.user)
        client = PassedClient(self.identity.vpn, "", self.identity.principal(), granted)
        try:
            forwarding.forward(home, transport, peer, self.engine.unread, about=client.encode(b""))
        except NotForwarded as error:
            self.count_refused(error.counter)
            log.info("client %r at %s refused: %s", container_id, self.peer_name(), error.text)
            self.end(AmqpError(conditions.CONNECTION_FORCED, error.text))
        else:
            self.closed(None)

    def _open(self, peer: Open) -> None:
        self.container_id = peer.container_id
        broker = self.services.space.broker
        self.client_name = peer.container_id or name_by_broker("amqp", broker, self.number)
        self.sasl = None
        error = answer_open(self, peer)
        self.endpoints = Endpoints(self, is_full=self.endpoints.is_full)
        if error is not None:
            self.end(error)

    def _detached(self, link: IncomingLink | OutgoingLink, *, closed: bool) -> LoopFuture[bool] | None:
        """Release a link, and what belongs to it alone. Return the answer to the deletion of its subscription."""
        deletion: LoopFuture[bool] | None = None
        if isinstance(link, IncomingLink):
            self._end_publisher(link, closed=closed)
            self.endpoints.coordinator_detached(link)
        else:
            consumer = self.endpoints.consumers.by_link.get(link)
            if consumer is not None:
                deletion = end_consumer(self, consumer, closed=closed)
            browsing = self.endpoints.browsing_link(link)
            if browsing is not None:
                end_browser(self, browsing)
            deletion = deletion or end_found_subscription(self, link, closed=closed)
        registry = self.services.registry
        registry.containers.detached(link)
        registry.temporary_nodes.detached(link, closed=closed)
        return deletion

    def _end_publisher(self, link: IncomingLink, *, closed: bool) -> None:
        if link in self.endpoints.publishers.links:
            self.endpoints.publishers.detached(link, closed=closed, now_ms=self._clock.now_ms())
            self.report_flow(CLIENT_FLOW_CLOSED, link)

    def _session_ended(self, session: Session) -> None:
        self.endpoints.session_ends(session)
        self._release_links(session)
        self.endpoints.session_ended(session, self._clock.now_ms())

    def _release_links(self, session: Session) -> None:
        for link in session.links():
            self._detached(link, closed=False)

    def _violated(self, event: PeerViolated) -> None:
        rule = event.condition or "handshake"
        self._counters.count(self._counters.violated, rule)
        log.info("protocol error from client %r at %s (%s): %s", self.client_name, self.peer_name(), rule, event.text)
        self._close_transport()

    # --- requests to other actors ---

    def carried_out(self, error: BaseException | None) -> None:
        """Continue after a request."""
        if error is not None:
            log.error("a request of client %s failed", self.peer_name(), exc_info=error)
            self.end(AmqpError(conditions.INTERNAL_ERROR, "a fault of this broker; its log says more"))
        if self.engine.has_output:
            self.request_flush()

    # --- messages of other actors ---

    def receive(self, message: Any) -> Any:
        """Handle deliveries, confirmations and other messages of actors."""
        if isinstance(message, Deliveries):
            self._deliver(message)
        elif isinstance(message, Confirmed):
            self.endpoints.publishers.confirmed(message.token, None, self._clock.wall_ms())
            self.read_control.answered(self.endpoints.publishers.unanswered_count)
        elif isinstance(message, PublishFailed):
            self.endpoints.publishers.confirmed(message.token, message)
            self.read_control.answered(self.endpoints.publishers.unanswered_count)
        elif isinstance(message, Resume):
            self.read_control.resume()
        elif isinstance(message, FlowGone):
            self._flow_gone(message)
        elif isinstance(message, FlowDrained):
            self.endpoints.drained(message)
        elif isinstance(message, RunSettlement):
            self.endpoints.consumers.stored(message)
        elif isinstance(message, Browsed):
            self.count_sent(self.endpoints.browsers.shown(message, self._clock.wall_ms()))
        else:
            assert isinstance(message, FlowState)
            self.endpoints.consumers.assigned(message)
        return None

    def _deliver(self, message: Deliveries) -> None:
        consumers, counters = self.endpoints.consumers, self._counters
        sent, skipped = consumers.sent_count, consumers.skipped_count
        try:
            consumers.deliver(message, self._clock.wall_ms())
        except Exception:
            reject_unwritable(message, check_writable, self._report_unwritable)
            raise
        self.count_sent(consumers.sent_count - sent)
        if consumers.skipped_count > skipped:
            counters.count(counters.dropped, "no_local", consumers.skipped_count - skipped)

    def _report_unwritable(self, sequence: int, error: Exception) -> None:
        report_unwritable(self.services.events, self._counters, sequence, error, client=self.client_name)

    def turn_ended(self) -> None:
        """Write the output of this turn at its end."""
        if self.engine.has_output:
            self.request_flush()

    def _flow_gone(self, message: FlowGone) -> None:
        condition = conditions.DETACH_FORCED if message.may_return else conditions.RESOURCE_DELETED
        error = AmqpError(condition, message.reason)
        consumer = self.endpoints.consumers.by_flow.get(message.flow_id)
        if consumer is not None:
            self.end_link(consumer.session, consumer.link, error)
        browsing = self.endpoints.browsers.by_flow.get(message.flow_id)
        if browsing is not None:
            self.end_link(browsing.session, browsing.link, error)

    # --- links ---

    def end_link(
        self, session: Session, link: IncomingLink | OutgoingLink, error: AmqpError, *, closed: bool = True
    ) -> None:
        """End a link by the broker's will. Its own queue and state are kept as if the client had only detached it."""
        self._detached(link, closed=False)
        self.engine.sessions.detach(session, link, closed=closed, error=error)
        if self.engine.has_output:
            self.request_flush()

    # --- the end ---

    def end(self, error: AmqpError) -> None:
        """Close the connection by the broker's will; the client's close, or a timeout, ends the transport."""
        self.engine.close(error, self._clock.now_ms())
        self.request_flush()
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
        """Release every link: what was delivered and not settled is delivered again."""
        if not self.is_released:
            self.is_released = True
            self.endpoints.connection_ends()
            for session in self.engine.sessions.by_channel.values():
                self._release_links(session)
            self.endpoints.connection_ended(self._clock.now_ms())
            registry = self.services.registry
            registry.temporary_nodes.end_of(self)
            registry.containers.closed(self)

    def fail(self) -> None:
        """A fault of the broker: the client gets its messages again over another connection."""
        self._release()
        if self._transport is not None:
            self._transport.abort()
