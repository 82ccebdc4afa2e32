"""The MQTT connection actor: one client's socket, engine and session, brought together.

It holds no rule of MQTT: the engine speaks the protocol, `connecting` and `subscribing` carry out requests that need
other actors, `publishing` and `delivering` are the two directions of the data path. While a request waits for another
actor, the packets behind it wait here, and the socket is not read.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from actors.futures import LoopFuture
from actors.messages import (
    Confirmed,
    Deliveries,
    FlowGone,
    FlowState,
    Refused,
    Resume,
    SessionRows,
    SharedDirect,
    UnbindFlow,
)
from actors.queue_directory import StoreRefused
from actors.runtime import ActorCell, LoopActor
from messaging.batch import MessageBatch
from messaging.pressure import Pressure
from protocols.mqtt.connecting import connect
from protocols.mqtt.delivering import DeliveringSide
from protocols.mqtt.engine import MqttEngine
from protocols.mqtt.events import (
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
from protocols.mqtt.first_bytes import PUBREL
from protocols.mqtt.messages import SessionReleased, TakeOver
from protocols.mqtt.publishing import PublishingSide, PublishRefused
from protocols.mqtt.reason_codes import (
    PROTOCOL_ERROR,
    QUOTA_EXCEEDED,
    SERVER_SHUTTING_DOWN,
    SESSION_TAKEN_OVER,
    SUCCESS,
)
from protocols.mqtt.services import MqttServices
from protocols.mqtt.session import Session, qos2_key, state_key
from protocols.mqtt.subscribing import subscribe, unsubscribe
from protocols.mqtt.will import Will
from protocols.mqtt.will_storage import will_to_row
from protocols.transports import ByteTransport, PeerInfo

log = logging.getLogger("sluicegate.mqtt")

UNANSWERED_MAX = 20_000  # publishes of a 3.x client; beyond it we stop reading until some are answered


class MqttConnection(LoopActor):
    """One MQTT client. Its transport calls `opened`, `received`, `closed`; other actors leave messages."""

    def __init__(self, cell: ActorCell, *, services: MqttServices, directory: ActorCell) -> None:
        super().__init__(cell)
        self.services = services
        self.directory = directory
        self.engine = MqttEngine(services.limits, self.runtime.clock.now_ms())
        self.peer: PeerInfo | None = None
        self.level = 0
        self.session: Session | None = None  # from the accepted CONNECT until it is released
        self.will: Will | None = None
        self.publishing: PublishingSide | None = None
        self.delivering: DeliveringSide | None = None
        self.pressure: Pressure | None = None
        self._transport: ByteTransport | None = None
        self._held: list[MqttEvent] | None = None  # events behind a request that is being carried out
        self._flush_asked = False
        self._closing = False
        self._reading_stopped = False
        self._waits_for: list[Pressure] = []
        self._writing_paused = False
        self._next_token = -1  # ours count down, the publishing side's count up
        self._after_write: dict[int, LoopFuture[None]] = {}  # by token
        self._qos2_waiting: list[Callable[[], None]] = []

    # --- the socket ---

    def opened(self, transport: ByteTransport, peer: PeerInfo) -> None:
        """Begin: the transport is ready."""
        self._transport = transport
        self.peer = peer
        self.services.counters.connected += 1

    def received(self, data: bytes) -> None:
        """Handle bytes of the client."""
        clock = self.runtime.clock
        self.services.counters.bytes_received += len(data)
        events = self.engine.feed(data, clock.now_ms(), clock.wall_ms())
        if events:
            self._handle(events)
        if self.engine.has_output:
            self.ask_flush()

    def tick(self, now_ms: int) -> None:
        """Bring time: keep alive, connect timeout."""
        events = self.engine.tick(now_ms)
        if events:
            self._handle(events)
            self.ask_flush()

    def closed(self, error: Exception | None) -> None:
        """The socket is gone. Without a goodbye the will is due."""
        self._transport = None
        self._release(with_will=True)
        self.cell.stop()

    def writing_paused(self) -> None:
        """The client reads slower than we write: publishers that feed it have to wait."""
        self._writing_paused = True
        if self.pressure is not None:
            now_ms = self.runtime.clock.now_ms()
            self.pressure.level(self.pressure.high_bytes, now_ms)
            self.services.counters.slow_subscribers += 1
            self._watch_for_stall(-1)

    def writing_resumed(self) -> None:
        """The client has caught up."""
        self._writing_paused = False
        if self.pressure is not None:
            for publisher in self.pressure.level(0, self.runtime.clock.now_ms()):
                publisher.post(Resume())

    def ask_flush(self) -> None:
        """Write what the engine has to say at the end of this turn."""
        if not self._flush_asked:
            self._flush_asked = True
            self.runtime.dispatcher.at_turn_end(self)

    def flush(self) -> None:
        """Write, once for everything of this turn."""
        self._flush_asked = False
        transport = self._transport
        pieces = self.engine.take()
        if transport is not None and pieces:
            data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            self.services.counters.bytes_sent += len(data)
            transport.write(data)

    # --- events of the engine ---

    def _handle(self, events: list[MqttEvent]) -> None:
        if self._closing:
            return
        if self._held is not None:
            self._held += events
            return
        for index, event in enumerate(events):
            _EVENTS[type(event)](self, event)
            if self._waits_behind(events[index + 1 :]):
                return

    def _waits_behind(self, rest: list[MqttEvent]) -> bool:
        """Return whether nothing more can be handled now: a request is under way, or this is the end."""
        if self._closing:
            return True
        if self._held is None:
            return False
        self._held += rest
        return True

    def _connect(self, event: ConnectReceived) -> None:
        self.level = event.level
        self._carry_out(connect(self, event))

    def _publish(self, event: PublishReceived) -> None:
        publishing = self.publishing
        assert publishing is not None
        self.services.counters.messages_received += event.batch.count
        try:
            publishing.publish(event)
        except PublishRefused as refusal:
            self.end(QUOTA_EXCEEDED, str(refusal))
            return
        self._hold_back(publishing)

    def _acknowledged(self, event: AcknowledgementReceived) -> None:
        if event.kind == PUBREL:
            assert self.publishing is not None
            self.publishing.released(event.first, event.last)
            return
        assert self.delivering is not None
        if self.delivering.wrong_kind(event):
            self.end(PROTOCOL_ERROR, f"packet id {event.first} was answered with the wrong kind of acknowledgement")
            return
        self.delivering.acknowledged(event)

    def _subscribe(self, event: SubscribeReceived) -> None:
        self._carry_out(subscribe(self, event))

    def _unsubscribe(self, event: UnsubscribeReceived) -> None:
        self._carry_out(unsubscribe(self, event))

    def _authenticate(self, event: AuthReceived) -> None:
        # The engine lets AUTH pass only for a method that was accepted, and none is.
        self.end(PROTOCOL_ERROR, "no authentication method is in use")

    def _disconnect(self, event: DisconnectReceived) -> None:
        if self.session is not None and event.session_expiry_s >= 0:
            self.session.expiry_s = min(event.session_expiry_s, self.services.session_expiry_s_max)
        self._release(with_will=event.reason_code != SUCCESS)
        self._closing = True
        if self._transport is not None:
            self.flush()
            self._transport.close()

    def _violated(self, event: PeerViolated) -> None:
        self.services.counters.count(self.services.counters.violated, f"0x{event.reason_code:02x}")
        client = self.session.client_id if self.session is not None else "?"
        log.info("client %r at %s broke a rule (0x%02x): %s", client, self.peer_name(), event.reason_code, event.text)
        self._close_abnormally()

    # --- requests that need other actors ---

    def _carry_out(self, request: Coroutine[Any, Any, None]) -> None:
        """Run a request; what the client sends meanwhile waits behind it."""
        self._held = []
        self.stop_reading()
        task = self.runtime.loop.create_task(request)
        self.runtime.keep(task)
        task.add_done_callback(self._carried_out)

    def _carried_out(self, task: "asyncio.Future[None]") -> None:
        held, self._held = self._held or [], None
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("a request of client %s failed", self.peer_name(), exc_info=error)
            self._close_abnormally()
            return
        if self._closing or self.cell.stopped.is_set():
            return
        if held:
            self._handle(held)
        if self._held is None and not self._waits_for:
            self.resume_reading()
        if self.engine.has_output:
            self.ask_flush()

    # --- messages of other actors ---

    def on_receive(self, message: Any) -> Any:
        """Handle a batch, deliveries, or a word of another actor."""
        handler = _MESSAGES.get(type(message))
        if handler is not None:
            return handler(self, message)
        return self._direct(message)  # a batch, of whichever kind

    def on_drained(self) -> None:
        """Have everything of this turn written at its end."""
        if self.engine.has_output:
            self.ask_flush()

    def _direct(self, batch: MessageBatch) -> None:
        if self.delivering is None or self._drops_direct(batch.count):
            return
        self.delivering.direct(batch, self.runtime.clock.wall_ms())
        self.services.counters.messages_sent += batch.count

    def _shared_direct(self, message: SharedDirect) -> None:
        if self.delivering is None or self._drops_direct(message.batch.count):
            return
        self.delivering.shared_direct(message, self.runtime.clock.wall_ms())
        self.services.counters.messages_sent += message.batch.count

    def _deliver(self, message: Deliveries) -> None:
        if self.delivering is not None:
            self.delivering.deliver(message, self.runtime.clock.wall_ms())
            for delivery in message.deliveries:
                self.services.counters.messages_sent += delivery.stop_row - delivery.start_row

    def _confirmed(self, message: Confirmed) -> None:
        if message.token < 0:
            self._after_write.pop(message.token).set(None)
        elif self.publishing is not None:
            self.publishing.confirmed(message.token)
            self._read_on()

    def _refused(self, message: Refused) -> None:
        if message.token < 0:
            error = StoreRefused(message.reason)
            self._after_write.pop(message.token).set_exception((StoreRefused, error, None))
            self.end(QUOTA_EXCEEDED, f"the session could not be stored: {message.reason}")
        elif self.publishing is not None:
            try:
                self.publishing.refused(message.token)
            except PublishRefused as refusal:
                self.end(QUOTA_EXCEEDED, str(refusal))

    def _flow_gone(self, message: FlowGone) -> None:
        if self.delivering is not None:
            self.delivering.flows.pop(message.flow_id, None)

    def _take_over(self, _: TakeOver) -> SessionReleased | None:
        """Give the session to the connection that is this client now [3.1.4-3]."""
        session, will = self.session, self.will
        if session is None:
            return None
        self._detach_session()
        self.engine.disconnect(SESSION_TAKEN_OVER, "another connection uses this client identifier")
        self._close()
        return SessionReleased(session, will, self.cell)

    # --- back-pressure ---

    def _hold_back(self, publishing: PublishingSide) -> None:
        """Stop reading while a destination of this client's messages is over its high mark."""
        pressures = publishing.publisher.pressures
        if pressures:
            for pressure in pressures:
                if pressure.over and pressure not in self._waits_for:
                    pressure.wait(self.cell.inbox)
                    self._waits_for.append(pressure)
            pressures.clear()
        if self._waits_for or publishing.line.unanswered_count > UNANSWERED_MAX:
            if not self._reading_stopped:
                self.services.counters.publishers_paused += 1
            self.stop_reading()

    def _resume(self, _: Resume) -> None:
        self._waits_for = [pressure for pressure in self._waits_for if pressure.over]
        self._read_on()

    def _read_on(self) -> None:
        if not self._reading_stopped or self._held is not None or self._waits_for:
            return
        if self.publishing is None or self.publishing.line.unanswered_count <= UNANSWERED_MAX:
            self.resume_reading()

    def stop_reading(self) -> None:
        """Let TCP hold the client back."""
        self._reading_stopped = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take bytes from the client again."""
        self._reading_stopped = False
        if self._transport is not None:
            self._transport.resume_reading()

    def _drops_direct(self, count: int) -> bool:
        """Return whether the client has too much unread already; what is dropped is counted."""
        if not self._writing_paused or self._transport is None:
            return False
        if self._transport.buffered_bytes() < self.services.connection_buffer_bytes_max:
            return False
        self.services.counters.count(self.services.counters.dropped, "transmit_congestion", count)
        return True

    def _watch_for_stall(self, buffered_before: int) -> None:
        """Protect the others from a client that has stopped reading: its publishers wait no longer."""
        if not self._writing_paused or self._transport is None or self.pressure is None:
            return
        now_ms = self.runtime.clock.now_ms()
        buffered = self._transport.buffered_bytes()
        if buffered_before >= 0 and buffered < buffered_before:
            self.pressure.progress(now_ms)
        for publisher in self.pressure.waive_if_stalled(now_ms, self.services.slow_subscriber_stall_ms):
            publisher.post(Resume())
        interval_ms = max(10, self.services.slow_subscriber_stall_ms // 2)
        self.runtime.after(interval_ms, lambda: self._watch_for_stall(buffered))

    # --- what a restart must not forget ---

    def before_exactly_once(self, callback: Callable[[], None]) -> None:
        """Call back once the session's QoS 2 packet ids are in the store. Several in one turn share a write."""
        if not self._qos2_waiting:
            self.runtime.dispatcher.at_turn_end(_Qos2Write(self))
        self._qos2_waiting.append(callback)

    def write_qos2(self) -> None:
        """Have the session's QoS 2 row written."""
        session = self.session
        callbacks, self._qos2_waiting = self._qos2_waiting, []
        if session is None or self.delivering is None:
            return
        row = session.qos2_row(self.delivering.sent_exactly_once)
        token, written = self.when_written()
        written.then(lambda _: _run_all(written, callbacks))
        self.services.spool.post(SessionRows([(qos2_key(session.client_id), row)], self.cell.inbox, token))

    def when_written(self) -> tuple[int, LoopFuture[None]]:
        """Return a token for a write to the store, and what is done when it is confirmed."""
        token = self._next_token
        self._next_token -= 1
        written: LoopFuture[None] = LoopFuture()
        self._after_write[token] = written
        return token, written

    async def store_session(self) -> None:
        """Have the session's state written, and wait until it is safe. Raises StoreRefused."""
        session = self.session
        assert session is not None
        token, written = self.when_written()
        row = session.state_row(will=will_to_row(self.will), closed_wall_ms=0)
        self.services.spool.post(SessionRows([(state_key(session.client_id), row)], self.cell.inbox, token))
        await written

    # --- the session ---

    def is_open(self) -> bool:
        """Return whether the client is still there."""
        return self._transport is not None and not self._closing

    def adopt(self, session: Session, will: Will | None) -> None:
        """Take a session, which is this connection's from now on."""
        self.session = session
        self.will = will

    def give_back(self) -> None:
        """Give the session back at once: the client has gone while it was fetched."""
        self._release(with_will=True)

    def log_refusal(self, what: str, reason: str) -> None:
        """Tell the log why a request was refused, for 3.x clients hear no reason."""
        log.info("%s refused %r: %s", self.peer_name(), what, reason)

    # --- the end ---

    def end(self, reason_code: int, text: str) -> None:
        """End the connection on our initiative. The will is due."""
        log.info("connection of %s ends (0x%02x): %s", self.peer_name(), reason_code, text)
        self.engine.disconnect(reason_code, text)
        self._close_abnormally()

    def shut_down(self) -> None:
        """End the connection because the node stops."""
        self.engine.disconnect(SERVER_SHUTTING_DOWN, "the gateway is shutting down")
        self._close_abnormally()

    def refuse(self, reason: str) -> None:
        """Close after a CONNECT that the engine has refused."""
        self.services.counters.count(self.services.counters.refused, reason)
        log.info("connection of %s refused: %s", self.peer_name(), reason)
        self._close()

    def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
        """Our own mistake costs this connection, and its client gets its will and its messages again."""
        self._release(with_will=True)
        if self._transport is not None:
            self._transport.abort()

    def on_stop(self) -> None:
        """Let go of whoever waits for this connection."""
        if self.pressure is not None:
            for publisher in self.pressure.close():
                publisher.post(Resume())

    def peer_name(self) -> str:
        """Return the client's address, for logs."""
        return f"{self.peer.host}:{self.peer.port}" if self.peer is not None else "?"

    def _close_abnormally(self) -> None:
        self._release(with_will=True)
        self._close()

    def _close(self) -> None:
        """Let the last words reach the client, then close."""
        self._closing = True
        if self._transport is not None:
            self.flush()
            self._transport.close_after_flush()

    def _release(self, *, with_will: bool) -> None:
        """Give the session to the directory; at most once."""
        session = self.session
        if session is None:
            return
        will = self.will if with_will else None
        self._detach_session()
        self.directory.inbox.post(SessionReleased(session, will, self.cell))

    def _detach_session(self) -> None:
        """Take the session off this connection: flows end, packet ids are remembered."""
        session, delivering = self.session, self.delivering
        assert session is not None
        self.session = None
        self.will = None
        self.publishing = None
        self.delivering = None
        session.subscriber.address = None
        session.subscriber.pressure = None
        if delivering is not None:
            session.remembered = delivering.unanswered_of_session_queue()
            for flow_id, bound in delivering.flows.items():
                bound.queue.post(UnbindFlow(flow_id))
            delivering.flows.clear()


