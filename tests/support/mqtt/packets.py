"""A client's packets as bytes, for tests: builders with defaults, so that each argument shown matters.

They are written from the standard, without the engine's encoders, so they are independent evidence. `level` is 3, 4 or
5 everywhere. `properties` is an encoded property section without its length, built with the functions below.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = 1, 2, 3, 4, 5, 6, 7
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT, AUTH = 8, 9, 10, 11, 12, 13, 14, 15


# --- data types ---


def varint(value: int) -> bytes:
    out = bytearray()
    while True:
        value, digit = divmod(value, 128)
        out.append(digit | 0x80 if value else digit)
        if not value:
            return bytes(out)


def u16(value: int) -> bytes:
    return value.to_bytes(2, "big")


def binary(value: bytes | str) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return u16(len(raw)) + raw


def packet(first_byte: int, body: bytes) -> bytes:
    return bytes([first_byte]) + varint(len(body)) + body


# --- properties ---


def byte_property(identifier: int, value: int) -> bytes:
    return bytes([identifier, value])


def u16_property(identifier: int, value: int) -> bytes:
    return bytes([identifier]) + u16(value)


def u32_property(identifier: int, value: int) -> bytes:
    return bytes([identifier]) + value.to_bytes(4, "big")


def varint_property(identifier: int, value: int) -> bytes:
    return bytes([identifier]) + varint(value)


def text_property(identifier: int, value: str | bytes) -> bytes:
    return bytes([identifier]) + binary(value)


def user_property(key: str, value: str) -> bytes:
    return b"\x26" + binary(key) + binary(value)


def payload_format(value: int = 1) -> bytes:
    return byte_property(1, value)


def message_expiry(seconds: int) -> bytes:
    return u32_property(2, seconds)


def content_type(value: str) -> bytes:
    return text_property(3, value)


def response_topic(value: str) -> bytes:
    return text_property(8, value)


def correlation_data(value: bytes) -> bytes:
    return text_property(9, value)


def subscription_identifier(value: int) -> bytes:
    return varint_property(11, value)


def session_expiry(seconds: int) -> bytes:
    return u32_property(17, seconds)


def authentication_method(value: str) -> bytes:
    return text_property(21, value)


def authentication_data(value: bytes) -> bytes:
    return text_property(22, value)


def request_problem_information(value: int) -> bytes:
    return byte_property(23, value)


def will_delay(seconds: int) -> bytes:
    return u32_property(24, seconds)


def request_response_information(value: int) -> bytes:
    return byte_property(25, value)


def reason_string(value: str) -> bytes:
    return text_property(31, value)


def receive_maximum(value: int) -> bytes:
    return u16_property(33, value)


def topic_alias_maximum(value: int) -> bytes:
    return u16_property(34, value)


def topic_alias(value: int) -> bytes:
    return u16_property(35, value)


def maximum_packet_size(value: int) -> bytes:
    return u32_property(39, value)


def section(level: int, properties: bytes) -> bytes:
    """The property section with its length; nothing at all in 3.x."""
    return varint(len(properties)) + properties if level == 5 else b""


# --- packets of a client ---


class WillPart(NamedTuple):
    """The will in a CONNECT."""

    topic: str | bytes = "will/topic"
    payload: bytes = b"gone"
    qos: int = 0
    retain: bool = False
    properties: bytes = b""


def connect(
    client_id: str | bytes = "client",
    *,
    level: int = 4,
    clean_start: bool = True,
    keep_alive_s: int = 0,
    user_name: str | None = None,
    password: bytes | None = None,
    will: WillPart | None = None,
    properties: bytes = b"",
    protocol_name: bytes | None = None,
    protocol_level: int | None = None,
    flags: int | None = None,
    trailing: bytes = b"",
) -> bytes:
    """A CONNECT. `flags` overrides what the other arguments would set; `trailing` goes behind the last field."""
    natural = (2 if clean_start else 0) | (0x80 if user_name is not None else 0) | (0x40 if password is not None else 0)
    payload = binary(client_id)
    if will is not None:
        natural |= 4 | will.qos << 3 | (0x20 if will.retain else 0)
        payload += section(level, will.properties) + binary(will.topic) + binary(will.payload)
    if user_name is not None:
        payload += binary(user_name)
    if password is not None:
        payload += binary(password)
    name = protocol_name if protocol_name is not None else b"MQIsdp" if level == 3 else b"MQTT"
    head = binary(name) + bytes([level if protocol_level is None else protocol_level])
    head += bytes([natural if flags is None else flags]) + u16(keep_alive_s)
    return packet(0x10, head + section(level, properties) + payload + trailing)


def publish(
    topic: str | bytes = "topic",
    payload: bytes = b"payload",
    *,
    level: int = 4,
    qos: int = 0,
    packet_id: int = 1,
    retain: bool = False,
    dup: bool = False,
    properties: bytes = b"",
) -> bytes:
    """A PUBLISH; the packet id is left out at QoS 0."""
    middle = binary(topic) + (u16(packet_id) if qos else b"") + section(level, properties)
    return packet(0x30 | (8 if dup else 0) | qos << 1 | (1 if retain else 0), middle + payload)


def acknowledgement(
    kind: int, packet_id: int, reason_code: int | None = None, properties: bytes | None = None
) -> bytes:
    """A PUBACK, PUBREC, PUBREL or PUBCOMP, in the shortest form for the given fields."""
    body = u16(packet_id)
    if reason_code is not None or properties is not None:
        body += bytes([reason_code or 0])
    if properties is not None:
        body += section(5, properties)
    return packet(kind << 4 | (2 if kind == PUBREL else 0), body)


def puback(packet_id: int, reason_code: int | None = None) -> bytes:
    return acknowledgement(PUBACK, packet_id, reason_code)


def pubrec(packet_id: int, reason_code: int | None = None) -> bytes:
    return acknowledgement(PUBREC, packet_id, reason_code)


def pubrel(packet_id: int, reason_code: int | None = None) -> bytes:
    return acknowledgement(PUBREL, packet_id, reason_code)


def pubcomp(packet_id: int, reason_code: int | None = None) -> bytes:
    return acknowledgement(PUBCOMP, packet_id, reason_code)


def subscribe(
    *filters: tuple[str | bytes, int], packet_id: int = 1, level: int = 4, properties: bytes = b"", dup: bool = False
) -> bytes:
    """A SUBSCRIBE of (filter, options byte) pairs; the options of 3.x are the QoS."""
    body = u16(packet_id) + section(level, properties)
    for filter_text, options in filters:
        body += binary(filter_text) + bytes([options])
    return packet(0x8A if dup else 0x82, body)


def options(
    qos: int = 0, *, no_local: bool = False, retain_as_published: bool = False, retain_handling: int = 0
) -> int:
    """The options byte of a 5.0 subscription."""
    return qos | (4 if no_local else 0) | (8 if retain_as_published else 0) | retain_handling << 4


def unsubscribe(*filters: str | bytes, packet_id: int = 1, level: int = 4, properties: bytes = b"") -> bytes:
    return packet(0xA2, u16(packet_id) + section(level, properties) + b"".join([binary(text) for text in filters]))


def pingreq() -> bytes:
    return b"\xc0\x00"


def disconnect(reason_code: int | None = None, properties: bytes | None = None) -> bytes:
    """A DISCONNECT: empty, with a reason code, or with both (5.0)."""
    body = b"" if reason_code is None and properties is None else bytes([reason_code or 0])
    return packet(0xE0, body + (b"" if properties is None else section(5, properties)))


def auth(reason_code: int, method: str | None = "SCRAM", data: bytes | None = None) -> bytes:
    properties = b"" if method is None else authentication_method(method)
    properties += b"" if data is None else authentication_data(data)
    return packet(0xF0, bytes([reason_code]) + section(5, properties))


# --- what a server sends, taken apart ---


class Packet(NamedTuple):
    """One packet: its first byte and its body, not interpreted."""

    first_byte: int
    body: bytes

    @property
    def kind(self) -> int:
        return self.first_byte >> 4


def packets_of(data: bytes) -> list[Packet]:
    """Cut bytes into packets. The last one must be whole."""
    found, rest = take_packets(data)
    assert not rest, f"an incomplete packet at the end: {rest[:32]!r}"
    return found


def take_packets(data: bytes) -> tuple[list[Packet], bytes]:
    """Return the whole packets at the front, and the bytes that remain."""
    found: list[Packet] = []
    pos = 0
    while True:
        length, cursor, complete = 0, pos + 1, False
        for shift in (0, 7, 14, 21):
            if cursor >= len(data):
                break
            length |= (data[cursor] & 0x7F) << shift
            cursor += 1
            if data[cursor - 1] < 0x80:
                complete = True
                break
        if not complete or cursor + length > len(data):
            return found, data[pos:]
        found.append(Packet(data[pos], data[cursor : cursor + length]))
        pos = cursor + length


class Published(NamedTuple):
    """A PUBLISH that the server sent."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    dup: bool
    packet_id: int  # 0 at QoS 0
    properties: "list[Property]"

    def values(self, identifier: int) -> "list[PropertyValue]":
        """All values of one property, in order."""
        return [value for found, value in self.properties if found == identifier]


