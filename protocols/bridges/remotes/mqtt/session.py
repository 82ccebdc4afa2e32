"""The client's side of a session of MQTT 3.1.1: packet identifiers, and the states of messages over connections.

Packets come in as amqtt's objects, and go out as bytes. No socket, no clock, no thread.

Theory: MQTT 3.1.1 chapters 3.1.2.4, 4.3 and 4.4. A session is the foreign broker's, named by the client identifier;
CONNACK says whether it still has it. If it has, PUBLISH and PUBREL that were not answered are repeated, under the same
identifiers. If it has not, what was under way begins anew.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, final

from amqtt.mqtt.disconnect import DisconnectPacket
from amqtt.mqtt.packet import CONNACK, PINGRESP, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, SUBACK, UNSUBACK
from amqtt.mqtt.pingreq import PingReqPacket
from amqtt.mqtt.puback import PubackPacket
from amqtt.mqtt.pubcomp import PubcompPacket
from amqtt.mqtt.pubrec import PubrecPacket
from amqtt.mqtt.pubrel import PubrelPacket
from amqtt.mqtt.subscribe import SubscribePacket
from amqtt.mqtt.unsubscribe import UnsubscribePacket

from sluicegate.protocols.bridges.remote import Outgoing, Settlement
from sluicegate.protocols.bridges.remotes.mqtt.acknowledgements import Acknowledgements
from sluicegate.protocols.bridges.remotes.mqtt.amqtt_packets import Malformed, connect_packet, publish_packet
from sluicegate.protocols.bridges.remotes.mqtt.outgoing import ANSWERS_BYTES_MAX, OUTPUT_BYTES_MAX

SUBSCRIBE_ID: Final = 0xFFFF
UNSUBSCRIBE_ID: Final = 0xFFFE
PUBLISH_IDS_MAX: Final = 0xFFFD  # messages have the identifiers from 1 on, as few as possible
# MQTT 3.1.1 cannot say how many messages of QoS 2 a broker takes before they are released. mosquitto takes 20 by
# default, and closes the connection at the next; EMQX takes 100. Clients such as paho's begin with 20.
QOS_2_UNDER_WAY_MAX: Final = 20
_SUBSCRIPTION_REFUSED: Final = 0x80
_ASKED_WITH: Final = {SUBACK: "SUBSCRIBE", UNSUBACK: "UNSUBSCRIBE"}
_EXACTLY_ONCE: Final = 2


@dataclass(frozen=True, slots=True)
class Connected:
    """CONNACK: the connection is accepted, or refused with a code above 0."""

    code: int
    session_present: bool


@dataclass(frozen=True, slots=True)
class Granted:
    """SUBACK: the granted QoS of each subscription; None: it is refused."""

    qos: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Unsubscribed:
    """UNSUBACK."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The foreign broker has a message."""

    number: int  # of Outgoing


@final
class Received:
    """A PUBLISH that is no repetition."""

    __slots__ = ("fault", "packet_id", "payload", "qos", "retain", "topic")

    def __init__(self, topic: str, payload: bytes, qos: int, packet_id: int, *, retain: bool, fault: str) -> None:
        self.topic = topic
        self.payload = payload
        self.qos = qos
        self.packet_id = packet_id  # 0: none, with QoS 0
        self.retain = retain
        self.fault = fault  # why it goes no further; empty: it does


SessionEvent = Connected | Granted | Unsubscribed | Confirmed | Received


@final
class _UnderWay:
    """A message of ours that the foreign broker has not confirmed."""

    __slots__ = ("is_released", "message")

    def __init__(self, message: Outgoing) -> None:
        self.message = message
        self.is_released = False  # PUBREC has come, so PUBREL went or goes: PUBLISH is over


