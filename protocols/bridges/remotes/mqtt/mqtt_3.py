"""A foreign broker that speaks MQTT 3.1.1: amqtt's packets, over a session and a socket of ours.

amqtt's own client is not used. It waits five seconds for a PUBACK and no longer, reads without end, and forgets the
states of messages with their connection.

QoS 1 goes over at least once. QoS 2 goes over exactly once through lost connections and restarts of a foreign broker
that keeps its sessions. After a crash of ours the messages that were under way may come a second time, for their state
is gone; and so they may when the foreign broker loses its session.

MQTT 3.1.1 has no properties: of a message, topic, payload and RETAIN travel. It has no Receive Maximum either: a
foreign broker that sends too much is not read for a while.
"""

import selectors
import socket
import ssl
import time
from collections import deque
from typing import Final, final

from sluicegate.actors.runtime.ticker import Stalls
from sluicegate.messaging.message.outcomes import REJECTED
from sluicegate.protocols.bridges.remote import (
    Line,
    Opened,
    Outgoing,
    RemoteBroker,
    RemoteFailed,
    Shortfall,
    Work,
)
from sluicegate.protocols.bridges.remotes.connecting import LineClosed, connector_to
from sluicegate.protocols.bridges.remotes.mqtt.amqtt_packets import Malformed, PacketInput
from sluicegate.protocols.bridges.remotes.mqtt.arrivals import Arrivals
from sluicegate.protocols.bridges.remotes.mqtt.keep_alive import SILENT_KEEP_ALIVES_MAX, KeepAlive, Look
from sluicegate.protocols.bridges.remotes.mqtt.outgoing import OUTPUT_BYTES_MAX, PoisonFinder, Unwritten, refusal_of
from sluicegate.protocols.bridges.remotes.mqtt.session import (
    ClientSession,
    Confirmed,
    Connected,
    Granted,
    Received,
    SessionEvent,
    Unsubscribed,
)
from sluicegate.protocols.bridges.remotes.sockets import (
    READ_BYTES,
    TURN_BYTES_MAX,
    Waker,
    close_when_written,
    new_selector,
    why,
)
from sluicegate.protocols.bridges.settings import CONNECT_S_MAX, BridgeSettings

_TICK_MS: Final = 1_000  # between two looks at the time, at most
_REFUSALS: Final = {
    1: "Unacceptable protocol version",
    2: "Identifier rejected",
    3: "Server unavailable",
    4: "Bad user name or password",
    5: "Not authorized",
}


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


@final
class Mqtt3Remote(RemoteBroker):
    """A foreign broker that speaks MQTT 3.1.1."""

    keeps_unconfirmed = True

    def __init__(self, settings: BridgeSettings, line: Line) -> None:
        super().__init__(settings, line)
        remote = settings.remote
        self._session = ClientSession(
            window_messages=settings.window_messages, has_qos_2=any(rule.qos == 2 for rule in settings.outgoing)
        )
        self._arrivals = Arrivals(settings, line, self._session.acknowledgements)
        self._connector = connector_to(remote)
        self.stale_filters = remote.stale_filters  # to be unsubscribed from
        self._queue: deque[Outgoing] = deque()  # to be published
        self._poison = PoisonFinder()

    def forget(self) -> None:
        """Forget messages without an outcome."""
        self._session.forget()
        self._queue.clear()

    def run(self) -> None:
        """Connect and serve."""
        waker = Waker()
        self.line.wake_with(waker.wake)
        sock: socket.socket | None = None
        serving: _Serving | None = None
        try:
            sock = self._connector.connect(waker, lambda: self.take_work().is_closed)
            serving = _Serving(self, self._session, sock, waker)
            serving.run()
        except LineClosed:
            pass
        finally:
            self.line.wake_with(None)
            if serving is not None:
                serving.close()
            if sock is not None:
                sock.close()
            waker.close()
            self._session.connection_lost()

    # --- what a connection uses ---

    def take_work(self) -> Work:
        """Take what the bridge wants done, and acknowledge what it has settled."""
        work = self.line.work()
        self._queue += work.messages
        if work.settlements:
            self._session.settle(work.settlements)
        return work

    def next_message(self) -> Outgoing | None:
        """Take the next message that may be published now."""
        queue, session = self._queue, self._session
        while queue and len(session.output) < OUTPUT_BYTES_MAX:
            message = queue[0]
            if not session.can_publish(message.qos):
                return None
            queue.popleft()
            refusal = refusal_of(message, 0, self.settings.remote.packet_bytes_max)
            if not refusal:
                return message
            self.line.refused(message.number, REJECTED, refusal)
        return None

    def lost(self, reason: str) -> RemoteFailed:
        """Return the failure of a connection that the foreign broker has ended."""
        if not self._session.is_connected:  # nothing of ours has gone out
            return RemoteFailed(reason)
        message = self._session.first_unanswered()
        if message is None:
            return RemoteFailed(reason + self._poison.look(0, "", 0))
        return RemoteFailed(reason + self._poison.look(message.number, message.topic, len(message.payload)))

    def is_crowded(self) -> bool:
        """Return whether too much waits for the bridge: arrivals, or what is acknowledged behind them."""
        waiting_max = 2 * self.settings.window_messages
        return self.line.is_crowded() or self._session.acknowledgements.count >= waiting_max

    def received(self, message: Received) -> None:
        """Report an arrival; one of QoS 0 if there is room."""
        topic, qos, packet_id = message.topic, message.qos, message.packet_id
        rule = self._arrivals.rule_of(topic, qos, packet_id)
        if rule >= 0:
            payload, retain = message.payload, message.retain
            self._arrivals.add(rule, topic, payload, qos, packet_id, retain=retain, fault=message.fault)


