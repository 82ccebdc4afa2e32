"""One MQTT connection: a client's socket, engine and session, brought together.

It holds no rule of MQTT: the engine speaks the protocol, `connecting` and `subscribing` carry out requests to other
actors, `publishing` and `delivering` are the two directions of the data path. While a request waits, the packets behind
it wait here, and the socket is not read.
"""

import logging
from collections.abc import Coroutine
from typing import Any, final

from sluicegate.actors.messages.data import Confirmed, Deliveries, PublishFailed, Resume, SharedDirect
from sluicegate.actors.messages.queues import FlowGone, FlowState
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.inbox import Flushed, Scheduled
from sluicegate.actors.runtime.runtime import ActorCell, Behaviour
from sluicegate.actors.runtime.tasks import run_for
from sluicegate.actors.spool.stored_answer import StoreRefused
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.protocols.connection.identity import Identity
from sluicegate.protocols.connection.message_vpns import MessageVpns
from sluicegate.protocols.connection.read_control import ReadControl
from sluicegate.protocols.connection.write_control import WriteControl, write_gathered
from sluicegate.protocols.mqtt.client import (
    AttachedSession,
    begin_publishing,
    delivering_of,
    gate_of,
    watch_of,
    writes_of,
)
from sluicegate.protocols.mqtt.codec.events import (
    AcknowledgementReceived,
    AuthReceived,
    ConnectReceived,
    DisconnectReceived,
    MqttEvent,
    PeerViolated,
    PublishReceived,
    SubscribeReceived,
    UnsubscribeReceived,
)
from sluicegate.protocols.mqtt.codec.fixed_header import PUBREL
from sluicegate.protocols.mqtt.codec.reason_codes import (
    ADMINISTRATIVE_ACTION,
    NOT_AUTHORIZED,
    PROTOCOL_ERROR,
    QUOTA_EXCEEDED,
    SERVER_SHUTTING_DOWN,
    SESSION_TAKEN_OVER,
)
from sluicegate.protocols.mqtt.datapath.delivering import DeliveringSide
from sluicegate.protocols.mqtt.datapath.direct import send_direct, send_shared_direct
from sluicegate.protocols.mqtt.datapath.publishing import PublishingSide, PublishRefused, not_stored_code
from sluicegate.protocols.mqtt.engine.engine import MqttEngine
from sluicegate.protocols.mqtt.engine.partial_packet import misses_much
from sluicegate.protocols.mqtt.requests.connect import connect, detach
from sluicegate.protocols.mqtt.requests.enhanced_auth import Authenticating
from sluicegate.protocols.mqtt.requests.flows import flow_gone
from sluicegate.protocols.mqtt.requests.subscribe import subscribe, unsubscribe
from sluicegate.protocols.mqtt.requests.turn_budget import TurnShare
from sluicegate.protocols.mqtt.services import MqttServices
from sluicegate.protocols.mqtt.session.messages import SessionReleased, TakeOver
from sluicegate.protocols.transport.interface import ByteTransport, PeerInfo
from sluicegate.protocols.transport.unfinished import COUNTED_BYTES_MIN, COUNTER, TEXT, UnfinishedShare

# Where the rest of a client's large packet is read to: its own memory, not one for reads.


@final
class PacketReadTarget:
    """Stands between the transport of a client that sends something large, and its engine. A `ReadTarget`."""

    def __init__(self, connection: "MqttConnection") -> None:
        self._connection = connection
        self._engine = connection.engine

    def buffer(self) -> memoryview | None:
        """Return memory for what is missing."""
        return self._engine.buffer()

    def filled(self, count: int) -> None:
        """Have the packet read once it is whole."""
        connection = self._connection
        connection.services.counters.bytes_received += count
        if self._engine.filled(count, connection.cell.runtime.dispatcher.both_ms()[0]):
            connection.received(b"")
        else:
            connection.count_unfinished()


log = logging.getLogger("sluicegate.mqtt")


