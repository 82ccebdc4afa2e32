"""A foreign broker that speaks MQTT 5, by paho-mqtt.

QoS 1 goes over at least once. QoS 2 goes over exactly once through lost connections and restarts of a foreign broker
that keeps its sessions: paho has the state of each message in memory. After a crash of ours the messages that were
under way may come a second time, for their state is gone; and so they may when the foreign broker loses its session.
"""

import selectors
import struct
import time
from collections import deque
from contextlib import closing
from typing import Any, Final, final

from paho.mqtt import MQTTException
from paho.mqtt.enums import MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from sluicegate.messaging.message.outcomes import FAILED, REJECTED
from sluicegate.messaging.topics.syntax import SHARE_TOPICS
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
from sluicegate.protocols.bridges.remotes.mqtt.arrivals import Arrivals
from sluicegate.protocols.bridges.remotes.mqtt.messages import (
    decoded_headers,
    encoded_properties,
)
from sluicegate.protocols.bridges.remotes.mqtt.outgoing import OUTPUT_BYTES_MAX, PoisonFinder, Unwritten, refusal_of
from sluicegate.protocols.bridges.remotes.mqtt.paho_client import PUBLISH_IDS_MAX, Packed, PahoClient
from sluicegate.protocols.bridges.remotes.sockets import Waker, new_selector, why
from sluicegate.protocols.bridges.settings import CONNECT_S_MAX, BridgeSettings
from sluicegate.protocols.mqtt.codec.reason_codes import (
    KEEP_ALIVE_TIMEOUT,
    PAYLOAD_FORMAT_INVALID,
    TOPIC_NAME_INVALID,
    PeerViolation,
)

_TICK_S: Final = 1.0  # between two looks at the keep-alive
_REFUSED: Final = 0x80
_NEVER_TAKEN: Final = (TOPIC_NAME_INVALID, PAYLOAD_FORMAT_INVALID)  # codes that blame the message itself


