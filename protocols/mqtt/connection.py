"""The actor of one MQTT connection: socket input, events, messages of other actors, output, and the end.

The module follows that order. It has no rule of MQTT: `engine` speaks the protocol, `requests` carries out what needs
other actors, `datapath` has the two directions of messages. While a request is carried out, later packets are queued
here and the socket is not read.
"""

import logging
from typing import Any, final

from sluicegate.actors.messages.data import (
    Confirmed,
    Deliveries,
    PublishFailed,
    Resume,
    SharedDirect,
    StoreRefused,
    Wake,
)
from sluicegate.actors.messages.queues import FlowGone, FlowState
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.messaging.message.batch import AT_MOST_ONCE, MessageBatch
from sluicegate.protocols.connection.write_control import write_gathered
from sluicegate.protocols.mqtt.client import ClientParts, MqttClient
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
    SERVER_MOVED,
    SERVER_SHUTTING_DOWN,
    USE_ANOTHER_SERVER,
)
from sluicegate.protocols.mqtt.datapath.direct import send_direct, send_rows
from sluicegate.protocols.mqtt.datapath.publishing import PublishRefused, not_stored_code
from sluicegate.protocols.mqtt.engine.partial_packet import misses_much
from sluicegate.protocols.mqtt.engine.publish_run import PublishRun, wall_ms_for
from sluicegate.protocols.mqtt.requests.connect import connect
from sluicegate.protocols.mqtt.requests.enhanced_auth import EnhancedAuthentication
from sluicegate.protocols.mqtt.requests.flows import flow_gone
from sluicegate.protocols.mqtt.requests.subscribe import subscribe, unsubscribe
from sluicegate.protocols.mqtt.session.messages import SessionReleased, TakeOver
from sluicegate.protocols.mqtt.session.other_servers import MOVED, STOPPED
from sluicegate.protocols.transport.interface import ByteTransport, PeerInfo
from sluicegate.protocols.transport.stream.user import StreamUser
from sluicegate.protocols.transport.unfinished import COUNTED_BYTES_MIN, COUNTER, TEXT

log = logging.getLogger("sluicegate.mqtt")


