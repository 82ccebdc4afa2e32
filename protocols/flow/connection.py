"""One flow connection: a client's transport and engine, and both directions of its messages, brought together.

It holds no rule of messaging: the engine speaks the protocol, `greeting` lets clients in, `client_requests` sees to
what they ask for, `publishing` and `consuming` are the two directions of the data path.
"""

import logging
from collections.abc import Coroutine
from typing import Any, Final, final

from sluicegate.actors.messages.data import Confirmed, Deliveries, PublishFailed, Resume, SharedDirect
from sluicegate.actors.messages.partitions import Assignment
from sluicegate.actors.messages.queues import Browsed, FlowGone, FlowState, UnbindFlow
from sluicegate.actors.publishing.publisher import Publisher
from sluicegate.actors.runtime.runtime import ActorCell, Behaviour
from sluicegate.actors.runtime.tasks import run_for
from sluicegate.messaging.clients.rights import (
    LOGINS_BUSY,
    NOT_AUTHENTICATED,
    TOO_MANY_CONNECTIONS,
    VPN_DOWN,
    VPN_UNKNOWN,
    ClientDenied,
)
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.observability.events import CLIENT_CONNECTED, CLIENT_DISCONNECTED, EventKind
from sluicegate.protocols.connection.identity import Identity
from sluicegate.protocols.connection.message_vpns import MessageVpns
from sluicegate.protocols.connection.read_control import ReadControl
from sluicegate.protocols.connection.sasl import SaslDialogue
from sluicegate.protocols.connection.unwritable import reject_unwritable, tell_unwritable
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.errors import FlowBroken, PeerViolation
from sluicegate.protocols.flow.codec.frames.publish import PublishesReceived
from sluicegate.protocols.flow.codec.frames.session import (
    NO_REQUEST,
    Auth,
    AuthAnswer,
    Close,
    Error,
    Goaway,
    Hello,
    Welcome,
)
from sluicegate.protocols.flow.codec.frames.settle import Credit, Settle
from sluicegate.protocols.flow.datapath.browsing import BrowsingSide
from sluicegate.protocols.flow.datapath.bulk_reads import ReadingSide
from sluicegate.protocols.flow.datapath.consuming import ConsumingSide, FlowIds, check_writable
from sluicegate.protocols.flow.datapath.output import Output
from sluicegate.protocols.flow.datapath.publishing import PublishingSide
from sluicegate.protocols.flow.datapath.subscribing import SubscribingSide
from sluicegate.protocols.flow.engine.engine import FlowEngine
from sluicegate.protocols.flow.engine.events import FlowEvent, PeerViolated
from sluicegate.protocols.flow.engine.frame_rules import CLOSED, OPEN
from sluicegate.protocols.flow.publishers.messages import FencePublisher
from sluicegate.protocols.flow.requests.bind import RETRY_AFTER_MS, close_publisher
from sluicegate.protocols.flow.requests.handshake import authenticate, greet
from sluicegate.protocols.flow.requests.requests import SessionRequests, take_request
from sluicegate.protocols.flow.services import FlowServices
from sluicegate.protocols.security.authentication import Principal
from sluicegate.protocols.transport.interface import READ_INTO_BYTES_MIN, ByteTransport, PeerInfo
from sluicegate.protocols.transport.unfinished import COUNTED_BYTES_MIN, COUNTER, TEXT, UnfinishedShare

# Where the rest of a peer's large frame is read to: its own memory, not one for reads.


@final
class FrameReadTarget:
    """Stands between the transport of a client that sends something large, and its engine. A `ReadTarget`."""

    def __init__(self, connection: "FlowConnection") -> None:
        self._connection = connection

    def buffer(self) -> memoryview | None:
        """Return memory for what is missing."""
        return self._connection.engine.buffer()

    def filled(self, count: int) -> None:
        """Have the frame read once it is whole."""
        connection = self._connection
        connection.services.counters.bytes_received += count
        connection.engine.alive(connection.runtime.dispatcher.both_ms()[0])
        if connection.engine.filled(count):
            connection.received(b"")
        else:
            connection.count_unfinished()


log = logging.getLogger("sluicegate.flow")