PropertyValue = int | str | bytes | tuple[str, str]
Property = tuple[int, PropertyValue]

_BYTE, _U16, _U32, _VARINT = {1, 23, 25, 36, 37, 40, 41, 42}, {19, 33, 34, 35}, {2, 17, 24, 39}, {11}
_BINARY = {9, 22}


def properties_of(properties: bytes) -> list[Property]:
    """Take a property section apart, given without its length."""
    return list(_properties(properties))


def _properties(raw: bytes) -> Iterator[Property]:
    pos = 0

    def field() -> bytes:
        nonlocal pos
        size = int.from_bytes(raw[pos : pos + 2], "big")
        pos += 2 + size
        return raw[pos - size : pos]

    while pos < len(raw):
        identifier = raw[pos]
        pos += 1
        if identifier == 38:
            yield identifier, (field().decode(), field().decode())
        elif identifier in _VARINT:
            value, pos = varint_at(raw, pos)
            yield identifier, value
        elif identifier in _BYTE | _U16 | _U32:
            size = 1 if identifier in _BYTE else 2 if identifier in _U16 else 4
            yield identifier, int.from_bytes(raw[pos : pos + size], "big")
            pos += size
        elif identifier in _BINARY:
            yield identifier, field()
        else:
            yield identifier, field().decode()


