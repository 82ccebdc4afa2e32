"""Packets of MQTT 3.1.1, by amqtt's packet classes. No socket, no clock, and no state beyond an incomplete packet.

amqtt reads a packet from a stream, and so does not know whether all of it is there. Here a packet is cut from the input
first; then its class reads it from memory, where a coroutine never waits. What the classes let pass is checked here.
"""

import struct
from typing import Any, Final, final

from amqtt.errors import AMQTTError, CodecError, MQTTError, NoDataError
from amqtt.mqtt import packet_class
from amqtt.mqtt.connect import ConnectPacket, ConnectPayload, ConnectVariableHeader
from amqtt.mqtt.packet import (
    CONNACK,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SUBACK,
    UNSUBACK,
    MQTTFixedHeader,
)
from amqtt.mqtt.publish import PublishPacket

_FROM_BROKERS: Final = (CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK, PINGRESP)
_WITH_ID: Final = (PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK)
_BODY_BYTES: Final = {CONNACK: 2, PUBACK: 2, PUBREC: 2, PUBREL: 2, PUBCOMP: 2, UNSUBACK: 2, PINGRESP: 0}
_LENGTH_BYTES_MAX: Final = 4
_QOS_MAX: Final = 2


class Malformed(Exception):
    """The foreign broker has sent what is no packet of MQTT 3.1.1, or none that a broker sends, or sends then."""


@final
class _Memory:
    """What amqtt's classes read from, in place of a stream: the bytes behind the fixed header of one packet."""

    __slots__ = ("_body", "_pos")

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._pos = 0

    async def read(self, count: int = -1) -> bytes:
        """Return the next bytes; fewer if there are no more."""
        begin = self._pos
        self._pos = len(self._body) if count < 0 else begin + count
        return self._body[begin : self._pos]

    def is_read(self) -> bool:
        """Return whether nothing is left."""
        return self._pos >= len(self._body)


@final
class PacketInput:
    """Cuts what a socket brings into packets."""

    def __init__(self, packet_bytes_max: int) -> None:
        """Payloads of larger packets are not kept."""
        self._packet_bytes_max = packet_bytes_max
        self._data = bytearray()
        self._pos = 0
        self._unwanted_bytes = 0  # of a packet that is too large: they are yet to come

    def add(self, data: bytes) -> None:
        """Append what was received."""
        del self._data[: self._pos]
        self._pos = 0
        unwanted = min(self._unwanted_bytes, len(data))
        self._unwanted_bytes -= unwanted
        self._data += data[unwanted:] if unwanted else data

    def next(self) -> Any:
        """Return the next packet, an object of amqtt's; None: it is not complete. Raises Malformed.

        A PUBLISH that is too large has None as its data.
        """
        data, pos = self._data, self._pos
        end, length = pos + 1, 0
        for shift in range(0, 7 * _LENGTH_BYTES_MAX, 7):
            if end >= len(data):
                return None
            length |= (data[end] & 0x7F) << shift
            end += 1
            if data[end - 1] < 0x80:
                break
        else:
            raise Malformed(f"the remaining length of a packet has more than {_LENGTH_BYTES_MAX} bytes")
        first, begin = data[pos], end
        if first >> 4 not in _FROM_BROKERS:  # before all of it is here
            raise Malformed(f"a packet of type {first >> 4}, which no broker sends")
        end += length
        if end - pos > self._packet_bytes_max:
            return self._without_payload(first, begin, end)
        if end > len(data):
            return None
        self._pos = end
        return _decoded(first, bytes(data[begin:end]))

    def _without_payload(self, first: int, begin: int, end: int) -> Any:
        """Return a PUBLISH as soon as its topic and packet identifier are there, and skip the rest."""
        data = self._data
        if first >> 4 != PUBLISH:
            raise Malformed(f"a packet of type {first >> 4} with {end - begin} bytes behind its fixed header")
        topic_end = begin + 2 + int.from_bytes(data[begin : begin + 2], "big")
        head_end = min(topic_end + (2 if first & 0x06 else 0), end)
        if len(data) < max(begin + 2, head_end):
            return None
        packet = _decoded(first, bytes(data[begin:head_end]))
        packet.payload.data = None
        packet.fixed_header.remaining_length = end - begin
        self._pos = min(end, len(data))
        self._unwanted_bytes = end - self._pos
        return packet


def _decoded(first: int, body: bytes) -> Any:
    """Return a packet. Raises Malformed."""
    kind = first >> 4
    _check(kind, first & 0x0F, body)
    header, memory = MQTTFixedHeader(kind, first & 0x0F, len(body)), _Memory(body)
    try:
        packet_class(header).from_stream(memory, fixed_header=header).send(None)
    except StopIteration as read:
        if not memory.is_read():
            raise Malformed(f"a packet of type {kind} with bytes behind its end") from None
        return read.value
    except (AMQTTError, MQTTError, CodecError, NoDataError, struct.error, IndexError, ValueError) as error:
        raise Malformed(f"a packet of type {kind}: {error}") from None
    raise AssertionError("what reads from memory does not wait")


def _check(kind: int, flags: int, body: bytes) -> None:
    """Check what amqtt's classes let pass. Raises Malformed."""
    if kind == PUBLISH:
        _check_publish(flags, body)
        return
    if flags != (2 if kind == PUBREL else 0):
        raise Malformed(f"a packet of type {kind} with flags {flags}")  # [MQTT 2.2.2-2]
    if _BODY_BYTES.get(kind, len(body)) != len(body):
        raise Malformed(f"a packet of type {kind} with {len(body)} bytes behind its fixed header")
    if kind == CONNACK and body[0] > 1:
        raise Malformed(f"a CONNACK with flags {body[0]}")  # only Session Present [MQTT 3.2.2.1]
    if kind in _WITH_ID and not any(body[:2]):
        raise Malformed(f"a packet of type {kind} without a packet identifier")


def _check_publish(flags: int, body: bytes) -> None:
    qos = flags >> 1 & 3
    if qos > _QOS_MAX:
        raise Malformed("a PUBLISH of QoS 3")  # [MQTT 3.3.1-4]
    end = 2 + int.from_bytes(body[:2], "big")
    try:
        topic = body[2:end].decode()
    except UnicodeDecodeError:
        raise Malformed("a PUBLISH whose topic is not UTF-8") from None  # [MQTT 1.5.3-1]
    if not topic or "\0" in topic:
        raise Malformed(f"a PUBLISH to the topic {topic!r:.100}")
    if qos and not any(body[end : end + 2]):
        raise Malformed("a PUBLISH without a packet identifier")


def connect_packet(*, client_id: str, keep_alive_s: int, username: str, password: str, is_clean_session: bool) -> bytes:
    """Return a CONNECT."""
    header = ConnectVariableHeader(keep_alive=keep_alive_s)
    header.clean_session_flag = is_clean_session
    header.username_flag = bool(username)
    header.password_flag = bool(username and password)
    payload = ConnectPayload(client_id, username=username, password=password)
    return bytes(ConnectPacket(variable_header=header, payload=payload).to_bytes())


def publish_packet(topic: str, payload: bytes, *, packet_id: int, qos: int, retain: bool, is_repeated: bool) -> bytes:
    """Return a PUBLISH; `packet_id` is 0 for QoS 0. Topic and size were checked."""
    return bytes(PublishPacket.build(topic, payload, packet_id or None, is_repeated, qos, retain).to_bytes())