DENIAL_CODES: Final[dict[str, int]] = {
    LOGINS_BUSY: codes.LIMIT_EXCEEDED,
    TOO_MANY_CONNECTIONS: codes.LIMIT_EXCEEDED,
    VPN_DOWN: codes.VPN_UNAVAILABLE,
    VPN_UNKNOWN: codes.VPN_NOT_ALLOWED,
}
DRAIN_MS: Final = 2_000  # from GOAWAY until the gateway closes; it has to fit into the time a node takes to stop


class FlowConnection(Behaviour):
    """One flow client. Its transport calls `opened`, `received`, `closed`; its actor brings messages."""

    def __init__(self, cell: ActorCell, vpns: MessageVpns[FlowServices]) -> None:
        self.cell = cell
        self.runtime = cell.runtime
        services = vpns.default
        self.vpns = vpns
        self.services = services  # of the message VPN that the client is in
        self.client = ""  # its name, from HELLO on
        self.identity = Identity(services.clients, cell.runtime.clock)
        self.ids = FlowIds()
        self.engine = FlowEngine(
            is_gateway=True,
            frame_bytes_max=services.limits.frame_bytes_max,
            connect_timeout_ms=services.limits.connect_timeout_ms,
            keep_alive_ms=services.limits.keep_alive_ms,
            now_ms=cell.runtime.clock.now_ms(),
        )
        self.read_control = ReadControl(cell.inbox)
        self.output = Output(cell, self.engine, services.counters, gather=self._gather, give_up=self._cut_off)
        self.consuming = ConsumingSide(self.output.flows, self.engine.send, cell.runtime.dispatcher)
        self.publishing = PublishingSide(
            publisher=self._publisher(services),
            client="",
            counters=services.counters,
        )
        self.browsing = BrowsingSide(self.output.flows, cell.runtime.clock.wall_ms, services.counters)
        self.reading = ReadingSide()
        self.subscribing = SubscribingSide(self)
        self.session_requests = SessionRequests()
        self.sasl: SaslDialogue[FlowServices] | None = None  # None until the transport is there
        self._peer: PeerInfo | None = None
        self._clock = cell.runtime.clock
        self._counters = services.counters
        self._transport: ByteTransport | None = None
        self._unfinished: UnfinishedShare | None = None  # of a frame that is not whole, if much of it has come
        self._is_going = False  # GOAWAY was sent: nothing more is delivered
        self._is_known = False  # it has shown who it is
        self._is_released = False  # every flow was let go of

    # --- the transport ---

    def opened(self, transport: ByteTransport, peer: PeerInfo) -> None:
        """Begin: the transport is ready."""
        self._transport = self.output.transport = transport
        self.read_control.attach(transport)
        self.subscribing.write_control.attach(transport)
        self._peer = peer
        self.sasl = SaslDialogue(self.vpns, peer, allows_plain_unencrypted=self.services.allows_plain_unencrypted)
        self.enter(self.sasl.services)
        self._counters.connected += 1

    def enter(self, services: FlowServices) -> None:
        """Be in the message VPN of these services; not later than when the client has shown who it is."""
        if services is not self.services:
            self.services = services
            self.identity.enter(services.clients)
            self.publishing.publisher = self._publisher(services)

    def _publisher(self, services: FlowServices) -> Publisher:
        address, rng = self.cell.inbox, self.runtime.rng
        return Publisher(space=services.space, spool=services.spool, address=address, rng=rng)

    def received(self, data: bytes) -> None:
        """Handle bytes of the client; none, once a frame was placed."""
        self._counters.bytes_received += len(data)
        now_ms, wall_ms = self.runtime.dispatcher.both_ms()
        self._handle(self.engine.feed(data, now_ms, wall_ms))
        if self.engine.missing_bytes >= READ_INTO_BYTES_MIN and self._transport is not None:
            self._transport.read_into(FrameReadTarget(self))
        self.count_unfinished()

    def count_unfinished(self) -> None:
        """Count what has come of a frame that is not whole among those of all clients."""
        held_bytes = self.engine.unfinished_bytes
        if held_bytes >= COUNTED_BYTES_MIN or self._unfinished is not None:
            self._unfinished = self.services.unfinished.count(self._unfinished, held_bytes, self._give_up)

    def _give_up(self) -> None:
        self.cell.after(0, self._end_unfinished)

    def _end_unfinished(self) -> None:
        """End, unless the frame has become whole meanwhile: all clients together have begun too much."""
        if self.engine.unfinished_bytes >= COUNTED_BYTES_MIN and self.engine.phase != CLOSED:
            self.engine.fail(codes.LIMIT_EXCEEDED, TEXT)
            self._counters.count(self._counters.violated, COUNTER)
            log.info("connection of client %r at %s ends: %s", self.client, self.peer_name(), TEXT)
            self._close_transport()

    def tick(self, now_ms: int) -> None:
        """Bring time: keep-alive, silence, authentications that take too long."""
        if self.read_control.stopped:
            self.engine.alive(now_ms)  # a client that we do not read from cannot show that it is alive
        self._handle(self.engine.tick(now_ms))
        if self.identity.is_over() and not self._is_released:
            self._fail(codes.NOT_AUTHENTICATED, "the token has expired")

    def closed(self, error: Exception | None) -> None:
        """The transport is gone."""
        self._transport = None
        self.engine.drop()  # now: the collector, which finds who is gone, counts objects and not their bytes
        self.count_unfinished()
        self.read_control.attach(None)
        self._release()
        self.identity.close()
        self.output.end()
        self.cell.stop()

    def writing_paused(self) -> None:
        """The client reads slower than we write."""
        self.output.paused()
        self.subscribing.write_control.writing_paused()
        self._hold_back(True)

    def writing_resumed(self) -> None:
        """The client has caught up."""
        self.output.resumed()
        self.subscribing.write_control.writing_resumed()
        if not self._is_going:
            self._hold_back(False)
            self._ask_flush()

    @property
    def is_writing_paused(self) -> bool:
        """Whether the client reads slower than we write."""
        return self.output.is_full

    def _hold_back(self, is_full: bool) -> None:
        self.consuming.hold_back(is_full)
        self.browsing.hold_back(is_full)
        self.reading.hold_back(self, is_full)

    def flush(self) -> None:
        """Write now what there is to say."""
        self.output.flush()

    def _gather(self) -> None:
        """Tell the engine what publishers are to hear once in a turn."""
        if self.publishing.has_news:
            for ack in self.publishing.acks():
                self.engine.send(ack.encode())

    def _cut_off(self) -> None:
        """End the connection of a client that goes on asking and takes no answers."""
        self._counters.count(self._counters.violated, "answers_not_read")
        log.info("client %r at %s goes on asking and reads no answers", self.client, self.peer_name())
        self.fail()

    def send(self, data: bytes) -> None:
        """Answer something at the end of this turn."""
        self.output.send(data)

    def _ask_flush(self) -> None:
        if self.engine.has_output or self.output.flows or self.publishing.has_news:
            self.output.ask_flush()

    # --- events of the engine ---

    def _handle(self, events: list[FlowEvent]) -> None:
        try:
            for event in events:
                if isinstance(event, PublishesReceived):
                    self._publish(event)
                elif isinstance(event, Settle):
                    flow = self.consuming.flows.get(event.flow_id)
                    if flow is not None:
                        self.consuming.settle(flow, event)
                    else:
                        self.ids.check_ended(event.flow_id)
                elif isinstance(event, Credit):
                    self._credit(event)
                else:
                    self._handle_rare(event)
                if self._is_released:
                    break  # one of them ended the connection
        except PeerViolation as violation:
            self._fail(violation.code, violation.text)
        self._ask_flush()

    def _handle_rare(self, event: FlowEvent) -> None:
        if isinstance(event, Hello):
            greet(self, event)
        elif isinstance(event, Auth):
            self.read_control.busy(True)
            self.carry_out(authenticate(self, event))
        elif isinstance(event, Close):
            self._close_transport()
        elif isinstance(event, PeerViolated):
            self._violated(event.code, event.text)
        else:
            take_request(self, event)

    def _publish(self, event: PublishesReceived) -> None:
        flow_id = event.flow_id
        self._counters.messages_received += len(event.sequences)
        if flow_id and flow_id not in self.publishing.flows:
            self.ids.check_ended(flow_id)
        try:
            self.publishing.publish(event, self._clock.wall_ms())
        except FlowBroken as broken:
            self._break(flow_id, broken.code, broken.text)
        self.read_control.published(self.publishing.publisher.pressures, self.publishing.unanswered_count)

    def _credit(self, said: Credit) -> None:
        flow = self.consuming.flows.get(said.flow_id)
        browsing = self.browsing.flows.get(said.flow_id)
        reading = self.reading.flows.get(said.flow_id)
        if flow is not None:
            self.consuming.credit(flow, said)
        elif browsing is not None:
            self.browsing.credit(browsing, said.delivery_id_max)
        elif reading is not None:
            self.reading.credit(self, reading, said.delivery_id_max)
        else:
            self.ids.check_ended(said.flow_id)

    def refuse_request(self, flow_id: int, request_id: int, code: int, text: str, retry_after_ms: int | None) -> None:
        """Answer a request with an error; the flow id that it asked for is used up."""
        self.ids.answered(flow_id)
        self.send(Error(flow_id, request_id, code, text, retry_after_ms).encode())

    def _break(self, flow_id: int, code: int, text: str) -> None:
        """End a publisher whose client broke its rules."""
        flow = self.publishing.flows.get(flow_id)
        if flow is not None:
            close_publisher(self, flow)
            self.send(Error(flow_id, NO_REQUEST, code, text, None).encode())

    def count_received(self, count: int) -> None:
        """Count messages that the client has published in other ways than by PUBLISH."""
        self._counters.messages_received += count

    def count_sent(self, count: int) -> None:
        """Count messages that went to the client in other ways than deliveries."""
        self._counters.messages_sent += count

    def tell(self, kind: EventKind, what: str) -> None:
        """Tell operators what the client did."""
        self.services.events.emit(kind, what, client=self.client)

    # --- who it is ---

    def greeted(self, client: str, welcome: Welcome) -> None:
        """Answer HELLO, and go on with what came meanwhile."""
        self.client = client
        self.publishing.client = client
        self._handle(self.engine.welcome(welcome, self._clock.wall_ms()))

    def auth_answer(self, answer: AuthAnswer) -> None:
        """Answer AUTH, and go on with what came meanwhile."""
        self.read_control.busy(False)
        self._handle(self.engine.auth_answer(answer, self._clock.wall_ms()))

    def authenticated(self, principal: Principal) -> None:
        """Note who the client is, and give it its place. Raises ClientDenied."""
        assert self._peer is not None, "the transport comes before its bytes"
        self.identity.authenticated(principal)
        rights = self.identity.admit(self.client, self._peer.host)
        self.publishing.publisher.rights = rights
        self.read_control.limit(rights)
        self._is_known = True
        self.tell(CLIENT_CONNECTED, f"flow client at {self.peer_name()} connected")

    def not_authenticated(self, why: str) -> None:
        """Count and log that somebody is not let in. The client does not hear why."""
        text = f"401 Unauthorized: flow client at {self.peer_name()}: {why}"
        assert self.sasl is not None, "the transport comes before its bytes"
        self.sasl.services.clients.denials.deny(NOT_AUTHENTICATED, self.client, text)
        self._counters.count(self._counters.refused, NOT_AUTHENTICATED)

    def not_admitted(self, denied: ClientDenied) -> None:
        """End the connection of a client that is who it says, and may not come in."""
        self._counters.count(self._counters.refused, denied.reason)
        self._fail(DENIAL_CODES.get(denied.reason, codes.NOT_AUTHENTICATED), denied.text)

    def peer_name(self) -> str:
        """Return where the client is, for logs."""
        return "?" if self._peer is None else f"{self._peer.host}:{self._peer.port}"

    # --- requests to other actors ---

    def carry_out(self, request: Coroutine[Any, Any, None]) -> None:
        """Have a request of the client carried out; a failure is ours, and costs the connection."""
        run_for(self.cell, self, request)

    def carried_out(self, error: BaseException | None) -> None:
        """Go on behind a request."""
        if error is not None:
            log.error("a request of client %s failed", self.peer_name(), exc_info=error)
            self._fail(codes.INTERNAL, "a fault of this gateway; its log says more")
        self._ask_flush()

    # --- messages of other actors ---

    def receive(self, message: Any) -> Any:
        """Handle deliveries, confirmations, or a word of another actor."""
        if isinstance(message, Deliveries):
            self._deliver(message)
        elif isinstance(message, (MessageBatch, SharedDirect)):
            self.output.flows.append(self.subscribing.receive(message, self._clock.wall_ms()))
        elif isinstance(message, Confirmed):
            self.publishing.confirmed(message.token)
            self.read_control.answered(self.publishing.unanswered_count)
        elif isinstance(message, PublishFailed):
            self.publishing.confirmed(message.token, message.text())
            self.read_control.answered(self.publishing.unanswered_count)
        elif isinstance(message, Resume):
            self.read_control.resume()
        else:
            self._receive_rare(message)
        return None

    def _deliver(self, message: Deliveries) -> None:
        before = self.consuming.sent_count
        try:
            self.consuming.deliver(message, self._clock.wall_ms())
        except Exception:
            reject_unwritable(message, check_writable, self._tell_unwritable)
            raise
        self._counters.messages_sent += self.consuming.sent_count - before

    def _tell_unwritable(self, sequence: int, error: Exception) -> None:
        tell_unwritable(self.services.events, self._counters, sequence, error, client=self.client)

    def _receive_rare(self, message: Any) -> None:
        if isinstance(message, FlowState):
            flow = self.consuming.by_urn.get(message.flow_id)
            if flow is not None:
                self.ids.answered(flow.flow_id)
                self.consuming.state(flow, set(message.partitions))
        elif isinstance(message, FlowGone):
            flow = self.consuming.by_urn.get(message.flow_id)
            retry_after_ms = RETRY_AFTER_MS if message.may_return else None
            if flow is not None:
                self.ids.answered(flow.flow_id)
                self.consuming.end(flow, message.reason, retry_after_ms)
            else:
                self.browsing.end(message.flow_id, message.reason, retry_after_ms)
        elif isinstance(message, Browsed):
            self.browsing.shown(message)
        elif isinstance(message, Assignment):
            flow = self.consuming.by_urn.get(message.flow_id)
            if flow is not None:
                self.consuming.assignment(flow, message, self._clock.now_ms())
        else:
            assert isinstance(message, FencePublisher), f"nobody sends {message!r} here"
            self._fenced(message)

    def _fenced(self, message: FencePublisher) -> None:
        for flow in list(self.publishing.flows.values()):
            if flow.named is message.publisher:
                self._break(flow.flow_id, codes.FENCED, "the publisher was opened again")

    def turn_ended(self) -> None:
        """Have everything of this turn written at its end."""
        self._ask_flush()

    # --- the end ---

    def _violated(self, code: int, text: str) -> None:
        self._counters.count(self._counters.violated, codes.NAMES[code].replace(" ", "_"))
        log.info("client %r at %s broke a rule (%s): %s", self.client, self.peer_name(), codes.NAMES[code], text)
        self._close_transport()

    def _fail(self, code: int, text: str) -> None:
        """End the connection for what only we know to be wrong."""
        if self.engine.phase != CLOSED:
            self.engine.fail(code, text)
            self._violated(code, text)

    def send_away(self, reason: str, *, node_stops: bool = False) -> None:
        """Have the client finish what is in flight, and go: operators want it so, or the node stops."""
        if self.engine.phase != OPEN:
            self._close_transport()
        elif not self._is_going:
            self._is_going = True
            self._hold_back(True)
            code = codes.SHUTTING_DOWN if node_stops else codes.ADMINISTRATIVE_ACTION
            self.send(Goaway(code, reason, DRAIN_MS).encode())
            self.cell.after(DRAIN_MS, lambda: self._drain_is_over(code, reason))

    def _drain_is_over(self, code: int, text: str) -> None:
        if self._transport is not None:
            self.flush()
            self.engine.close(code, text, self._clock.now_ms())
            self._close_transport()

    def _close_transport(self) -> None:
        self.flush()
        self._release()
        if self._transport is not None:
            self._transport.close_after_flush()

    def is_released(self) -> bool:
        """Return whether every flow was let go of: what is answered now comes too late."""
        return self._is_released

    def _release(self) -> None:
        """Let go of every flow: what was delivered and not settled is delivered to somebody again."""
        if self._is_released:
            return
        self._is_released = True
        for publisher in list(self.publishing.flows.values()):
            close_publisher(self, publisher)
        for consumer in list(self.consuming.flows.values()):
            self.consuming.remove(consumer)
            consumer.queue.inbox.post(UnbindFlow(consumer.urn))
        self.subscribing.end(self.services.router)
        for flow_id in list(self.browsing.flows):
            self.browsing.unbind(flow_id)
        for flow_id in list(self.reading.flows):
            self.reading.remove(flow_id)
        if self._is_known:
            self.tell(CLIENT_DISCONNECTED, f"flow client at {self.peer_name()} disconnected")

    def fail(self) -> None:
        """Our own mistake: the client gets its messages again over another connection."""
        self._release()
        if self._transport is not None:
            self._transport.abort()