@final
class _Serving:
    """Serves one connection: a socket, and what is read from it and written to it."""

    def __init__(self, remote: Mqtt3Remote, session: ClientSession, sock: socket.socket, waker: Waker) -> None:
        self._remote = remote
        self._session = session
        self._socket = sock
        self._waker = waker
        self._selector = new_selector()
        self._selector.register(waker.socket, selectors.EVENT_READ)
        self._watched = 0  # what the selector waits for at the socket
        self._input = PacketInput(remote.settings.remote.packet_bytes_max)
        self._is_readable = True  # the socket, or the TLS above it
        self._is_paused = False  # nothing is read: too much waits for the bridge, or for the foreign broker
        self._loss = ""  # why nothing more can be read; what came before is handled first
        self._is_open = False  # the subscriptions are those of the rules
        self._session_present = False
        self._written_bytes = 0
        self._unwritten = Unwritten(remote.line)
        now_ms, keep_alive_s = _now_ms(), remote.settings.remote.keep_alive_s
        self._tick_ms = min(_TICK_MS, keep_alive_s * 250)
        self._keep_alive = KeepAlive(keep_alive_s, now_ms)
        self._stalls = Stalls(self._tick_ms)
        self._stalls.begin(time.monotonic_ns())
        self._looked_ms = now_ms
        self._answer_until_ms = now_ms + CONNECT_S_MAX * 1000  # to CONNECT; then to SUBSCRIBE, or PUBREL

    def close(self) -> None:
        """End: messages of QoS 0 that the socket has not taken are not sent."""
        self._selector.close()
        self._unwritten.written(self._written_bytes)
        self._unwritten.connection_lost()

    def run(self) -> None:
        """Serve until the bridge closes the line. Raises RemoteFailed."""
        remote, session = self._remote, self._session
        settings = remote.settings.remote
        try:
            password = settings.current_password()
        except ValueError as error:  # it is being replaced
            raise RemoteFailed(str(error)) from None
        session.connect(
            client_id=settings.client_id,
            keep_alive_s=settings.keep_alive_s,
            username=settings.username,
            password=password,
            is_clean=settings.session_expiry_s == 0,
        )
        while True:
            self._write()
            remote.line.flush()
            self._wait()
            if self._is_readable and not self._is_paused:
                self._read()
            work = remote.take_work()
            self._handle()
            if self._loss:
                raise remote.lost(self._loss)
            if self._is_open and not work.is_closed:  # the rules give back what has not gone out
                self._publish()
            now_ms = _now_ms()
            if now_ms - self._looked_ms >= self._tick_ms:
                self._look(now_ms)
            if work.is_closed:
                session.disconnect()
                self._written_bytes += close_when_written(self._socket, session.output)
                return

    # --- the socket ---

    def _wait(self) -> None:
        """Wait for the socket or the bridge, at most until the next look at the time."""
        self._watch()
        is_ready = not self._must_pause() if self._is_paused else self._is_readable
        for key, events in self._selector.select(0 if is_ready else self._tick_ms / 1000):
            if key.fileobj is self._waker.socket:
                self._waker.clear()
            elif events & selectors.EVENT_READ:
                self._is_readable = True

    def _watch(self) -> None:
        """Have the selector wait for what can be done: an end of the connection that nobody reads is seen later."""
        wanted = 0 if self._is_paused else selectors.EVENT_READ
        wanted |= selectors.EVENT_WRITE if self._session.output else 0
        if wanted == self._watched:
            return
        if not wanted:
            self._selector.unregister(self._socket)
        elif not self._watched:
            self._selector.register(self._socket, wanted)
        else:
            self._selector.modify(self._socket, wanted)
        self._watched = wanted

    def _read(self) -> None:
        taken = 0
        try:
            while taken < TURN_BYTES_MAX:
                data = self._socket.recv(READ_BYTES)
                if not data:
                    self._loss = "the connection was lost"
                    break
                taken += len(data)
                self._input.add(data)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            self._is_readable = False
        except OSError as error:
            self._loss = why(error)
        if taken:
            self._keep_alive.heard(_now_ms())

    def _write(self) -> None:
        """Write what the socket takes."""
        session = self._session
        output = session.output
        if not output:
            return
        before = self._written_bytes
        try:
            while output:
                sent = self._socket.send(output)
                del output[:sent]
                self._written_bytes += sent
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except OSError as error:
            raise self._remote.lost(why(error)) from None
        if self._written_bytes > before:
            now_ms = _now_ms()
            self._keep_alive.sent(now_ms)
            if session.is_output_full:  # nothing is read then: that it takes something is its only sign of life
                self._keep_alive.heard(now_ms)
            self._unwritten.written(self._written_bytes)

    # --- what is to be sent ---

    def _publish(self) -> None:
        session = self._session
        session.repeat()
        while (message := self._remote.next_message()) is not None:
            session.publish(message)
            if not message.qos:
                self._unwritten.add(message.number, self._written_bytes + len(session.output))

    def _look(self, now_ms: int) -> None:
        """Look at the time: what should have come by now, and whether the broker is pinged."""
        self._looked_ms = now_ms
        stalled_ms = self._stalls.look(time.monotonic_ns())
        self._answer_until_ms += stalled_ms
        # Until CONNACK the limit of that alone counts: no ping may be sent. A broker that takes nothing is not listened
        # to, and silent all the same.
        is_held = self._is_paused and not self._session.is_output_full
        look = self._keep_alive.look(now_ms, stalled_ms, is_listening=self._session.is_connected and not is_held)
        if look is Look.SILENT:
            silent_s = SILENT_KEEP_ALIVES_MAX * self._remote.settings.remote.keep_alive_s
            raise RemoteFailed(f"the broker has been silent for {silent_s} s, and did not answer a ping")
        if look is Look.PING and self._session.is_connected:
            self._session.ping()
        if now_ms <= self._answer_until_ms or self._is_paused:
            return
        if self._is_open:
            self._session.give_up_releases()
        else:
            raise RemoteFailed(f"no answer to {self._session.awaited} within {CONNECT_S_MAX} s")

    # --- what comes ---

    def _must_pause(self) -> bool:
        """Return whether too much waits for the bridge, or for the foreign broker, to handle another packet."""
        return self._remote.is_crowded() or self._session.is_output_full

    def _handle(self) -> None:
        """Handle packets, until none is complete or too much waits."""
        session, packets = self._session, self._input
        try:
            while not self._must_pause():
                packet = packets.next()
                if packet is None:
                    self._is_paused = False
                    return
                event = session.receive(packet)
                if event is not None:
                    self._take(event)
        except Malformed as malformed:
            raise RemoteFailed(f"the foreign broker has sent a malformed packet: {malformed}") from None
        self._is_paused = True

    def _take(self, event: SessionEvent) -> None:
        match event:
            case Received():
                self._remote.received(event)
            case Confirmed():
                self._remote.line.confirmed(event.number)
            case Connected():
                self._connected(event)
            case Granted():
                self._granted(event)
            case Unsubscribed():
                self._opened()

    def _connected(self, event: Connected) -> None:
        if event.code:
            reason = _REFUSALS.get(event.code, "for a reason that MQTT 3.1.1 does not have")
            raise RemoteFailed(f"the connection was refused: {reason} ({event.code})")
        self._session_present = event.session_present
        self._answer_until_ms = _now_ms() + CONNECT_S_MAX * 1000
        remote = self._remote
        if not event.session_present:
            remote.stale_filters = ()
        if remote.settings.incoming:
            # In a session that is present, too: a broker that crashed may have brought back an older state of it. The
            # price is that all retained messages come again.
            self._session.subscribe([(rule.source, rule.qos) for rule in remote.settings.incoming])
        else:
            self._subscribed([])

    def _granted(self, event: Granted) -> None:
        rules = self._remote.settings.incoming
        if len(event.qos) != len(rules):
            raise RemoteFailed(
                f"the foreign broker has answered {len(rules)} subscriptions with {len(event.qos)} codes"
            )
        granted_qos: list[int] = []
        for rule, granted in zip(rules, event.qos, strict=True):
            if granted is None:
                raise RemoteFailed(f"the subscription {rule.source!r} was refused")
            granted_qos.append(granted)
        self._subscribed(granted_qos)

    def _subscribed(self, granted_qos: list[int]) -> None:
        """The subscriptions of the rules are there; those of earlier ones go after that, so that nothing is missed."""
        remote = self._remote
        for index, (rule, granted) in enumerate(zip(remote.settings.incoming, granted_qos, strict=True)):
            if granted < rule.qos:
                text = f"the foreign broker grants QoS {granted}; the rule asks for {rule.qos}"
                remote.line.lowered(Shortfall(is_incoming=True, rule=index, text=text))
        if remote.stale_filters:
            self._answer_until_ms = _now_ms() + CONNECT_S_MAX * 1000
            self._session.unsubscribe(remote.stale_filters)
        else:
            self._opened()

    def _opened(self) -> None:
        self._remote.stale_filters = ()
        self._is_open = True
        self._remote.line.opened(Opened(session_present=self._session_present))
