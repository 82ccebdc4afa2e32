"""The property sections of MQTT 5.0, read and written by one table.

The table has the type of each property, the packets it may appear in, and its range. The module of each packet
interprets the values.
"""

from typing import Final, final

from sluicegate.messaging.message.headers import USER_PROPERTIES_MAX
from sluicegate.protocols.mqtt.codec.reason_codes import (
    MALFORMED_PACKET,
    PROTOCOL_ERROR,
    QUOTA_EXCEEDED,
    LocalMisuse,
    PeerViolation,
)
from sluicegate.protocols.mqtt.codec.wire import (
    binary,
    read_binary,
    read_string,
    read_u8,
    read_u16,
    read_u32,
    read_varint,
    string,
    varint,
)

PAYLOAD_FORMAT_INDICATOR: Final = 1
MESSAGE_EXPIRY_INTERVAL: Final = 2
CONTENT_TYPE: Final = 3
RESPONSE_TOPIC: Final = 8
CORRELATION_DATA: Final = 9
SUBSCRIPTION_IDENTIFIER: Final = 11
SESSION_EXPIRY_INTERVAL: Final = 17
ASSIGNED_CLIENT_IDENTIFIER: Final = 18
SERVER_KEEP_ALIVE: Final = 19
AUTHENTICATION_METHOD: Final = 21
AUTHENTICATION_DATA: Final = 22
REQUEST_PROBLEM_INFORMATION: Final = 23
WILL_DELAY_INTERVAL: Final = 24
REQUEST_RESPONSE_INFORMATION: Final = 25
RESPONSE_INFORMATION: Final = 26
SERVER_REFERENCE: Final = 28
REASON_STRING: Final = 31
RECEIVE_MAXIMUM: Final = 33
TOPIC_ALIAS_MAXIMUM: Final = 34
TOPIC_ALIAS: Final = 35
MAXIMUM_QOS: Final = 36
RETAIN_AVAILABLE: Final = 37
USER_PROPERTY: Final = 38
MAXIMUM_PACKET_SIZE: Final = 39
WILDCARD_SUBSCRIPTION_AVAILABLE: Final = 40
SUBSCRIPTION_IDENTIFIER_AVAILABLE: Final = 41
SHARED_SUBSCRIPTION_AVAILABLE: Final = 42

# The packets a section may belong to, one bit each. Packets of clients are read, the others only written.
IN_WILL: Final = 1 << 0
IN_CONNECT: Final = 1 << 1
IN_CONNACK: Final = 1 << 2
IN_PUBLISH: Final = 1 << 3  # from a client: the Subscription Identifier is the server's alone [3.3.4-6]
IN_ACKNOWLEDGEMENT: Final = 1 << 4  # PUBACK, PUBREC, PUBREL, PUBCOMP
IN_SUBSCRIBE: Final = 1 << 5
IN_UNSUBSCRIBE: Final = 1 << 6
IN_DISCONNECT: Final = 1 << 7  # from a client: Server Reference is the server's alone
IN_AUTH: Final = 1 << 8

BYTE: Final = 0
U16: Final = 1
U32: Final = 2
VARINT: Final = 3
STRING: Final = 4
BINARY: Final = 5
PAIR: Final = 6


@final
class PropertyRule:
    """One row of the property table. `low` and `high` bound numbers; they are not used for the other types."""

    def __init__(self, name: str, kind: int, packets: int, low: int = 0, high: int = 0xFFFF_FFFF) -> None:
        self.name = name
        self.kind = kind
        self.packets = packets
        self.low = low
        self.high = high


_ANYWHERE: Final = (
    IN_WILL
    | IN_CONNECT
    | IN_CONNACK
    | IN_PUBLISH
    | IN_ACKNOWLEDGEMENT
    | IN_SUBSCRIBE
    | IN_UNSUBSCRIBE
    | IN_DISCONNECT
    | IN_AUTH
)
_MESSAGE: Final = IN_PUBLISH | IN_WILL
_AUTHENTICATED: Final = IN_CONNECT | IN_CONNACK | IN_AUTH