class MqttConnection(MqttClient, StreamUser):
    """The actor of one MQTT connection. The transport calls `opened`, `received`, `closed`; actors send messages."""

    # --- the socket ---

    def opened(self, transport: ByteTransport, peer: PeerInfo) -> None:
        """Begin: the transport is ready."""
        self.transport = transport
        self.peer = peer
        self.enter(self.vpns.of_listener(peer.listener))
        self.services.counters.connected += 1

    def received(self, data: bytes) -> None:
        """Handle bytes of the client; empty once a large packet was read into its buffer."""
        dispatcher = self.cell.dispatcher
        now_ms, wall_ms = dispatcher.begin_read()
        try:
            self._read(data, now_ms, wall_ms)
        finally:
            dispatcher.end_read()

    def _read(self, data: bytes, now_ms: int, wall_ms: int) -> None:
        self.cell.accepts_inline = False
        self.services.counters.bytes_received += len(data)
        self.engine.traffic.bytes_received += len(data)
        received = self.engine.feed(data, now_ms, wall_ms)
        if received.first is not None:
            self._handle(received.first)
            if received.further:
                self._handle_all(received.further, 0)
        if self.engine.partial is not None or self.parts is not None:
            self.count_unfinished()
            if misses_much(self.engine.partial) and self.transport is not None:
                self.transport.read_into(PacketReadTarget(self))
        self.turn_ended()

    def count_unfinished(self) -> None:
        """Count the bytes of an incomplete packet in the total of all clients."""
        partial = self.engine.partial
        held_bytes = 0 if partial is None else partial.held_bytes
        counted = None if self.parts is None else self.parts.unfinished
        if held_bytes >= COUNTED_BYTES_MIN or counted is not None:
            self.made_parts().unfinished = self.services.unfinished.count(counted, held_bytes, self._give_up)

    def _give_up(self) -> None:
        self.cell.after(0, self._end_unfinished)

    def _end_unfinished(self) -> None:
        """End the connection, unless the packet is complete meanwhile: the total of incomplete packets is too large."""
        partial = self.engine.partial
        if partial is not None and partial.held_bytes >= COUNTED_BYTES_MIN:
            self.services.counters.count(self.services.counters.violated, COUNTER)
            self.end(QUOTA_EXCEEDED, TEXT)

    def tick(self, now_ms: int) -> None:
        """Check keep alive and connect timeout. While the socket is not read, the client counts as alive."""
        if self.identity.is_over(self.cell.runtime.clock):
            self.end(NOT_AUTHORIZED, "the token has expired")
        if self.read_control is not None and self.read_control.stopped:
            self.engine.alive(now_ms)
        elif violated := self.engine.tick(now_ms):
            self._handle(violated)
            self.ask_flush()

    def stalled(self, stall_ms: int, now_ms: int) -> None:
        """Do not count a time in which this broker read nothing."""
        self.engine.stalled(stall_ms, now_ms)

    def closed(self, error: Exception | None) -> None:
        """The socket is closed. Without a DISCONNECT the will is published."""
        self.transport = None
        if self.parts is not None:
            self.parts.authentication = None  # it references this connection
        self.engine.forget_partial()  # now: the garbage collector counts objects, not bytes
        self.count_unfinished()
        if self.read_control is not None:
            self.read_control.attach(None)
        attached = self.attached
        if attached is not None and self.is_busy:
            self.writes(attached).abandon()  # writes of the running request have no recipient
        self._release()
        self.identity.close()
        self.cell.stop()

    # --- events of the engine ---

    def _handle(self, event: MqttEvent) -> None:
        if self.is_closing:
            return
        if self.parts is not None and self.parts.queued is not None:
            self.parts.queued.append(event)
        elif isinstance(event, PublishReceived):
            self._publish(event)
        elif isinstance(event, AcknowledgementReceived):
            self._acknowledged(event)
        else:
            self._handle_rare(event)

    def _handle_all(self, events: list[MqttEvent], start: int) -> None:
        """Handle events from `start` on. Events behind a request are queued until it is carried out."""
        parts = self.parts
        if parts is not None and parts.queued is not None:
            parts.queued += events
            return
        for index in range(start, len(events)):
            self._handle(events[index])
            parts = self.parts
            if parts is not None and parts.queued is not None:
                # Not copied: thousands may have to wait for each other.
                parts.queued, parts.next_event = events, index + 1
                return

    def _handle_rare(self, event: MqttEvent) -> None:
        if isinstance(event, ConnectReceived) and event.authentication_method is None:
            self.carry_out(connect(self, event))
        elif isinstance(event, ConnectReceived) and event.authentication_method is not None:
            authentication = EnhancedAuthentication(self, event.authentication_method, event)
            self.made_parts().authentication = authentication
            authentication.begin(event.authentication_data)
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
            announced = None if self.parts is None else self.parts.authentication
            assert announced is not None, "the engine lets no AUTH pass that no CONNECT announced"
            announced.received(event)

    def _publish(self, event: PublishReceived) -> None:
        publishing = self.publishing()
        self.services.counters.messages_received += event.batch.count
        self.engine.traffic.messages_received += event.batch.count
        try:
            publishing.publish(event)
        except PublishRefused as refusal:
            self.end(refusal.reason_code, str(refusal))
            return
        self.ensure_read_control().published(publishing.publisher.pressures, publishing.line.unanswered_count)

    def _acknowledged(self, event: AcknowledgementReceived) -> None:
        attached = self.attached
        assert attached is not None
        if event.kind == PUBREL:
            self.publishing().released(event.first, event.last)
        elif not self.delivering_of(attached).acknowledged(event):
            self.end(PROTOCOL_ERROR, f"packet id {event.first} was answered with the wrong kind of acknowledgement")

    def _disconnect(self) -> None:
        self._release()
        self.is_closing = True
        if self.transport is not None:
            self.flush()
            self.transport.close()

    def _violated(self, event: PeerViolated) -> None:
        self.services.counters.count(self.services.counters.violated, f"0x{event.reason_code:02x}")
        client = "?" if self.session is None else self.session.client_id
        log.info(
            "protocol error from client %r at %s (0x%02x): %s", client, self.peer_name(), event.reason_code, event.text
        )
        self._close_abnormally()

    # --- requests to other actors ---

    def carried_out(self, error: BaseException | None) -> None:
        """Handle the events that were queued behind a request."""
        parts = self.made_parts()
        queued, parts.queued = parts.queued or [], None
        if parts.taken_over is not None:
            parts.taken_over.set(self._hand_over())
        elif not self.is_open():
            self._release()  # the client left meanwhile
        if error is not None:
            self._request_failed(error)
        if error is not None or self.is_closing or self.cell.is_stopped():
            return
        if (delivering := self.delivering()) is not None:
            delivering.resume()
        if self.read_control is not None:
            self.read_control.busy(False)
        self._handle_all(queued, parts.next_event)
        self.turn_ended()

    def _request_failed(self, error: BaseException) -> None:
        if isinstance(error, StoreRefused):
            self.end(QUOTA_EXCEEDED, f"the session could not be stored: {error}")
        else:
            log.error("a request of client %s failed", self.peer_name(), exc_info=error)
            self._close_abnormally()

    # --- messages of other actors ---

    def receive(self, message: Any) -> Any:
        """Handle a batch, deliveries, or another message of an actor."""
        if isinstance(message, Deliveries):
            delivering = self.delivering()
            if delivering is not None:
                delivering.deliver(message)
        elif isinstance(message, MessageBatch):
            self._direct(message)
        elif isinstance(message, Confirmed):
            self._confirmed(message)
        elif isinstance(message, SharedDirect):
            self._shared_direct(message)
        elif isinstance(message, Resume):
            self.ensure_read_control().resume()
        elif isinstance(message, PublishFailed):
            self._refused(message)
        elif isinstance(message, FlowGone):
            flow_gone(self, message)
        elif isinstance(message, TakeOver):
            return self._take_over(message)
        elif isinstance(message, Wake):
            self.send_more_retained()
        else:
            assert isinstance(message, FlowState)  # MQTT has no packet for it
        return None

    def _direct(self, batch: MessageBatch) -> None:
        """Send a batch at most once, unless the client has too much unread."""
        session = self.session
        if session is None:  # it has left meanwhile
            self.services.space.offline_count += batch.count
        elif self.write_control is None or not self.write_control.drops_direct(batch.count):
            send_direct(self.engine, session, self.services.counters, batch, self.cell.runtime.clock)

    def _shared_direct(self, message: SharedDirect) -> None:
        """Send a batch that this client got as a member of a shared group, unless it has too much unread."""
        session, batch = self.session, message.batch
        name = f"$share/{message.group.name}/{message.group.filter_text}"
        extra = None if session is None else session.shares.get(name)
        if extra is None:  # it has left meanwhile, the group or the gateway
            self.services.space.offline_count += batch.count
        elif self.write_control is None or not self.write_control.drops_direct(batch.count):
            wall_ms = wall_ms_for(batch, self.cell.runtime.clock)
            rows = PublishRun(batch, 0, batch.count, AT_MOST_ONCE, extra.options(), None, wall_ms, None)
            send_rows(self.engine, self.services.counters, rows, 0, dup=False)

    def _confirmed(self, message: Confirmed) -> None:
        attached = self.attached
        if attached is None:
            return
        if message.token < 0:
            assert attached.writes is not None, "who has written something"
            attached.writes.confirmed(message.token)
            return
        try:
            self.publishing().confirmed(message.token, self.cell.runtime.clock.wall_ms())
        except PublishRefused as refusal:
            self.end(refusal.reason_code, str(refusal))
            return
        self.ensure_read_control().answered(self.publishing().line.unanswered_count)

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
            self.publishing().refused(message)
        except PublishRefused as refusal:
            self.end(refusal.reason_code, str(refusal))
            return
        self.ensure_read_control().answered(self.publishing().line.unanswered_count)

    def _take_over(self, message: TakeOver) -> "SessionReleased | LoopFuture[SessionReleased | None] | None":
        """Give the session back: to the client's new connection [3.1.4-3], or because it ends."""
        self.engine.disconnect(message.reason_code, message.text)
        if not self.is_busy:
            released = self._hand_over()
            self._close()
            return released
        answer: LoopFuture[SessionReleased | None] = LoopFuture()
        self.made_parts().taken_over = answer
        self._close()
        return answer

    def _hand_over(self) -> SessionReleased | None:
        attached = self.attached
        return None if attached is None else self._detach(attached)

    # --- what goes out ---

    def turn_ended(self) -> None:
        """Flush at the end of this turn, with everything else of it."""
        if self.engine.has_output:
            self.ask_flush()
        self.cell.accepts_inline = self.parts is None or self.parts.queued is None

    def flush(self) -> None:
        """Write all output of this turn at once."""
        self._flush_asked = False
        if self.parts is not None:
            self._turn_is_over(self.parts)
        written_bytes = 0
        transport, only = self.transport, self.engine.take_only()
        if transport is not None and len(only) > 0:
            written_bytes = len(only)
            self.services.counters.bytes_sent += written_bytes
            transport.write(only)
        elif transport is not None:
            written_bytes = write_gathered(transport, self.engine.take(), self.services.counters)
        self.engine.traffic.bytes_sent += written_bytes
        control = self.write_control
        if transport is None or control is None or not control.paused:
            return
        if control.answers.are_too_many(self.engine.answered_bytes, written_bytes, transport):
            self._cut_off()

    def _turn_is_over(self, parts: ClientParts) -> None:
        parts.budget = None
        if parts.queued is not None:
            # The request waits for more than this turn. The socket need not be stopped for less.
            self.ensure_read_control().busy(True)
        if not parts.are_needed():
            self.parts = None

    def writing_paused(self) -> None:
        """The client reads more slowly than we write. Before CONNACK next to nothing is written."""
        if (watch := self.ensure_write_control()) is not None:
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

    def _cut_off(self) -> None:
        self.services.counters.count(self.services.counters.violated, "answers_not_read")
        log.info("client at %s does not read responses; disconnecting", self.peer_name())
        self.fail()

    # --- the end; handlers end a connection by `MqttClient.end` and `refuse` ---

    def send_away(self, reason: str, *, node_stops: bool = False) -> None:
        """End the connection on an operator's request, or because the node stops."""
        if node_stops and self.services.other_servers.reference:
            self._send_to(USE_ANOTHER_SERVER, STOPPED, reason)
            return
        self.engine.disconnect(SERVER_SHUTTING_DOWN if node_stops else ADMINISTRATIVE_ACTION, reason)
        self._close_abnormally()

    def server_moved(self) -> None:
        """End the connection of a 5.0 client: another server is to serve it from now on (section 4.11)."""
        if self.engine.level == 5 and not self.is_closing:
            self._send_to(SERVER_MOVED, MOVED, "this broker has moved")

    def _send_to(self, reason_code: int, why: str, text: str) -> None:
        servers = self.services.other_servers
        if self.engine.level == 5:
            servers.sent(why)
        self.engine.disconnect(reason_code, text, servers.reference)
        self._close_abnormally()

    def fail(self) -> None:
        """End the connection at once, after a fault of our own."""
        self.is_closing = True
        self._release()
        if self.transport is not None:
            self.transport.abort()

    def stopped(self) -> None:
        """Release publishers that wait for this connection."""
        if self.write_control is not None:
            self.write_control.close()


@final
class PacketReadTarget:
    """Reads the rest of a large packet directly into the memory of its payload. A `ReadTarget`."""

    def __init__(self, connection: "MqttConnection") -> None:
        self._connection = connection
        self._engine = connection.engine

    def buffer(self) -> memoryview | None:
        """Return memory for the missing bytes."""
        return self._engine.buffer()

    def filled(self, count: int) -> None:
        """Count the bytes, and have the packet handled once it is complete."""
        connection = self._connection
        connection.services.counters.bytes_received += count
        self._engine.traffic.bytes_received += count
        if self._engine.filled(count, connection.cell.runtime.dispatcher.both_ms()[0]):
            connection.received(b"")
        else:
            connection.count_unfinished()