@final
class Mqtt5Remote(RemoteBroker):
    """A foreign broker that speaks MQTT 5."""

    keeps_unconfirmed = True

    def __init__(self, settings: BridgeSettings, line: Line) -> None:
        super().__init__(settings, line)
        remote = settings.remote
        self._client = PahoClient(
            remote.client_id,
            received=self._received,
            confirmed=self._confirmed,
            packet_bytes_max=remote.packet_bytes_max,
        )
        self._client.on_connect = self._on_connect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_unsubscribe = self._on_unsubscribe
        self._client.on_disconnect = self._on_disconnect
        self._connector = connector_to(remote)
        self._window = min(settings.window_messages, PUBLISH_IDS_MAX)
        self._sends_qos_2 = any(rule.qos == 2 for rule in settings.outgoing)
        self._queue: deque[Outgoing] = deque()  # to be published
        self._numbers: dict[int, int] = {}  # packet id -> number
        self._unwritten = Unwritten(line)
        self._acknowledgements = self._client.acknowledgements
        self._arrivals = Arrivals(settings, line, self._acknowledgements)
        self._poison = PoisonFinder()
        self._in_flight_max = 0
        self._packet_bytes_max = 0  # that may be sent
        self._qos_max = 2
        self._retains = True
        self._failure = ""  # why the connection is refused, or ends
        self._is_connected = False
        self._exceeds = False  # the foreign broker has sent more than Receive Maximum allows
        self._stale_filters = remote.stale_filters  # to be unsubscribed from
        self._still_subscribed: tuple[str, ...] = ()  # of these: the foreign broker does not let go of them
        self._subscription_id = 0  # packet id of SUBSCRIBE; 0: SUBACK has come, or nothing is subscribed to
        self._is_own_session = False  # what the foreign broker has of ours, it has of this object

    def forget(self) -> None:
        """Forget messages without an outcome."""
        self._client.forget()
        self._numbers.clear()
        self._queue.clear()
        self._acknowledgements.forget_unsettled()
        self._is_own_session = False

    def run(self) -> None:
        """Connect and serve."""
        with closing(Waker()) as waker, new_selector() as selector:
            self._run(waker, selector)

    def _run(self, waker: Waker, selector: selectors.BaseSelector) -> None:
        try:
            selector.register(waker.socket, selectors.EVENT_READ)
            self.line.wake_with(waker.wake)
            self._connect(waker)
            sock = self._client.socket()
            assert sock is not None, "it is connected"
            selector.register(sock, selectors.EVENT_READ)
            self._take_work()  # its settlements, before any of these messages comes again
            self._serve(selector, waker, sock)
        except LineClosed:
            pass
        finally:
            self.line.wake_with(None)
            self._client.close()
            self._is_connected = False
            self._acknowledgements.connection_lost()
            self._unwritten.written(self._client.written_bytes)
            self._unwritten.connection_lost()

    # --- connecting ---

    def _connect(self, waker: Waker) -> None:
        remote, client = self.settings.remote, self._client
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho has no annotation there
        properties.SessionExpiryInterval = remote.session_expiry_s
        properties.ReceiveMaximum = self._window
        properties.MaximumPacketSize = remote.packet_bytes_max
        properties.RequestProblemInformation = 1
        self._failure = ""
        self._is_connected = False
        self._exceeds = False
        self._subscription_id = 0
        client.connect_socket = lambda: self._connector.connect(waker, lambda: self._take_work().is_closed)
        try:  # the file may have changed
            if remote.username:
                client.username_pw_set(remote.username, remote.current_password())
            client.connect(remote.host, remote.port, remote.keep_alive_s, clean_start=False, properties=properties)
        except (OSError, ValueError) as error:
            raise RemoteFailed(why(error)) from None

    def _on_connect(self, client: Any, userdata: Any, flags: Any, reason: Any, properties: Properties | None) -> None:
        if reason.is_failure:
            text = getattr(properties, "ReasonString", "")
            self._failure = f"the connection was refused: {reason} (0x{reason.value:02x}){': ' if text else ''}{text}"
            return
        self._in_flight_max = min(self._window, getattr(properties, "ReceiveMaximum", 65_535))
        own_max = self.settings.remote.packet_bytes_max
        self._packet_bytes_max = min(own_max, getattr(properties, "MaximumPacketSize", own_max))
        self._qos_max = getattr(properties, "MaximumQoS", 2)
        for index, outgoing in enumerate(self.settings.outgoing):
            if outgoing.qos > self._qos_max:
                self._granted(index, outgoing.qos, self._qos_max, is_incoming=False)
        self._retains = bool(getattr(properties, "RetainAvailable", 1))
        if self._client.session_present and self._is_own_session:
            self._client.repeat_releases()
        elif self._client.session_present and self._sends_qos_2 and self._qos_max == 2:
            self._client.release_ids(self._window)
        self._is_own_session = True
        self._subscribe()

    def _on_unsubscribe(self, client: Any, userdata: Any, packet_id: int, reasons: Any, properties: Any) -> None:
        pairs = zip(self._stale_filters, reasons, strict=False)
        self._still_subscribed = tuple(each for each, reason in pairs if reason.is_failure)
        self._opened()

    def _subscribe(self) -> None:
        wanted = [
            (
                rule.source,
                SubscribeOptions(
                    qos=rule.qos,
                    noLocal=not rule.source.startswith(SHARE_TOPICS),
                    retainAsPublished=True,
                    retainHandling=SubscribeOptions.RETAIN_SEND_IF_NEW_SUB,
                ),
            )
            for rule in self.settings.incoming
        ]
        if not wanted:
            self._subscribed()
            return
        _, packet_id = self._client.subscribe(wanted)
        self._subscription_id = packet_id or 0

    def _on_subscribe(self, client: Any, userdata: Any, packet_id: int, reasons: Any, properties: Any) -> None:
        if packet_id != self._subscription_id:
            return
        self._subscription_id = 0
        for index, (rule, reason) in enumerate(zip(self.settings.incoming, reasons, strict=False)):
            if reason.is_failure:
                self._failure = f"the subscription {rule.source!r} was refused: {reason} (0x{reason.value:02x})"
                return
            if reason.value < rule.qos:
                self._granted(index, rule.qos, reason.value, is_incoming=True)
        self._subscribed()

    def _subscribed(self) -> None:
        """The subscriptions of the rules are there; those of earlier ones go after that, so that nothing is missed."""
        if self._stale_filters and self._client.session_present:
            self._client.unsubscribe([*self._stale_filters])
        else:
            self._opened()

    def _granted(self, rule: int, asked: int, granted: int, *, is_incoming: bool) -> None:
        text = f"the foreign broker grants QoS {granted}; the rule asks for {asked}"
        self.line.lowered(Shortfall(is_incoming=is_incoming, rule=rule, text=text))

    def _opened(self) -> None:
        self._stale_filters = ()
        self._is_connected = True
        self.line.opened(
            Opened(self._in_flight_max, self._client.session_present, still_subscribed=self._still_subscribed)
        )

    def _on_disconnect(self, client: Any, userdata: Any, flags: Any, reason: Any, properties: Any) -> None:
        if flags.is_disconnect_packet_from_server:
            text = getattr(properties, "ReasonString", "")
            self._failure = f"the foreign broker disconnects: {reason} (0x{reason.value:02x})"
            self._failure += f": {text}" if text else ""
        elif reason.value == KEEP_ALIVE_TIMEOUT:  # paho has ended the connection
            self._failure = f"no answer to PINGREQ within {self.settings.remote.keep_alive_s} s"

    # --- serving ---

    def _serve(self, selector: selectors.BaseSelector, waker: Waker, sock: Any) -> None:
        client, line = self._client, self.line
        looked_s = time.monotonic()
        connected_until_s = looked_s + CONNECT_S_MAX
        watched = self._write(selector, sock, selectors.EVENT_READ)  # CONNECT
        while True:
            is_held = self._holds_back()
            events = selector.select(0 if client.is_readable and not is_held else _TICK_S)
            is_readable = client.is_readable
            for key, _ in events:
                if key.fileobj is waker.socket:
                    waker.clear()
                else:
                    is_readable = True
            if is_readable and not is_held:
                self._check(self._read())
            work = self._take_work()
            if self._is_connected and not work.is_closed:  # the rules give back what has not gone out
                self._publish()
            now_s = time.monotonic()
            if now_s - looked_s >= _TICK_S:
                looked_s = now_s
                if is_held and not client.is_output_full:
                    client.misses_nothing()
                if client.is_connected():  # until CONNACK its own limit counts
                    self._check(client.loop_misc())
                if not self._is_connected and now_s > connected_until_s:
                    raise RemoteFailed(f"no answer to CONNECT within {CONNECT_S_MAX} s")
            if work.is_closed:
                client.disconnect_when_written()
                return
            watched = self._write(selector, sock, watched)
            line.flush()

    def _holds_back(self) -> bool:
        """Return whether nothing is read for now: the foreign broker ignores Receive Maximum, and fills our memory.

        So it does if it takes no answers. Others are always read from, for what they have confirmed is among what
        comes.
        """
        if self._client.is_output_full:
            return True
        return self._acknowledgements.count > self._window and self.line.unsettled_bytes >= self.settings.window_bytes

    def _read(self) -> MQTTErrorCode:
        """Read and handle what is there. Raises RemoteFailed for a packet that MQTT does not have."""
        try:
            return self._client.read()
        except (struct.error, IndexError, MQTTException, PeerViolation) as error:
            raise RemoteFailed(f"the foreign broker has sent a malformed packet: {error}") from None

    def _take_work(self) -> Work:
        """Take what the bridge wants done, and acknowledge what it has settled."""
        work = self.line.work()
        self._queue += work.messages
        if work.settlements:
            self._acknowledgements.settle(work.settlements)
        return work

    def _write(self, selector: selectors.BaseSelector, sock: Any, watched: int) -> int:
        """Write what there is; return what the socket is watched for from now on, after `watched`."""
        try:
            is_all = self._client.write()
        except OSError as error:
            raise RemoteFailed(why(error) + self._poison_message()) from None
        self._unwritten.written(self._client.written_bytes)
        events = 0 if self._holds_back() else selectors.EVENT_READ
        events |= 0 if is_all else selectors.EVENT_WRITE
        if events == watched:
            return watched
        if not events:
            selector.unregister(sock)
        elif not watched:
            selector.register(sock, events)
        else:
            selector.modify(sock, events)
        return events

    def _check(self, result: MQTTErrorCode) -> None:
        """Raise RemoteFailed if the connection has ended, or was refused."""
        if self._failure:
            raise RemoteFailed(self._failure)
        if result != MQTTErrorCode.MQTT_ERR_SUCCESS:
            is_lost = result in (MQTTErrorCode.MQTT_ERR_CONN_LOST, MQTTErrorCode.MQTT_ERR_NO_CONN)
            lost = f"the connection was lost: {self._client.loss}" if self._client.loss else "the connection was lost"
            what = lost + self._poison_message() if is_lost else f"paho-mqtt: {MQTTErrorCode(result).name}"
            raise RemoteFailed(what)

    def _poison_message(self) -> str:
        """Return what to say of a message that the foreign broker may have ended the connection because of."""
        if not self._is_connected:  # nothing of ours has gone out, or no more than was repeated
            return ""
        packet_id, topic, payload_bytes = self._client.first_unanswered()
        return self._poison.look(self._numbers.get(packet_id, 0), topic, payload_bytes)

    # --- messages for the foreign broker ---

    def _publish(self) -> None:
        client, queue = self._client, self._queue
        if client.unreleased_ids:
            return
        while queue and client.output_bytes < OUTPUT_BYTES_MAX:
            message = queue[0]
            qos = min(message.qos, self._qos_max)
            if qos and len(self._numbers) >= self._in_flight_max:
                return
            queue.popleft()
            section = encoded_properties(message.headers, message.path)
            refusal = refusal_of(message, len(section), self._packet_bytes_max)
            if refusal:
                self.line.refused(message.number, REJECTED, refusal)
                continue
            try:
                packet_id = client.publish_as(
                    message.topic,
                    message.payload,
                    qos=qos,
                    retain=message.retain and self._retains,
                    properties=Packed(section),
                )
            except ValueError as error:  # a wildcard in the topic, or a topic or payload that is too long
                self.line.refused(message.number, REJECTED, f"MQTT cannot carry it: {error}")
                continue
            if qos:
                self._numbers[packet_id] = message.number
            else:
                self._unwritten.add(message.number, client.written_bytes + client.output_bytes)

    def _confirmed(self, packet_id: int, code: int, text: str) -> None:
        number = self._numbers.pop(packet_id, None)
        if number is None:
            return
        if code < _REFUSED:
            self.line.confirmed(number)
            return
        outcome = REJECTED if code in _NEVER_TAKEN else FAILED
        self.line.refused(number, outcome, f"reason code 0x{code:02x}{': ' if text else ''}{text}")

    # --- messages of the foreign broker ---

    def _received(self, topic: str, section: bytes, payload: bytes, qos: int, retain: bool, packet_id: int) -> None:
        rule = self._arrivals.rule_of(topic, qos, packet_id)
        if rule < 0:
            return
        if qos and self._acknowledgements.count >= self._window:
            self._is_exceeded(rule)
        headers, fault = None, ""
        if section:
            try:
                headers = decoded_headers(section)
            except PeerViolation as violation:
                fault = str(violation)
        self._arrivals.add(rule, topic, payload, qos, packet_id, retain=retain, headers=headers, fault=fault)

    def _is_exceeded(self, rule: int) -> None:
        """Tell of a broker that sends more than Receive Maximum allows [MQTT 3.3.4-9].

        mosquitto 2.0.11 does so whenever it has more messages for us, and to disconnect would bring them again.
        """
        if not self._exceeds:
            self._exceeds = True
            text = f"the foreign broker sends more than {self._window} unconfirmed messages, the Receive Maximum"
            self.line.lowered(Shortfall(is_incoming=True, rule=rule, text=text))