RULES: Final[dict[int, PropertyRule]] = {
    PAYLOAD_FORMAT_INDICATOR: PropertyRule("Payload Format Indicator", BYTE, _MESSAGE, high=1),
    MESSAGE_EXPIRY_INTERVAL: PropertyRule("Message Expiry Interval", U32, _MESSAGE),
    CONTENT_TYPE: PropertyRule("Content Type", STRING, _MESSAGE),
    RESPONSE_TOPIC: PropertyRule("Response Topic", STRING, _MESSAGE),
    CORRELATION_DATA: PropertyRule("Correlation Data", BINARY, _MESSAGE),
    SUBSCRIPTION_IDENTIFIER: PropertyRule("Subscription Identifier", VARINT, IN_SUBSCRIBE, low=1),
    SESSION_EXPIRY_INTERVAL: PropertyRule("Session Expiry Interval", U32, IN_CONNECT | IN_CONNACK | IN_DISCONNECT),
    ASSIGNED_CLIENT_IDENTIFIER: PropertyRule("Assigned Client Identifier", STRING, IN_CONNACK),
    SERVER_KEEP_ALIVE: PropertyRule("Server Keep Alive", U16, IN_CONNACK),
    AUTHENTICATION_METHOD: PropertyRule("Authentication Method", STRING, _AUTHENTICATED),
    AUTHENTICATION_DATA: PropertyRule("Authentication Data", BINARY, _AUTHENTICATED),
    REQUEST_PROBLEM_INFORMATION: PropertyRule("Request Problem Information", BYTE, IN_CONNECT, high=1),
    WILL_DELAY_INTERVAL: PropertyRule("Will Delay Interval", U32, IN_WILL),
    REQUEST_RESPONSE_INFORMATION: PropertyRule("Request Response Information", BYTE, IN_CONNECT, high=1),
    RESPONSE_INFORMATION: PropertyRule("Response Information", STRING, IN_CONNACK),
    SERVER_REFERENCE: PropertyRule("Server Reference", STRING, IN_CONNACK),
    REASON_STRING: PropertyRule("Reason String", STRING, IN_CONNACK | IN_ACKNOWLEDGEMENT | IN_DISCONNECT | IN_AUTH),
    RECEIVE_MAXIMUM: PropertyRule("Receive Maximum", U16, IN_CONNECT | IN_CONNACK, low=1),
    TOPIC_ALIAS_MAXIMUM: PropertyRule("Topic Alias Maximum", U16, IN_CONNECT | IN_CONNACK),
    TOPIC_ALIAS: PropertyRule("Topic Alias", U16, IN_PUBLISH),  # 0 has a reason code of its own
    MAXIMUM_QOS: PropertyRule("Maximum QoS", BYTE, IN_CONNACK, high=1),
    RETAIN_AVAILABLE: PropertyRule("Retain Available", BYTE, IN_CONNACK, high=1),
    USER_PROPERTY: PropertyRule("User Property", PAIR, _ANYWHERE),
    MAXIMUM_PACKET_SIZE: PropertyRule("Maximum Packet Size", U32, IN_CONNECT | IN_CONNACK, low=1),
    WILDCARD_SUBSCRIPTION_AVAILABLE: PropertyRule("Wildcard Subscription Available", BYTE, IN_CONNACK, high=1),
    SUBSCRIPTION_IDENTIFIER_AVAILABLE: PropertyRule("Subscription Identifier Available", BYTE, IN_CONNACK, high=1),
    SHARED_SUBSCRIPTION_AVAILABLE: PropertyRule("Shared Subscription Available", BYTE, IN_CONNACK, high=1),
}


