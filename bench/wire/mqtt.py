"""The MQTT packets of the load generator: encoding, and splitting of received bytes. Bytes only, no socket.

Publishers do not encode while they run: a `stream` is a whole cycle of PUBLISH packets joined into one bytes object,
and what goes out is a slice of it. Each payload starts with the number of its stream and its sequence in it, modulo the
cycle, four bytes each, so the receiving side can tell a lost message from a repeated one. Deliberately absent:
everything a broker may ask of a real client, such as wills, retransmission and keep-alive.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

MQTT_3_1_1: Final = 4  # protocol level in CONNECT [3.1.2.2]
MQTT_5: Final = 5

CONNACK: Final = 0x20
PUBLISH: Final = 0x30
PUBACK: Final = 0x40
PUBREC: Final = 0x50
PUBREL: Final = 0x62
PUBCOMP: Final = 0x70
SUBACK: Final = 0x90
TYPE_MASK: Final = 0xF0
DUP: Final = 0x08

ACK_BYTES: Final = 4  # of PUBACK and its like: in 3.1.1 always, in 5.0 when the reason is success [3.4.2.1]
NUMBER_BYTES: Final = 8  # of stream and sequence
CYCLE_MAX: Final = 65_535  # one packet id each, and 0 is not an id [2.2.1-3]
REMAINING_LENGTH_BYTES_MAX: Final = 4  # [2.2.3]
RECEIVE_MAXIMUM: Final = 65_535  # unless the broker says less
_RECEIVE_MAXIMUM: Final = 0x21
_USER_PROPERTY: Final = 0x26
# Of CONNACK those that are numbers; the others are text or binary data with a length of two bytes.
_PROPERTY_BYTES: Final = {0x11: 4, 0x13: 2, 0x22: 2, 0x24: 1, 0x25: 1, 0x27: 4, 0x28: 1, 0x29: 1, 0x2A: 1}


class WireError(Exception):
    """The broker sent something that this load cannot have caused."""


@dataclass(frozen=True, slots=True)
class PublishHeader:
    """A PUBLISH packet up to its payload, with packet id 0."""

    data: bytes
    packet_id_at: int | None  # None: QoS 0 has no packet id
    payload_bytes: int
    stream: int = 0


@dataclass(frozen=True, slots=True)
class PublishShape:
    """The layout of a PUBLISH packet. Offsets count from the packet's first byte."""

    packet_bytes: int
    packet_id_at: int | None  # None: QoS 0 has no packet id
    payload_at: int


def connect(client_id: str, *, version: int, clean: bool = True, session_expiry_s: int = 0) -> bytes:
    """Return CONNECT without keep-alive. `clean=False` with 3.1.1 asks for a session that outlives the connection."""
    flags = 0x02 if clean else 0x00
    body = _text("MQTT") + bytes((version, flags, 0, 0))
    if version == MQTT_5:
        expiry = b"\x11" + session_expiry_s.to_bytes(4, "big") if session_expiry_s else b""
        body += bytes((len(expiry),)) + expiry
    return _packet(0x10, body + _text(client_id))


def subscribe(topic_filter: str, *, qos: int, version: int) -> bytes:
    """Return SUBSCRIBE with packet id 1 and one filter."""
    properties = b"\x00" if version == MQTT_5 else b""
    return _packet(0x82, b"\x00\x01" + properties + _text(topic_filter) + bytes((qos,)))


def publish_header(
    topic: str,
    *,
    qos: int,
    payload_bytes: int,
    version: int = MQTT_3_1_1,
    stream: int = 0,
    key: str = "",
    retain: bool = False,
) -> PublishHeader:
    """Return the header of a message. The partition key is a user property, which MQTT 5 only has."""
    if payload_bytes < NUMBER_BYTES:
        raise ValueError(f"a payload of {payload_bytes} bytes has no room for the {NUMBER_BYTES} of its number")
    variable = _text(topic) + (b"\x00\x00" if qos else b"")
    packet_id_from_end = len(variable) - 2
    if version == MQTT_5:
        group = b"\x26" + _text("JMSXGroupID") + _text(key) if key else b""
        variable += _remaining_length(len(group)) + group
    first = bytes((PUBLISH | qos << 1 | retain,)) + _remaining_length(len(variable) + payload_bytes)
    return PublishHeader(first + variable, len(first) + packet_id_from_end if qos else None, payload_bytes, stream)


