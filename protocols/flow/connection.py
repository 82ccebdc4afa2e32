"""The actor of one flow connection: socket input, events, messages of other actors, and the end.

The module follows that order; output is in `FlowPeer` and `datapath.output`. It has no rule of messaging: `engine`
speaks the protocol, `requests` carries out what needs other actors, `datapath` has the two directions of messages.
"""

import logging
from typing import Any, Final, final

from sluicegate.actors.messages.data import Confirmed, Deliveries, PublishFailed, Resume, SharedDirect
from sluicegate.actors.messages.queues import Assignment, Browsed, FlowGone, FlowState
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.clients.rights import ClientDenied
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.protocols.connection.message_vpns import MessageVpns
from sluicegate.protocols.connection.passed_client import PassedClient
from sluicegate.protocols.connection.sasl import SaslDialogue
from sluicegate.protocols.connection.unwritable import reject_unwritable, report_unwritable
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.codes import FlowBroken, PeerViolation
from sluicegate.protocols.flow.codec.frames.link import VPN_FRAMES, Link, LinkMessages
from sluicegate.protocols.flow.codec.frames.publish import PublishesReceived
from sluicegate.protocols.flow.codec.frames.session import (
    NO_REQUEST,
    Auth,
    Close,
    Error,
    Goaway,
    Hello,
)
from sluicegate.protocols.flow.codec.frames.settle import Credit, Settle
from sluicegate.protocols.flow.codec.frames.subscription import Subscribe
from sluicegate.protocols.flow.datapath.consuming import check_writable
from sluicegate.protocols.flow.datapath.publishing import UNKNOWN_FLOW
from sluicegate.protocols.flow.engine.events import FlowEvent, FramesRelayed, PeerViolated
from sluicegate.protocols.flow.engine.frame_rules import CLOSED, OPEN
from sluicegate.protocols.flow.peer import RETRY_AFTER_MS, FlowPeer, FlowServices
from sluicegate.protocols.flow.publishers.publisher import FencePublisher
from sluicegate.protocols.flow.requests.handshake import authenticate, greet
from sluicegate.protocols.flow.requests.link import become_link, take_link_frame
from sluicegate.protocols.flow.requests.requests import SESSION_REQUESTS, SessionRequests, take_flow_request
from sluicegate.protocols.flow.requests.subscribe import take_subscribe
from sluicegate.protocols.transport.interface import READ_INTO_BYTES_MIN, SIBLINGS, ByteTransport, PeerInfo
from sluicegate.protocols.transport.stream.user import StreamUser
from sluicegate.protocols.transport.unfinished import COUNTED_BYTES_MIN, COUNTER, TEXT, UnfinishedShare

log = logging.getLogger("sluicegate.flow")

DRAIN_MS: Final = 2_000  # from GOAWAY until the gateway closes; it has to fit into the time a node takes to stop