def varint_at(raw: bytes, pos: int) -> tuple[int, int]:
    """Return a variable byte integer and the position behind it."""
    value, shift = 0, 0
    while True:
        value |= (raw[pos] & 0x7F) << shift
        pos += 1
        if raw[pos - 1] < 0x80:
            return value, pos
        shift += 7


def published(received: Packet, level: int = 4) -> Published:
    """Take a PUBLISH apart."""
    assert received.kind == PUBLISH, received
    body, qos = received.body, received.first_byte >> 1 & 3
    pos = 2 + int.from_bytes(body[:2], "big")
    topic = body[2:pos].decode()
    packet_id = 0
    if qos:
        packet_id = int.from_bytes(body[pos : pos + 2], "big")
        pos += 2
    properties: list[Property] = []
    if level == 5:
        length, pos = varint_at(body, pos)
        properties = properties_of(body[pos : pos + length])
        pos += length
    retain, dup = bool(received.first_byte & 1), bool(received.first_byte & 8)
    return Published(topic, body[pos:], qos, retain, dup, packet_id, properties)


def all_published(data: bytes, level: int = 4) -> list[Published]:
    """Take the PUBLISH packets of a stream apart; other packets are passed over."""
    return [published(each, level) for each in packets_of(data) if each.kind == PUBLISH]


class Answer(NamedTuple):
    """A CONNACK, DISCONNECT or AUTH of the server. `session_present` is False in the latter two."""

    reason_code: int
    session_present: bool
    properties: list[Property]

    def value(self, identifier: int) -> PropertyValue | None:
        """The value of one property, None when it is absent."""
        return next((value for found, value in self.properties if found == identifier), None)


def connack(received: Packet, level: int = 4) -> Answer:
    """Take a CONNACK apart."""
    assert received.first_byte == 0x20, received
    properties: list[Property] = []
    if level == 5:
        length, pos = varint_at(received.body, 2)
        assert pos + length == len(received.body), received
        properties = properties_of(received.body[pos:])
    else:
        assert len(received.body) == 2, received
    return Answer(received.body[1], bool(received.body[0]), properties)


def server_disconnect(received: Packet) -> Answer:
    """Take a DISCONNECT of a 5.0 server apart."""
    assert received.first_byte == 0xE0, received
    body = received.body
    if len(body) < 2:
        return Answer(body[0] if body else 0, False, [])
    length, pos = varint_at(body, 1)
    assert pos + length == len(body), received
    return Answer(body[0], False, properties_of(body[pos:]))


def auth_of(received: Packet) -> Answer:
    """Take an AUTH of a server apart."""
    assert received.first_byte == 0xF0, received
    length, pos = varint_at(received.body, 1)
    assert pos + length == len(received.body), received
    return Answer(received.body[0], False, properties_of(received.body[pos:]))


def packet_id_of(received: Packet) -> int:
    """The packet id of an acknowledgement, SUBACK or UNSUBACK."""
    return int.from_bytes(received.body[:2], "big")


def suback_codes(received: Packet, level: int = 4) -> list[int]:
    """The codes of a SUBACK, or of a 5.0 UNSUBACK."""
    assert received.first_byte in (0x90, 0xB0), received
    if level < 5:
        return list(received.body[2:])
    length, pos = varint_at(received.body, 2)
    return list(received.body[pos + length :])


def stream(packets: Iterable[bytes] | Sequence[bytes]) -> bytes:
    """Several packets in one write."""
    return b"".join(packets)