def publish_stream(headers: Sequence[PublishHeader], *, cycle: int) -> tuple[bytes, list[int]]:
    """Return `cycle` consecutive PUBLISH packets, and where each begins and the last ends.

    The headers take turns; sequences count from 0 for each, packet ids from 1 over all.
    """
    if not 1 <= cycle <= CYCLE_MAX:
        raise ValueError(f"a cycle has 1 to {CYCLE_MAX} packets, not {cycle}")
    packets: list[bytes] = []
    count = len(headers)
    for number in range(cycle):
        header = headers[number % count]
        data, at = header.data, header.packet_id_at
        if at is not None:
            data = data[:at] + (number + 1).to_bytes(2, "big") + data[at + 2 :]
        payload = header.stream.to_bytes(4, "big") + (number // count).to_bytes(4, "big")
        packets.append(data + payload.ljust(header.payload_bytes, b"."))
    return b"".join(packets), list(accumulate([len(packet) for packet in packets], initial=0))


def acks(kind: int, ids_high: bytes | bytearray, ids_low: bytes | bytearray) -> bytes:
    """Return a packet of a kind for each packet id; the ids are columns of high and low bytes."""
    packets = bytearray(bytes((kind, 2, 0, 0)) * len(ids_high))
    packets[2::4] = ids_high
    packets[3::4] = ids_low
    return bytes(packets)


def ack_stream(kind: int, cycle: int) -> bytes:
    """Return the acknowledgements of a kind for a whole cycle of PUBLISH packets, in order [4.6.0-2]."""
    ids = range(1, cycle + 1)
    return acks(kind, bytes([packet_id >> 8 for packet_id in ids]), bytes([packet_id & 0xFF for packet_id in ids]))


def packet_end(data: bytes | bytearray, start: int, end: int) -> tuple[int, int]:
    """Return where the packet at `start` has its body and where it ends; the end is 0 while its length is unknown."""
    length = 0
    for index in range(REMAINING_LENGTH_BYTES_MAX):
        at = start + 1 + index
        if at >= end:
            return 0, 0
        length |= (data[at] & 0x7F) << 7 * index
        if data[at] < 0x80:
            return at + 1, at + 1 + length
    raise WireError(f"remaining length is longer than {REMAINING_LENGTH_BYTES_MAX} bytes")


def publish_shape(data: bytes | bytearray, start: int, body: int, end: int, *, version: int) -> PublishShape:
    """Return the layout of the PUBLISH packet at `start`, whose body begins at `body`."""
    at = body + 2 + int.from_bytes(data[body : body + 2], "big")
    packet_id_at: int | None = None
    if data[start] >> 1 & 3:
        packet_id_at = at - start
        at += 2
    if version == MQTT_5:
        # A property section is announced like a packet's length [2.2.2.1].
        _, at = packet_end(data, at - 1, end)
    if at > end or at == 0:
        raise WireError(f"PUBLISH of {end - start} bytes ends before its payload")
    return PublishShape(packet_bytes=end - start, packet_id_at=packet_id_at, payload_at=at - start)


def check_connack(packet: bytes) -> int:
    """Return the broker's Receive Maximum [3.2.2.3.3]. Raises WireError unless it accepts."""
    body, _ = packet_end(packet, 0, len(packet))
    if packet[0] != CONNACK or packet[body + 1] != 0:
        raise WireError(f"connection refused: {packet.hex(' ')}")
    if len(packet) == ACK_BYTES:  # of 3.1.1
        return RECEIVE_MAXIMUM
    at, _ = packet_end(packet, body + 1, len(packet))  # properties are announced like a packet's length [2.2.2.1]
    while at < len(packet):
        kind = packet[at]
        if kind == _RECEIVE_MAXIMUM:
            return int.from_bytes(packet[at + 1 : at + 3], "big")
        at += 1
        if kind in _PROPERTY_BYTES:
            at += _PROPERTY_BYTES[kind]
            continue
        for _ in range(2 if kind == _USER_PROPERTY else 1):
            at += 2 + int.from_bytes(packet[at : at + 2], "big")
    return RECEIVE_MAXIMUM


def check_suback(packet: bytes) -> None:
    """Raise unless `packet` is a SUBACK whose one filter was granted."""
    if packet[0] != SUBACK or packet[-1] >= 0x80:
        raise WireError(f"subscription refused: {packet.hex(' ')}")


def _text(text: str) -> bytes:
    encoded = text.encode()
    return len(encoded).to_bytes(2, "big") + encoded


def _packet(first_byte: int, body: bytes) -> bytes:
    return bytes((first_byte,)) + _remaining_length(len(body)) + body


def _remaining_length(length: int) -> bytes:
    encoded = bytearray()
    while length > 0x7F:
        encoded.append(length & 0x7F | 0x80)
        length >>= 7
    encoded.append(length)
    return bytes(encoded)