class MqttConnection(Behaviour, Flushed):
    """One MQTT client. Its transport calls `opened`, `received`, `closed`; its actor brings messages."""

    def __init__(self, cell: ActorCell, vpns: MessageVpns[MqttServices]) -> None:
        self.cell = cell
        services = vpns.default
        self.vpns = vpns
        self.services = services  # of the message VPN that the client is in
        self.engine = MqttEngine(services.limits, cell.runtime.clock.now_ms())
        self.peer: PeerInfo | None = None
        self.identity = Identity(services.clients, cell.runtime.clock)
        self.attached: AttachedSession | None = None  # from the accepted CONNECT until it is released
        self.read_control: ReadControl | None = None  # until it may have to wait for somebody: see `gate_of`
        self._dispatcher = cell.runtime.dispatcher
        self.transport: ByteTransport | None = None
        self.share: TurnShare | None = None  # of requests in this turn
        self._held: list[MqttEvent] | None = None  # while a request is being carried out: events, some of them handled
        self._held_from = 0  # the first of them that is not
        self._authenticating: Authenticating | None = None  # CONNECT named a method
        self.write_control: WriteControl | None = None  # from when the client first lagged behind
        self._flush_asked = False
        self._unfinished: UnfinishedShare | None = None  # of a packet that is not whole, if much of it has come
        self.is_closing = False
        self._taken_over: LoopFuture[SessionReleased | None] | None = None  # when the request under way is done

    # --- the socket ---

    def opened(self, transport: ByteTransport, peer: PeerInfo) -> None:
        """Begin: the transport is ready."""
        self.transport = transport
        self.peer = peer
        self.enter(self.vpns.of_listener(peer.listener))
        self.services.counters.connected += 1

    def enter(self, services: MqttServices) -> None:
        """Be in the message VPN of these services; not later than with the CONNECT."""
        self.services = services
        self.identity.enter(services.clients)

    def received(self, data: bytes) -> None:
        """Handle bytes of the client; none, once a packet was placed."""
        self.cell.inbox.accepts_inline = False
        self.services.counters.bytes_received += len(data)
        now_ms, wall_ms = self._dispatcher.both_ms()
        heard = self.engine.feed(data, now_ms, wall_ms)
        if heard.first is not None:
            self._handle(heard.first)
            if heard.further:
                self._handle_all(heard.further, 0)
        if self.engine.partial is not None or self._unfinished is not None:
            self.count_unfinished()
            if misses_much(self.engine.partial) and self.transport is not None:
                self.transport.read_into(PacketReadTarget(self))
        self.turn_ended()

    def count_unfinished(self) -> None:
        """Count what has come of a packet that is not whole among those of all clients."""
        partial = self.engine.partial
        held_bytes = 0 if partial is None else partial.held_bytes
        if held_bytes >= COUNTED_BYTES_MIN or self._unfinished is not None:
            self._unfinished = self.services.unfinished.count(self._unfinished, held_bytes, self._give_up)

    def _give_up(self) -> None:
        self.cell.after(0, self._end_unfinished)

    def _end_unfinished(self) -> None:
        """End, unless the packet has become whole meanwhile: all clients together have begun too much."""
        partial = self.engine.partial
        if partial is not None and partial.held_bytes >= COUNTED_BYTES_MIN:
            self.services.counters.count(self.services.counters.violated, COUNTER)
            self.end(QUOTA_EXCEEDED, TEXT)

    def tick(self, now_ms: int) -> None:
        """Bring time: keep alive, connect timeout. A client that we do not read from cannot show that it is alive."""
        if self.identity.is_over():
            self.end(NOT_AUTHORIZED, "the token has expired")
        if self.read_control is not None and self.read_control.stopped:
            self.engine.alive(now_ms)
        elif violated := self.engine.tick(now_ms):
            self._handle(violated)
            self.ask_flush()

    def closed(self, error: Exception | None) -> None:
        """The socket is gone. Without a goodbye the will is due."""
        self.transport = None
        self._authenticating = None  # which knows this connection
        self.engine.partial = None  # now: the collector, which finds who is gone, counts objects and not their bytes
        self.count_unfinished()
        if self.read_control is not None:
            self.read_control.attach(None)
        if self.attached is not None and self._held is not None:
            writes_of(self, self.attached).abandon()  # what the request under way still writes is answered to nobody
        self._release()
        self.identity.close()
        self.cell.stop()

    def writing_paused(self) -> None:
        """The client reads slower than we write; before it is let in it is written next to nothing."""
        if (watch := watch_of(self)) is not None:
            watch.writing_paused()
            watch.answers.begin(self.engine.answered_bytes)
        if (delivering := self.delivering()) is not None:
            delivering.hold_back(True)

    def writing_resumed(self) -> None:
        """The client has caught up."""
        if self.write_control is not None:
            self.write_control.writing_resumed()
        if (delivering := self.delivering()) is not None:
            delivering.hold_back(False)
            self.turn_ended()

    @property
    def is_writing_paused(self) -> bool:
        """Whether the client reads slower than we write."""
        return self.write_control is not None and self.write_control.paused

    def ask_flush(self) -> None:
        """Write what the engine has to say at the end of this turn."""
        if not self._flush_asked:
            self._flush_asked = True
            self._dispatcher.at_turn_end(self)

    def owner(self) -> Scheduled | None:
        """Return the actor that fails if writing does."""
        return self.cell

    def flush(self) -> None:
        """Write, once for everything of this turn."""
        self._flush_asked = False
        self.share = None
        if self._held is not None:
            gate_of(self).busy(True)  # it waits for more than this turn: the socket need not be stopped for less
        sent_before = self.services.counters.bytes_sent
        transport, only = self.transport, self.engine.take_only()
        if transport is not None and len(only) > 0:
            self.services.counters.bytes_sent += len(only)
            transport.write(only)
        elif transport is not None:
            write_gathered(transport, self.engine.take(), self.services.counters)
        if transport is not None and self.write_control is not None and self.write_control.paused:
            written_bytes = self.services.counters.bytes_sent - sent_before
            if self.write_control.answers.are_too_many(self.engine.answered_bytes, written_bytes, transport):
                self._cut_off()

    # --- events of the engine ---

    def _handle(self, event: MqttEvent) -> None:
        if self.is_closing:
            return
        if self._held is not None:
            self._held.append(event)
        elif isinstance(event, PublishReceived):
            self._publish(event)
        elif isinstance(event, AcknowledgementReceived):
            self._acknowledged(event)
        else:
            self._handle_rare(event)

    def _handle_all(self, events: list[MqttEvent], start: int) -> None:
        """Handle events from `start` on. What comes behind a request waits until that is carried out."""
        held = self._held
        if held is not None:
            held += events
            return
        for index in range(start, len(events)):
            self._handle(events[index])
            if self._held is not None:
                self._held, self._held_from = events, index + 1  # not copied: thousands may have to wait for each other
                return

    def _handle_rare(self, event: MqttEvent) -> None:
        if isinstance(event, ConnectReceived) and event.authentication_method is None:
            self.carry_out(connect(self, event))
        elif isinstance(event, ConnectReceived) and event.authentication_method is not None:
            self._authenticating = Authenticating(self, event.authentication_method, event)
            self._authenticating.begin(event.authentication_data)
        elif isinstance(event, SubscribeReceived):
            self.carry_out(subscribe(self, event))
        elif isinstance(event, UnsubscribeReceived):
            self.carry_out(unsubscribe(self, event))
        elif isinstance(event, DisconnectReceived):
            self._disconnect()
        elif isinstance(event, PeerViolated):
            self._violated(event)
        else:
            assert isinstance(event, AuthReceived)
            assert self._authenticating is not None, "the engine lets no AUTH pass that no CONNECT announced"
            self._authenticating.received(event)

    def _publish(self, event: PublishReceived) -> None:
        publishing = self._publishing()
        self.services.counters.messages_received += event.batch.count
        try:
            publishing.publish(event)
        except PublishRefused as refusal:
            self.end(refusal.reason_code, str(refusal))
            return
        gate_of(self).published(publishing.publisher.pressures, publishing.line.unanswered_count)

    def _publishing(self) -> PublishingSide:
        attached = self.attached
        assert attached is not None
        return begin_publishing(self, attached) if attached.publishing is None else attached.publishing

    def _acknowledged(self, event: AcknowledgementReceived) -> None:
        attached = self.attached
        assert attached is not None
        if event.kind == PUBREL:
            self._publishing().released(event.first, event.last)
        elif not delivering_of(self, attached).acknowledged(event):
            self.end(PROTOCOL_ERROR, f"packet id {event.first} was answered with the wrong kind of acknowledgement")

    def _disconnect(self) -> None:
        self._release()
        self.is_closing = True
        if self.transport is not None:
            self.flush()
            self.transport.close()

    def _violated(self, event: PeerViolated) -> None:
        self.services.counters.count(self.services.counters.violated, f"0x{event.reason_code:02x}")
        client = self.attached.session.client_id if self.attached is not None else "?"
        log.info("client %r at %s broke a rule (0x%02x): %s", client, self.peer_name(), event.reason_code, event.text)
        self._close_abnormally()

    # --- requests to other actors ---

    def carry_out(self, request: Coroutine[Any, Any, None]) -> None:
        """Run a request; what the client sends meanwhile waits behind it."""
        self._held, self._held_from = [], 0
        if (delivering := self.delivering()) is not None:
            delivering.hold()
        self.ask_flush()
        run_for(self.cell, self, request)
        self.cell.inbox.accepts_inline = False  # it may be done already, but whoever called this is not

    def carried_out(self, error: BaseException | None) -> None:
        """Go on with what came behind a request."""
        held, self._held = self._held or [], None
        if self._taken_over is not None:
            self._taken_over.set(self._hand_over())
        elif not self.is_open():
            self._release()  # the client went meanwhile
        if error is not None:
            self._request_failed(error)
        if error is not None or self.is_closing or self.cell.is_stopped():
            return
        if (delivering := self.delivering()) is not None:
            delivering.go_on()
        if self.read_control is not None:
            self.read_control.busy(False)
        self._handle_all(held, self._held_from)
        self.turn_ended()

    def _request_failed(self, error: BaseException) -> None:
        if isinstance(error, StoreRefused):
            self.end(QUOTA_EXCEEDED, f"the session could not be stored: {error}")
        else:
            log.error("a request of client %s failed", self.peer_name(), exc_info=error)
            self._close_abnormally()

    # --- messages of other actors ---

    def receive(self, message: Any) -> Any:
        """Handle a batch, deliveries, or a word of another actor."""
        if isinstance(message, Deliveries):
            delivering = self.delivering()
            if delivering is not None:
                delivering.deliver(message)
        elif isinstance(message, MessageBatch):
            send_direct(self, message)
        elif isinstance(message, Confirmed):
            self._confirmed(message)
        elif isinstance(message, SharedDirect):
            send_shared_direct(self, message)
        elif isinstance(message, Resume):
            gate_of(self).resume()
        elif isinstance(message, PublishFailed):
            self._refused(message)
        elif isinstance(message, FlowGone):
            flow_gone(self, message)
        elif isinstance(message, TakeOver):
            return self._take_over()
        else:
            assert isinstance(message, FlowState)  # MQTT has no word for it
        return None

    def turn_ended(self) -> None:
        """Have everything of this turn written at its end. Until then, what comes is only put beside it."""
        if self.engine.has_output:
            self.ask_flush()
        self.cell.inbox.accepts_inline = self._held is None

    def delivering(self) -> DeliveringSide | None:
        """Return the way out for what is not direct, if there is one."""
        return None if self.attached is None else self.attached.delivering

    def _confirmed(self, message: Confirmed) -> None:
        attached = self.attached
        if attached is None:
            return
        if message.token < 0:
            assert attached.writes is not None, "who has written something"
            attached.writes.confirmed(message.token)
            return
        try:
            self._publishing().confirmed(message.token)
        except PublishRefused as refusal:
            self.end(refusal.reason_code, str(refusal))
            return
        gate_of(self).answered(self._publishing().line.unanswered_count)

    def _refused(self, message: PublishFailed) -> None:
        attached = self.attached
        if attached is None:
            return
        if message.token < 0:
            assert attached.writes is not None, "who has written something"
            attached.writes.refused(message.token, message.reason)
            self.end(not_stored_code(message), f"the session could not be stored: {message.text()}")
            return
        try:
            self._publishing().refused(message)
        except PublishRefused as refusal:
            self.end(refusal.reason_code, str(refusal))

    def _take_over(self) -> "SessionReleased | LoopFuture[SessionReleased | None] | None":
        """Give the session to the connection that is this client now [3.1.4-3]."""
        self.engine.disconnect(SESSION_TAKEN_OVER, "another connection uses this client identifier")
        released = self._hand_over() if self._held is None else None
        if self._held is not None:
            self._taken_over = LoopFuture()
        self._close()
        return released if self._taken_over is None else self._taken_over

    def _hand_over(self) -> SessionReleased | None:
        return None if self.attached is None else detach(self, self.attached)

    def is_open(self) -> bool:
        """Return whether the client is still there."""
        return self.transport is not None and not self.is_closing

    @property
    def is_asking(self) -> bool:
        """Whether a request of the client is under way."""
        return self._held is not None

    # --- the end ---

    def end(self, reason_code: int, text: str) -> None:
        """End the connection on our initiative, unless it is ending. The will is due."""
        if not self.is_closing:
            log.info("connection of %s ends (0x%02x): %s", self.peer_name(), reason_code, text)
            self.engine.disconnect(reason_code, text)
            self._close_abnormally()

    def send_away(self, reason: str, *, node_stops: bool = False) -> None:
        """End the connection because operators want it so, or the node stops."""
        self.engine.disconnect(SERVER_SHUTTING_DOWN if node_stops else ADMINISTRATIVE_ACTION, reason)
        self._close_abnormally()

    def refuse(self, reason: str, text: str) -> None:
        """Close after a CONNECT that the engine has refused."""
        self.services.counters.count(self.services.counters.refused, reason)
        log.info("connection of %s refused: %s", self.peer_name(), text)
        self._close()

    def fail(self) -> None:
        """End the connection at once, after a mistake of our own."""
        self.is_closing = True
        self._release()
        if self.transport is not None:
            self.transport.abort()

    def stopped(self) -> None:
        """Let publishers go on that wait for this connection."""
        if self.write_control is not None:
            self.write_control.close()

    def peer_name(self) -> str:
        """Return the client's address, for logs."""
        return f"{self.peer.host}:{self.peer.port}" if self.peer is not None else "?"

    def _cut_off(self) -> None:
        self.services.counters.count(self.services.counters.violated, "answers_not_read")
        log.info("client at %s goes on asking and reads no answers", self.peer_name())
        self.fail()

    def _close_abnormally(self) -> None:
        self._release()
        self._close()

    def _close(self) -> None:
        """Let the last words reach the client, then close."""
        self.is_closing = True
        if self.transport is not None:
            self.flush()
            self.transport.close_after_flush()

    def _release(self) -> None:
        """Give the session to the directory; at most once."""
        if self.attached is None or self._held is not None:
            return  # none, or a request is changing it, after which we are called again
        self.services.sessions.inbox.post(detach(self, self.attached))