@final
class ClientSession:
    """One session, over its connections.

    Invariants: each identifier is either in `_under_way`, or in `_free_ids`, or above `_last_id`. What is in `_repeats`
    is in `_under_way`.
    """

    def __init__(self, *, window_messages: int, has_qos_2: bool) -> None:
        """At most `window_messages` of ours are under way; `has_qos_2` says whether any may have QoS 2."""
        self.output = bytearray()  # to be written to the socket, which removes what it takes
        self.acknowledgements = Acknowledgements(self._acknowledge)
        self.is_connected = False  # CONNACK has accepted the connection
        self._window = min(window_messages, PUBLISH_IDS_MAX)
        self._has_qos_2 = has_qos_2
        self._under_way: dict[int, _UnderWay] = {}  # by packet identifier, in the order of their PUBLISH
        self._qos_2_count = 0  # of these
        self._repeats: deque[int] = deque()  # of these: to be repeated on this connection
        self._is_repetition = False  # the foreign broker may have got them: they have the flag DUP
        self._free_ids: deque[int] = deque()  # given back; the one that was longest unused is the next
        self._last_id = 0
        self._unreleased_ids: set[int] = set()  # PUBREL is sent on suspicion, and PUBCOMP has not come
        self._is_own = False  # what the foreign broker has of ours, it has of this object
        self._awaited: int | None = None  # SUBACK or UNSUBACK; None: neither
        self._output_bytes_max = ANSWERS_BYTES_MAX

    # --- what the caller does ---

    @property
    def awaited(self) -> str:
        """The packet of ours that has no answer yet, of those that open a connection; empty: all have."""
        if not self.is_connected:
            return "CONNECT"
        return "" if self._awaited is None else _ASKED_WITH[self._awaited]

    @property
    def is_output_full(self) -> bool:
        """Whether the peer takes no answers: what it sends is not to be received before it has taken some."""
        return len(self.output) >= self._output_bytes_max

    def connect(self, *, client_id: str, keep_alive_s: int, username: str, password: str, is_clean: bool) -> None:
        """Begin a connection: send CONNECT."""
        self.output.clear()
        self._repeats.clear()
        self.is_connected = False
        self._awaited = None
        self._output_bytes_max = ANSWERS_BYTES_MAX
        self.output += connect_packet(
            client_id=client_id,
            keep_alive_s=keep_alive_s,
            username=username,
            password=password,
            is_clean_session=is_clean,
        )

    def subscribe(self, filters: Sequence[tuple[str, int]]) -> None:
        """Subscribe to filters, each with its QoS."""
        self._awaited = SUBACK
        self._send(SubscribePacket.build(list(filters), SUBSCRIBE_ID))

    def unsubscribe(self, filters: Sequence[str]) -> None:
        """Unsubscribe from filters."""
        self._awaited = UNSUBACK
        self._send(UnsubscribePacket.build(list(filters), UNSUBSCRIBE_ID))

    def ping(self) -> None:
        """Send PINGREQ."""
        self._send(PingReqPacket())

    def disconnect(self) -> None:
        """Send DISCONNECT."""
        self._send(DisconnectPacket())

    def first_unanswered(self) -> Outgoing | None:
        """Return the first message of ours that has neither PUBACK nor PUBREC."""
        return next((entry.message for entry in self._under_way.values() if not entry.is_released), None)

    def can_publish(self, qos: int) -> bool:
        """Return whether a new message of this QoS may be published: the window has room, and nothing waits."""
        if self._repeats:  # it would overtake them
            return False
        if not qos:
            return True
        has_room = len(self._under_way) < self._window and not self._unreleased_ids
        return has_room and (qos < _EXACTLY_ONCE or self._qos_2_count < QOS_2_UNDER_WAY_MAX)

    def publish(self, message: Outgoing) -> None:
        """Publish a message that was checked, when `can_publish`; QoS 1 and 2 get an identifier."""
        packet_id = self._next_id() if message.qos else 0
        if packet_id:
            self._under_way[packet_id] = _UnderWay(message)
            self._qos_2_count += message.qos == _EXACTLY_ONCE
        self._send_publish(message, packet_id, is_repeated=False)

    def repeat(self) -> None:
        """Repeat what the last connection has left under way, as far as there is room."""
        while self._repeats and len(self.output) < OUTPUT_BYTES_MAX:
            packet_id = self._repeats.popleft()
            entry = self._under_way[packet_id]
            if entry.is_released:
                self._send(PubrelPacket.build(packet_id))
            else:
                self._send_publish(entry.message, packet_id, is_repeated=self._is_repetition)

    def give_up_releases(self) -> None:
        """Wait no longer for PUBCOMP of what was released on suspicion.

        Some brokers answer nothing for identifiers that they do not know. A PUBCOMP that is only late confirms nothing:
        it counts behind a PUBREC.
        """
        self._unreleased_ids.clear()

    def settle(self, settlements: Sequence[Settlement]) -> None:
        """Acknowledge messages of the foreign broker that are settled."""
        self.acknowledgements.settle(settlements)

    def connection_lost(self) -> None:
        """The connection is gone."""
        self.output.clear()
        self._repeats.clear()
        self.acknowledgements.connection_lost()

    def forget(self) -> None:
        """Forget all messages: they were given up."""
        self._under_way.clear()
        self._qos_2_count = 0
        self._free_ids.clear()
        self._last_id = 0
        self._unreleased_ids.clear()
        self.acknowledgements.forget_unsettled()
        self._is_own = False

    # --- what the foreign broker says ---

    def receive(self, packet: Any) -> SessionEvent | None:
        """Take a packet, answer it where the protocol says how, and return what it means. Raises Malformed."""
        kind = packet.fixed_header.packet_type
        if not self.is_connected and kind != CONNACK:
            raise Malformed(f"a packet of type {kind} before CONNACK")  # [MQTT 3.2.0-1]
        if kind == PUBLISH:
            return self._published(packet)
        if kind == PUBACK:
            return self._acknowledged(packet.packet_id)
        if kind == PUBREC:
            self._recorded(packet.packet_id)
            return None
        if kind == PUBCOMP:
            return self._completed(packet.packet_id)
        if kind == PUBREL:
            self.acknowledgements.released(packet.packet_id)
            self._send(PubcompPacket.build(packet.packet_id))
            return None
        if kind == CONNACK:
            return self._connected(packet)
        if kind == SUBACK:
            return self._granted(packet)
        if kind == UNSUBACK:
            self._check_awaited(UNSUBACK, packet.variable_header.packet_id, UNSUBSCRIBE_ID)
            return Unsubscribed()
        assert kind == PINGRESP, "no other is read"
        return None

    def _published(self, packet: Any) -> Received | None:
        qos, packet_id = packet.qos, packet.packet_id or 0
        if qos == _EXACTLY_ONCE and self.acknowledgements.repeats(packet_id):
            return None
        payload, fault = packet.data, ""
        if payload is None:
            payload, fault = b"", f"its packet is too large: {packet.fixed_header.remaining_length} bytes"
        return Received(packet.topic_name, payload, qos, packet_id, retain=packet.retain_flag, fault=fault)

    def _recorded(self, packet_id: int) -> None:
        """PUBREC: answer it with PUBREL, whether or not the identifier is ours [MQTT 4.3.3-1]."""
        entry = self._under_way.get(packet_id)
        if entry is not None:
            if entry.message.qos != _EXACTLY_ONCE:
                raise Malformed(f"PUBREC for message {packet_id} of QoS 1")
            entry.is_released = True
        self._send(PubrelPacket.build(packet_id))

    def _completed(self, packet_id: int) -> Confirmed | None:
        if packet_id in self._unreleased_ids:
            self._unreleased_ids.discard(packet_id)
            return None
        entry = self._under_way.get(packet_id)
        if entry is None or not entry.is_released:
            return None  # it comes again, for an earlier message: a repeated PUBREL is answered as often
        return self._confirmed(packet_id, entry)

    def _acknowledged(self, packet_id: int) -> Confirmed | None:
        entry = self._under_way.get(packet_id)
        if entry is None:
            return None
        if entry.message.qos == _EXACTLY_ONCE:
            raise Malformed(f"PUBACK for message {packet_id} of QoS 2")
        return self._confirmed(packet_id, entry)

    def _confirmed(self, packet_id: int, entry: _UnderWay) -> Confirmed:
        if packet_id in self._repeats:
            self._repeats.remove(packet_id)
        del self._under_way[packet_id]
        self._qos_2_count -= entry.message.qos == _EXACTLY_ONCE
        self._free_ids.append(packet_id)
        return Confirmed(entry.message.number)

    def _connected(self, packet: Any) -> Connected:
        if self.is_connected:
            raise Malformed("a second CONNACK")
        code, session_present = packet.return_code, bool(packet.session_parent)
        if code:  # a refusal says nothing of the session: its flag is always 0 [MQTT 3.2.2-4]
            return Connected(code, False)
        if not session_present:
            self.acknowledgements.session_lost()
            self._unreleased_ids.clear()
            for entry in self._under_way.values():
                entry.is_released = False
        elif self._is_own:
            self._release_again()
        elif self._has_qos_2:
            # An earlier run of ours may have left the first identifiers under way. The foreign broker would take a new
            # message of QoS 2 under such an identifier for a repetition, and drop it.
            self._unreleased_ids = set(range(1, self._window + 1))
            self._release_again()
        self._is_own = True
        self.is_connected = True
        self._is_repetition = session_present
        self._repeats.extend(self._under_way)
        self.repeat()
        return Connected(0, session_present)

    def _release_again(self) -> None:
        for packet_id in sorted(self._unreleased_ids):
            self._send(PubrelPacket.build(packet_id))

    def _check_awaited(self, kind: int, packet_id: int, own_id: int) -> None:
        """Raise Malformed for an answer to nothing that was sent."""
        if self._awaited != kind or packet_id != own_id:
            raise Malformed(f"a packet of type {kind} for the packet identifier {packet_id}, which waits for none")
        self._awaited = None

    def _granted(self, packet: Any) -> Granted:
        self._check_awaited(SUBACK, packet.variable_header.packet_id, SUBSCRIBE_ID)
        codes = packet.payload.return_codes
        if any(code > _EXACTLY_ONCE and code != _SUBSCRIPTION_REFUSED for code in codes):
            raise Malformed(f"SUBACK with the codes {codes}")
        return Granted(tuple(None if code == _SUBSCRIPTION_REFUSED else code for code in codes))

    # --- packets ---

    def _acknowledge(self, packet_id: int, qos: int) -> None:
        self._send(PubackPacket.build(packet_id) if qos == 1 else PubrecPacket.build(packet_id))

    def _send_publish(self, message: Outgoing, packet_id: int, *, is_repeated: bool) -> None:
        self.output += publish_packet(
            message.topic,
            message.payload,
            packet_id=packet_id,
            qos=message.qos,
            retain=message.retain,
            is_repeated=is_repeated,
        )
        self._output_bytes_max = len(self.output) + ANSWERS_BYTES_MAX

    def _send(self, packet: Any) -> None:
        self.output += packet.to_bytes()

    def _next_id(self) -> int:
        if self._free_ids:
            return self._free_ids.popleft()
        self._last_id += 1
        assert self._last_id <= PUBLISH_IDS_MAX, "the window is smaller"
        return self._last_id