@final
class Properties:
    """One decoded section: values by property id, and the User Properties in their order."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self.texts: dict[int, str] = {}
        self.binaries: dict[int, bytes] = {}
        self.user: list[tuple[str, str]] = []


def read_properties(data: bytes, pos: int, end: int, where: int) -> tuple[Properties, int]:
    """Return the section at `pos`, with its length before it, and the position behind it."""
    length, start = read_varint(data, pos, end)
    stop = start + length
    if stop > end:
        raise PeerViolation(MALFORMED_PACKET, f"property section of {length} bytes runs past the end of the packet")
    return decode_section(data, start, stop, where), stop


def decode_section(data: bytes, pos: int, end: int, where: int) -> Properties:
    """Decode the properties in [pos, end), a section without its length, of the packet `where`."""
    found = Properties()
    numbers = found.numbers
    while pos < end:
        identifier = data[pos]
        rule = RULES.get(identifier)
        if rule is None:
            raise PeerViolation(MALFORMED_PACKET, f"unknown property {identifier}")
        if not rule.packets & where:
            raise _misplaced(identifier, rule, where)
        pos += 1
        kind = rule.kind
        if kind == PAIR:
            key, pos = read_string(data, pos, end)
            text, pos = read_string(data, pos, end)
            if len(found.user) == USER_PROPERTIES_MAX:
                raise PeerViolation(QUOTA_EXCEEDED, f"more than {USER_PROPERTIES_MAX} User Properties in a packet")
            found.user.append((key, text))
            continue
        if identifier in numbers or identifier in found.texts or identifier in found.binaries:
            raise PeerViolation(PROTOCOL_ERROR, f"{rule.name} appears twice")
        if kind == STRING:
            found.texts[identifier], pos = read_string(data, pos, end)
        elif kind == BINARY:
            found.binaries[identifier], pos = read_binary(data, pos, end)
        else:
            number, pos = read_number(data, pos, end, kind)
            if number < rule.low or number > rule.high:
                raise PeerViolation(PROTOCOL_ERROR, f"{rule.name} is {number}, not within {rule.low} to {rule.high}")
            numbers[identifier] = number
    return found


def read_number(data: bytes, pos: int, end: int, kind: int) -> tuple[int, int]:
    """Return a number of a kind below STRING, and the position behind it."""
    if kind == BYTE:
        return read_u8(data, pos, end), pos + 1
    if kind == U16:
        return read_u16(data, pos, end), pos + 2
    if kind == U32:
        return read_u32(data, pos, end), pos + 4
    return read_varint(data, pos, end)


def _misplaced(identifier: int, rule: PropertyRule, where: int) -> PeerViolation:
    if identifier == SUBSCRIPTION_IDENTIFIER and where == IN_PUBLISH:
        return PeerViolation(PROTOCOL_ERROR, "Subscription Identifier in a client's PUBLISH [3.3.4-6]")
    return PeerViolation(MALFORMED_PACKET, f"{rule.name} is not allowed in this packet")


def without(section: bytes, dropped: tuple[int, ...]) -> bytes:
    """Return a section, decoded before, without the properties of the given ids."""
    kept: list[bytes] = []
    pos = 0
    end = len(section)
    while pos < end:
        start = pos
        pos = _skip(section, pos, end)
        if section[start] not in dropped:
            kept.append(section[start:pos])
    return b"".join(kept)


def _skip(section: bytes, pos: int, end: int) -> int:
    kind = RULES[section[pos]].kind
    pos += 1
    if kind == PAIR:
        pos += 2 + read_u16(section, pos, end)
    if kind >= STRING:
        return pos + 2 + read_u16(section, pos, end)
    return read_number(section, pos, end, kind)[1]


def number_property(identifier: int, value: int) -> bytes:
    """Encode one numeric property."""
    kind = RULES[identifier].kind
    if kind == BYTE:
        return bytes((identifier, value))
    if kind == U16:
        return bytes((identifier,)) + value.to_bytes(2, "big")
    if kind == U32:
        return bytes((identifier,)) + value.to_bytes(4, "big")
    if kind == VARINT:
        return bytes((identifier,)) + varint(value)
    raise LocalMisuse(f"{RULES[identifier].name} is not a number")


def text_property(identifier: int, text: str) -> bytes:
    """Encode one string property."""
    return bytes((identifier,)) + string(text)


def binary_property(identifier: int, value: bytes) -> bytes:
    """Encode one property of binary data."""
    return bytes((identifier,)) + binary(value)


def user_property(key: str, text: str) -> bytes:
    """Encode one User Property."""
    return b"\x26" + string(key) + string(text)


def section(properties: bytes) -> bytes:
    """Put the length before a property section. No properties are one byte 0 [2.2.2-1]."""
    return varint(len(properties)) + properties
