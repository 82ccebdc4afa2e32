"""A Paho client for tests that block: received messages go into a queue; each method returns when it is answered."""

import queue
import ssl
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

ANSWER_S: Final = 30
QUIET_S: Final = 0.3  # how long nothing has to come

MQTT_3_1, MQTT_3_1_1, MQTT_5 = MQTTProtocolVersion.MQTTv31, MQTTProtocolVersion.MQTTv311, MQTTProtocolVersion.MQTTv5


def properties(packet_type: int, **values: Any) -> Properties:
    """Properties of a packet by paho's names, such as `ContentType`."""
    section = Properties(packet_type)  # type: ignore[no-untyped-call]  # paho left it untyped
    for name, value in values.items():
        setattr(section, name, value)
    return section


class PahoClient:
    """One paho client on its own thread."""

    def __init__(
        self,
        client_id: str,
        *,
        version: MQTTProtocolVersion = MQTT_5,
        transport: str = "tcp",
        authority: Path | None = None,
        persistent: bool = False,
        will: tuple[str, bytes, int] | None = None,
        manual_ack: bool = False,
    ) -> None:
        self.version = version
        self.persistent = persistent
        self.messages: queue.Queue[mqtt.MQTTMessage] = queue.Queue()
        self._connected = threading.Event()
        self._subscribed: queue.Queue[list[ReasonCode]] = queue.Queue()
        self._session_present = False
        self._reason: ReasonCode | None = None
        clean = {} if version == MQTT_5 else {"clean_session": not persistent}
        self.client = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            client_id,
            protocol=version,
            transport=transport,  # type: ignore[arg-type]  # one of two texts
            manual_ack=manual_ack,
            reconnect_on_failure=False,
            **clean,
        )
        if transport == "websockets":
            self.client.ws_set_options("/mqtt")
        if authority is not None:
            self.client.tls_set(ca_certs=str(authority), tls_version=ssl.PROTOCOL_TLS_CLIENT)
        if will is not None:
            self.client.will_set(will[0], will[1], will[2])
        self.client.on_connect = self._on_connect
        self.client.on_subscribe = lambda client, userdata, mid, codes, section: self._subscribed.put(codes)
        self.client.on_message = lambda client, userdata, message: self.messages.put(message)

    def connect(self, port: int) -> bool:
        """Connect; return whether a session was there."""
        self._connected.clear()
        if self.version == MQTT_5:
            expiry = properties(PacketTypes.CONNECT, SessionExpiryInterval=3600 if self.persistent else 0)
            self.client.connect("127.0.0.1", port, clean_start=not self.persistent, properties=expiry)
        else:
            self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        assert self._connected.wait(ANSWER_S), "no CONNACK"
        assert self._reason is not None
        assert not self._reason.is_failure, self._reason
        return self._session_present

    def subscribe(self, filter_text: str, qos: int, *, options: SubscribeOptions | None = None) -> None:
        """Subscribe, and wait until it is granted as asked for."""
        if options is not None:
            self.client.subscribe(filter_text, options=options)
        else:
            self.client.subscribe(filter_text, qos)
        (code,) = self._subscribed.get(timeout=ANSWER_S)
        assert code.value == (qos if options is None else options.QoS), code

    def publish(
        self, topic: str, payload: bytes, qos: int, *, retain: bool = False, properties: Properties | None = None
    ) -> None:
        """Publish, and wait for the confirmation."""
        self.client.publish(topic, payload, qos, retain, properties).wait_for_publish(ANSWER_S)

    def next(self) -> mqtt.MQTTMessage:
        """The next message that arrives."""
        return self.messages.get(timeout=ANSWER_S)

    def receives_nothing_more(self) -> None:
        try:
            message = self.messages.get(timeout=QUIET_S)
        except queue.Empty:
            return
        raise AssertionError(f"{message.topic}: {message.payload!r}")

    def disconnect(self) -> None:
        """Send DISCONNECT."""
        self.client.disconnect()
        self.client.loop_stop()

    def vanish(self) -> None:
        """Break the connection without a word."""
        socket = self.client.socket()
        assert socket is not None
        self.client.loop_stop()
        socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.disconnect()

    def _on_connect(
        self, client: mqtt.Client, userdata: Any, flags: mqtt.ConnectFlags, reason: ReasonCode, section: Any
    ) -> None:
        self._session_present = flags.session_present
        self._reason = reason
        self._connected.set()