class FlowConnection(FlowPeer, StreamUser):
    """The actor of one flow connection. The transport calls `opened`, `received`, `closed`; actors send messages."""

    def __init__(self, cell: ActorCell, vpns: MessageVpns[FlowServices]) -> None:
        super().__init__(cell, vpns)
        self.session_requests = SessionRequests()
        self._unfinished: UnfinishedShare | None = None  # of a frame that is not whole, if much of it has come
        self._is_going = False  # GOAWAY was sent: nothing more is delivered
        self._visitor: PassedClient | None = None  # who it is, as another broker of this machine has found out

    def visit(self, visitor: PassedClient) -> None:
        """Serve a publisher of a client that another broker of this machine has, and passes on (`datapath.relaying`).

        Call it before the stream is opened.
        """
        self._visitor = visitor

    def _join(self, visitor: PassedClient, transport: ByteTransport) -> None:
        try:
            self.enter(self.vpns.of_passed(visitor, self.services))
        except ClientDenied:
            # Its message VPN or profile has been deleted meanwhile. The other broker sees the end of the stream.
            transport.abort()
            return
        self.named(visitor.name)
        rights = self.identity.visit(visitor.principal, visitor.name, self._clock.now_ms())
        self.publishers.publisher.rights = rights
        self.read_control.limit(rights)
        self.engine.join()

    # --- the transport ---

    def opened(self, transport: ByteTransport, peer: PeerInfo) -> None:
        """Begin: the transport is ready."""
        self._transport = self.output.transport = transport
        self.read_control.attach(transport)
        self.subscriptions.write_control.attach(transport)
        self._peer = peer
        if self._visitor is not None:
            self._join(self._visitor, transport)
            return
        self.sasl = SaslDialogue(self.vpns, peer, allows_plain_unencrypted=self.services.allows_plain_unencrypted)
        self.enter(self.sasl.services)
        self.identity.is_sibling = peer.listener == SIBLINGS
        if not self.is_sibling:
            self._counters.connected += 1

    @property
    def stream(self) -> ByteTransport | None:
        """What is written to; None: it is gone."""
        return self._transport

    def write_to(self, stream: ByteTransport) -> None:
        """Write to another stream from now on, which leads to the same client. Not for a link."""
        self._transport = stream
        if self.output.transport is not None:
            self.output.transport = stream

    def is_within_packet(self) -> bool:
        """Return whether the beginning of a frame has come, and its rest has not."""
        return self.engine.unfinished_bytes > 0

    def received(self, data: bytes) -> None:
        """Handle bytes of the client; empty once a large frame was read into its buffer."""
        self._counters.bytes_received += len(data)
        self.traffic.bytes_received += len(data)
        dispatcher = self.runtime.dispatcher
        now_ms, wall_ms = dispatcher.begin_read()
        try:
            self._handle(self.engine.feed(data, now_ms, wall_ms))
        finally:
            dispatcher.end_read()
        if self.engine.missing_bytes >= READ_INTO_BYTES_MIN and self._transport is not None:
            self._transport.read_into(FrameReadTarget(self))
        self.count_unfinished()

    def count_unfinished(self) -> None:
        """Count the bytes of an incomplete frame in the total of all clients."""
        held_bytes = self.engine.unfinished_bytes
        if held_bytes >= COUNTED_BYTES_MIN or self._unfinished is not None:
            self._unfinished = self.services.unfinished.count(self._unfinished, held_bytes, self._give_up)

    def _give_up(self) -> None:
        self.cell.after(0, self._end_unfinished)

    def _end_unfinished(self) -> None:
        """End the connection, unless the frame is complete meanwhile: the total of incomplete frames is too large."""
        if self.engine.unfinished_bytes >= COUNTED_BYTES_MIN and self.engine.phase != CLOSED:
            self.engine.fail(codes.LIMIT_EXCEEDED, TEXT)
            self._counters.count(self._counters.violated, COUNTER)
            log.info("connection of client %r at %s ends: %s", self.client, self.peer_name(), TEXT)
            self._close_transport()

    def tick(self, now_ms: int) -> None:
        """Check keep-alive, silent clients, and authentications that take too long."""
        if self.read_control.stopped:
            self.engine.alive(now_ms)  # a client that we do not read from cannot show that it is alive
        self._handle(self.engine.tick(now_ms))
        if self.identity.is_over(self.cell.runtime.clock) and not self.is_released:
            self.end(codes.NOT_AUTHENTICATED, "the token has expired")

    def stalled(self, stall_ms: int, now_ms: int) -> None:
        """Do not count a time in which this broker read nothing."""
        self.engine.stalled(stall_ms, now_ms)

    def closed(self, error: Exception | None) -> None:
        """The transport is gone."""
        self._transport = None
        self._link_gone("the connection was lost" if error is None else str(error) or type(error).__name__)
        self.engine.drop()  # free it now: the garbage collector counts objects, not bytes
        self.count_unfinished()
        self.read_control.attach(None)
        self._release()
        self.identity.close()
        self.output.end()
        self.bulk_reads.end()
        self.cell.stop()

    def writing_paused(self) -> None:
        """The client reads more slowly than we write."""
        self.output.paused()
        if self.link is not None:
            self.link.paused()
        self.subscriptions.write_control.writing_paused()
        if self.relays is not None:
            self.relays.hold_back(True)
        self._hold_back(True)

    def writing_resumed(self) -> None:
        """The client has caught up."""
        self.output.resumed()
        if self.link is not None:
            self.link.resumed()
        self.subscriptions.write_control.writing_resumed()
        if self.relays is not None:
            self.relays.hold_back(False)
        if not self._is_going:
            self._hold_back(False)
            self._ask_flush()

    @property
    def is_writing_paused(self) -> bool:
        """Whether the client reads slower than we write."""
        return self.output.is_full

    def _hold_back(self, is_full: bool) -> None:
        self.consumers.hold_back(is_full)
        self.browsers.hold_back(is_full)
        self.bulk_reads.hold_back(is_full)

    # --- events of the engine ---

    def _handle(self, events: list[FlowEvent]) -> None:
        try:
            for event in events:
                if isinstance(event, PublishesReceived):
                    self._publish(event)
                elif isinstance(event, Settle):
                    flow = self.consumers.flows.get(event.flow_id)
                    if flow is not None:
                        self.consumers.settle(flow, event)
                    else:
                        self.ids.check_ended(event.flow_id)
                elif isinstance(event, Credit):
                    self._credit(event)
                elif isinstance(event, FramesRelayed):
                    self._relay(event)
                elif isinstance(event, LinkMessages):
                    take_link_frame(self, event)
                else:
                    self._handle_rare(event)
                if self.is_released:
                    break  # one of them ended the connection
        except PeerViolation as violation:
            self.end(violation.code, violation.text)
        self._ask_flush()

    def _handle_rare(self, event: FlowEvent) -> None:
        if isinstance(event, Hello):
            welcome = greet(self, event)
            if welcome is not None:
                self._handle(self.engine.welcome(welcome, self._clock.wall_ms()))
        elif isinstance(event, Auth):
            self.read_control.busy(True)
            self.carry_out(self._authenticate(event))
        elif isinstance(event, SESSION_REQUESTS):
            self.session_requests.take(self, event)
        elif isinstance(event, Subscribe):
            take_subscribe(self, event)
        elif isinstance(event, Close):
            if self.link is not None:
                self.link.reason, self.link.code = event.text or "the neighbor closed the connection", event.code
            self._close_transport()
        elif isinstance(event, PeerViolated):
            self._violated(event.code, event.text)
        elif isinstance(event, Link):
            become_link(self, event)
        elif isinstance(event, VPN_FRAMES):
            take_link_frame(self, event)
        else:
            take_flow_request(self, event)

    async def _authenticate(self, auth: Auth) -> None:
        """Answer AUTH, and handle frames that came meanwhile."""
        answer = await authenticate(self, auth)
        if answer is not None:
            self.read_control.busy(False)
            self._handle(self.engine.auth_answer(answer, self._clock.wall_ms()))

    def _publish(self, event: PublishesReceived) -> None:
        flow_id = event.flow_id
        self.count_received(len(event.sequences))
        if flow_id and flow_id not in self.publishers.flows:
            self.ids.check_ended(flow_id)
        try:
            self.publishers.publish(event, self._clock.wall_ms())
        except FlowBroken as broken:
            self._break(flow_id, broken.code, broken.text)
        self.read_control.published(self.publishers.publisher.pressures, self.publishers.unanswered_count)

    def _relay(self, event: FramesRelayed) -> None:
        relayed = None if self.relays is None else self.relays.flows.get(event.flow_id)
        if relayed is None:
            self._counters.count(self._counters.dropped, UNKNOWN_FLOW, len(event.frames))
        else:
            self.traffic.messages_received += len(event.frames)  # the home has them in the counters of the protocol
            relayed.send(event.frames)

    def _credit(self, credit: Credit) -> None:
        flow = self.consumers.flows.get(credit.flow_id)
        browser = self.browsers.flows.get(credit.flow_id)
        bulk_read = self.bulk_reads.flows.get(credit.flow_id)
        if flow is not None:
            self.consumers.credit(flow, credit)
        elif browser is not None:
            self.browsers.credit(browser, credit.delivery_id_max)
        elif bulk_read is not None:
            self.bulk_reads.credit(bulk_read, credit.delivery_id_max)
        else:
            self.ids.check_ended(credit.flow_id)

    def _break(self, flow_id: int, code: int, text: str, retry_after_ms: int | None = None) -> None:
        """End a publisher: its client violated the protocol, or it is open, or will be, elsewhere."""
        flow = self.publishers.flows.get(flow_id)
        if flow is not None:
            self.close_publisher(flow)
            self.send(Error(flow_id, NO_REQUEST, code, text, retry_after_ms).encode())

    # --- requests to other actors ---

    def carried_out(self, error: BaseException | None) -> None:
        """Finish a request."""
        if error is not None:
            log.error("a request of client %s failed", self.peer_name(), exc_info=error)
            self.end(codes.INTERNAL, "a fault of this gateway; its log says more")
        self._ask_flush()

    # --- messages of other actors ---

    def receive(self, message: Any) -> Any:
        """Handle deliveries, confirmations, or another message of an actor."""
        if isinstance(message, Deliveries):
            self._deliver(message)
        elif isinstance(message, (MessageBatch, SharedDirect)):
            self.output.flows.append(self.subscriptions.receive(message, self._clock.wall_ms()))
        elif isinstance(message, Confirmed):
            self.publishers.confirmed(message.token, "", self._clock.wall_ms())
            self.read_control.answered(self.publishers.unanswered_count)
        elif isinstance(message, PublishFailed):
            self.publishers.confirmed(message.token, message.text())
            self.read_control.answered(self.publishers.unanswered_count)
        elif isinstance(message, Resume):
            self.read_control.resume()
        else:
            self._receive_rare(message)
        return None

    def _deliver(self, message: Deliveries) -> None:
        before = self.consumers.sent_count
        try:
            self.consumers.deliver(message, self._clock.wall_ms())
        except Exception:
            reject_unwritable(message, check_writable, self._report_unwritable)
            raise
        sent_count = self.consumers.sent_count - before
        self._counters.messages_sent += sent_count
        self.traffic.messages_sent += sent_count

    def _report_unwritable(self, sequence: int, error: Exception) -> None:
        report_unwritable(self.services.events, self._counters, sequence, error, client=self.client)

    def _receive_rare(self, message: Any) -> None:
        if isinstance(message, FlowState):
            flow = self.consumers.by_urn.get(message.flow_id)
            if flow is not None:
                self.ids.answered(flow.flow_id)
                self.consumers.state(flow, set(message.partitions))
        elif isinstance(message, FlowGone):
            flow = self.consumers.by_urn.get(message.flow_id)
            retry_after_ms = RETRY_AFTER_MS if message.may_return else None
            if flow is not None:
                self.ids.answered(flow.flow_id)
                self.consumers.end(flow, message.reason, retry_after_ms)
            else:
                self.browsers.end(message.flow_id, message.reason, retry_after_ms)
        elif isinstance(message, Browsed):
            self.browsers.shown(message)
        elif isinstance(message, Assignment):
            flow = self.consumers.by_urn.get(message.flow_id)
            if flow is not None:
                self.consumers.assignment(flow, message, self._clock.now_ms())
        else:
            assert isinstance(message, FencePublisher), f"nobody sends {message!r} here"
            self._fenced(message)

    def _fenced(self, message: FencePublisher) -> None:
        for flow in list(self.publishers.flows.values()):
            if flow.named is not message.publisher:
                continue
            if message.moves:
                text = "the publisher moves to another broker of this machine"
                self._break(flow.flow_id, codes.DISABLED, text, RETRY_AFTER_MS)
            else:
                self._break(flow.flow_id, codes.FENCED, "the publisher was opened again")

    def turn_ended(self) -> None:
        """Flush at the end of this turn."""
        self._ask_flush()

    # --- the end; handlers end a connection by `FlowPeer.end` ---

    def send_away(self, reason: str, *, node_stops: bool = False) -> None:
        """Send the client away after its messages in flight: on an operator's request, or because the node stops."""
        if self.engine.phase != OPEN:
            self._close_transport()
        elif self.link is not None:
            self.link.end(codes.SHUTTING_DOWN if node_stops else codes.ADMINISTRATIVE_ACTION, reason)
        elif not self._is_going:
            self._is_going = True
            self._hold_back(True)
            code = codes.SHUTTING_DOWN if node_stops else codes.ADMINISTRATIVE_ACTION
            self.send(Goaway(code, reason, DRAIN_MS).encode())
            self.cell.after(DRAIN_MS, lambda: self._drain_is_over(code, reason))

    def _drain_is_over(self, code: int, text: str) -> None:
        if self._transport is not None:
            self.leave(code, text)


@final
class FrameReadTarget:
    """Reads the rest of a large frame directly into its own memory. A `ReadTarget`."""

    def __init__(self, connection: "FlowConnection") -> None:
        self._connection = connection

    def buffer(self) -> memoryview | None:
        """Return memory for the missing bytes."""
        return self._connection.engine.buffer()

    def filled(self, count: int) -> None:
        """Count the bytes, and have the frame handled once it is complete."""
        connection = self._connection
        connection.services.counters.bytes_received += count
        connection.traffic.bytes_received += count
        connection.engine.alive(connection.runtime.dispatcher.both_ms()[0])
        if connection.engine.filled(count):
            connection.received(b"")
        else:
            connection.count_unfinished()
