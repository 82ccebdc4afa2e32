"""MQTT clients: Eclipse Paho, which connects again and repeats by itself."""

import queue
import threading
import time
from typing import Any, Final

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion, MessageState, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

from rounds.clients.pace import HOUR_MS, PAUSE_S, WINDOW, Numbers, Pace, payload_of, read_payload
from support.foreign.paho_client import properties
from support.load.mqtt_clients import KEY_PROPERTY
from support.processes.gateway import LOOPBACK

V311: Final = MQTTProtocolVersion.MQTTv311
V5: Final = MQTTProtocolVersion.MQTTv5
KEEP_ALIVE_S: Final = 5
AGAIN_S: Final = 0.2
SESSION_S: Final = 3600


class Client(mqtt.Client):
    """Paho, but for two faults of it.

    With a second attempt to connect, it forgets that a message was released. It would publish that again, which is
    another message for a server that has completed the first one [4.3.3-6]. And what is published between CONNECT and
    CONNACK overtakes what it sends again then [4.6.0-1]: so publish only while `has_repeated`, and hold `order`.
    """

    def __init__(self, *arguments: Any, **more: Any) -> None:
        self.order: Final = threading.Lock()
        self.has_repeated = False
        super().__init__(*arguments, **more)

    def reconnect(self) -> MQTTErrorCode:
        """Connect again."""
        with self.order:
            self.has_repeated = False
        return super().reconnect()

    def _handle_connack(self) -> MQTTErrorCode:
        result = super()._handle_connack()
        self.has_repeated = result == MQTTErrorCode.MQTT_ERR_SUCCESS
        return result

    def _messages_reconnect_reset_out(self) -> None:
        released = [each for each in self._out_messages.values() if each.state == MessageState.MQTT_MS_RESEND_PUBREL]
        super()._messages_reconnect_reset_out()
        for each in released:
            each.state = MessageState.MQTT_MS_RESEND_PUBREL


def persistent_client(name: str, version: MQTTProtocolVersion) -> Client:
    """Return a client whose session is kept."""
    clean = None if version == V5 else False
    client = Client(CallbackAPIVersion.VERSION2, name, clean_session=clean, protocol=version)
    client.reconnect_delay_set(AGAIN_S, AGAIN_S)  # type: ignore[arg-type]  # fractions are taken as well
    client.max_inflight_messages_set(WINDOW)
    client.connect_timeout = KEEP_ALIVE_S
    return client


def begin(client: mqtt.Client, version: MQTTProtocolVersion, port: int) -> None:
    """Connect, and again whenever that is lost, on a thread of the client's."""
    more: dict[str, Any] = {}
    if version == V5:
        more = {"clean_start": False, "properties": properties(PacketTypes.CONNECT, SessionExpiryInterval=SESSION_S)}
    client.connect_async(LOOPBACK, port, KEEP_ALIVE_S, **more)
    client.loop_start()


class MqttPublisher:
    """Publishes to topics `<first level>/<key>`."""

    def __init__(
        self, name: str, pace: Pace, port: int, *, version: MQTTProtocolVersion, qos: int, topic: str, is_exact: bool
    ) -> None:
        self._kind: Final = f"MQTT {'5' if version == V5 else '3.1.1'}"
        self._pace: Final = pace
        self._numbers: Final = Numbers(name, pace.ledger, is_exact=is_exact)
        self._qos: Final = qos
        self._topic: Final = topic
        self._version: Final = version
        self._answers: Final[queue.SimpleQueue[tuple[int, bool]]] = queue.SimpleQueue()  # and whether it is stored
        self._under_way: Final[dict[int, tuple[str, int]]] = {}  # by packet id
        self._client: Final = persistent_client(name, version)
        self._client.on_publish = self._answered
        begin(self._client, version, port)
        self._thread: Final = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._pace.ended.is_set():
            with self._client.order:
                if self._pace.publishing.is_set() and self._client.has_repeated and len(self._under_way) < WINDOW:
                    self._publish()
            self._take_answers()
            time.sleep(PAUSE_S)
        self._client.disconnect()
        self._client.loop_stop()

    def _publish(self) -> None:
        key, number = self._numbers.next()
        section = None
        if self._version == V5:
            section = properties(
                PacketTypes.PUBLISH, MessageExpiryInterval=HOUR_MS // 1000, UserProperty=(KEY_PROPERTY, key)
            )
        sent = self._client.publish(f"{self._topic}/{key}", payload_of(key, number), self._qos, False, section)
        self._under_way[sent.mid] = key, number

    def _take_answers(self) -> None:
        while not self._answers.empty():
            mid, is_stored = self._answers.get()
            key, number = self._under_way.pop(mid)
            if is_stored:
                self._pace.ledger.confirm(self._kind, key, number)
            else:
                self._pace.ledger.refuse(key, number)

    def _answered(self, client: mqtt.Client, userdata: Any, mid: int, reason: ReasonCode, section: Any) -> None:
        self._answers.put((mid, not reason.is_failure))


class MqttConsumer:
    """Consumes a topic filter in a session that is kept."""

    def __init__(
        self,
        name: str,
        pace: Pace,
        port: int,
        *,
        version: MQTTProtocolVersion,
        qos: int,
        filter_text: str,
    ) -> None:
        self._name: Final = name
        self._pace: Final = pace
        self._qos: Final = qos
        self._filter: Final = filter_text
        self.subscribed: Final = threading.Event()
        self._client: Final = persistent_client(name, version)
        self._client.on_connect = self._connected
        self._client.on_subscribe = lambda client, userdata, mid, codes, section: self.subscribed.set()
        self._client.on_message = self._received
        begin(self._client, version, port)

    def end(self) -> None:
        """Disconnect."""
        self._client.disconnect()
        self._client.loop_stop()

    def _connected(
        self, client: mqtt.Client, userdata: Any, flags: mqtt.ConnectFlags, reason: ReasonCode, section: Any
    ) -> None:
        if reason.is_failure:
            return
        if flags.session_present and self.subscribed.is_set():
            return
        if self.subscribed.is_set():
            self._pace.ledger.fault(f"the session of {self._name} is gone")
        client.subscribe(self._filter, self._qos)

    def _received(self, client: mqtt.Client, userdata: Any, message: mqtt.MQTTMessage) -> None:
        self._pace.ledger.receive(*read_payload(bytes(message.payload)))