def _run_all(written: LoopFuture[None], callbacks: list[Callable[[], None]]) -> None:
    """Go on with what waited for a write; after a refused one the connection ends, and nothing goes on."""
    try:
        written.get()
    except StoreRefused:
        return
    for callback in callbacks:
        callback()


class _Qos2Write:
    """Writes the QoS 2 row of a connection at the end of a turn."""

    def __init__(self, connection: MqttConnection) -> None:
        self._connection = connection

    def flush(self) -> None:
        self._connection.write_qos2()


_EVENTS: dict[type, Callable[[MqttConnection, Any], None]] = {
    ConnectReceived: MqttConnection._connect,
    PublishReceived: MqttConnection._publish,
    AcknowledgementReceived: MqttConnection._acknowledged,
    SubscribeReceived: MqttConnection._subscribe,
    UnsubscribeReceived: MqttConnection._unsubscribe,
    AuthReceived: MqttConnection._authenticate,
    DisconnectReceived: MqttConnection._disconnect,
    PeerViolated: MqttConnection._violated,
}

_MESSAGES: dict[type, Callable[[MqttConnection, Any], Any]] = {
    SharedDirect: MqttConnection._shared_direct,
    Deliveries: MqttConnection._deliver,
    Confirmed: MqttConnection._confirmed,
    Refused: MqttConnection._refused,
    Resume: MqttConnection._resume,
    FlowState: lambda connection, message: None,  # MQTT has no word for it
    FlowGone: MqttConnection._flow_gone,
    TakeOver: MqttConnection._take_over,
}
