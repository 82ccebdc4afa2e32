"""Which first bytes a packet may have: packet types, flags and directions, by the stage of a connection.

A table has 256 bytes, one result for each first byte; 0 accepts it. A packet is thereby refused before its length is
known, and the data path makes one lookup.
"""

from typing import Final

from sluicegate.protocols.mqtt.codec.reason_codes import MALFORMED_PACKET, PROTOCOL_ERROR, PeerViolation

CONNECT: Final = 1
CONNACK: Final = 2
PUBLISH: Final = 3
PUBACK: Final = 4
PUBREC: Final = 5
PUBREL: Final = 6
PUBCOMP: Final = 7
SUBSCRIBE: Final = 8
SUBACK: Final = 9
UNSUBSCRIBE: Final = 10
UNSUBACK: Final = 11
PINGREQ: Final = 12
PINGRESP: Final = 13
DISCONNECT: Final = 14
AUTH: Final = 15

NAMES: Final = (
    "reserved type 0", "CONNECT", "CONNACK", "PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP", "SUBSCRIBE", "SUBACK",
    "UNSUBSCRIBE", "UNSUBACK", "PINGREQ", "PINGRESP", "DISCONNECT", "AUTH",
)  # fmt: skip

# What begins with a byte that no client of MQTT sends, and comes to the wrong port most.
_OTHER_PROTOCOLS: Final[dict[int, str]] = {0x16: "TLS", ord("A"): "AMQP", ord("G"): "HTTP"}

_PASSES: Final = 0
_RESERVED_TYPE: Final = 1
_WRONG_FLAGS: Final = 2
_QOS_3: Final = 3
_DUP_AT_MOST_ONCE: Final = 4
_WRONG_DIRECTION: Final = 5
_SECOND_CONNECT: Final = 6
_NOT_CONNECT: Final = 7
_NOT_AUTHENTICATED: Final = 8

_VERDICTS: Final[tuple[tuple[int, str], ...]] = (
    (0, ""),
    (MALFORMED_PACKET, "is a reserved packet type"),
    (MALFORMED_PACKET, "has reserved flags set [2.1.3-1]"),
    (MALFORMED_PACKET, "has QoS 3 [3.3.1-4]"),
    (MALFORMED_PACKET, "has DUP with QoS 0 [3.3.1-2]"),
    (PROTOCOL_ERROR, "is sent by servers only"),
    (PROTOCOL_ERROR, "comes a second time [3.1.0-2]"),
    (PROTOCOL_ERROR, "comes before CONNECT [3.1.0-1]"),
    (PROTOCOL_ERROR, "comes before the end of authentication [3.1.2-30]"),
)


def _flags_allowed(packet_type: int, level: int) -> tuple[int, ...]:
    """Return the low nibbles a client may send with a type, PUBLISH aside."""
    if packet_type in (PUBREL, SUBSCRIBE, UNSUBSCRIBE):
        # 3.1 sets DUP when it repeats one of them, which only 3.1 allows.
        return (0b0010, 0b1010) if level == 3 else (0b0010,)
    return (0b0000,)


def _verdict(first_byte: int, level: int) -> int:
    packet_type, flags = first_byte >> 4, first_byte & 0x0F
    if packet_type == 0 or (packet_type == AUTH and level < 5):
        return _RESERVED_TYPE
    if packet_type == PUBLISH:
        if flags & 0b0110 == 0b0110:
            return _QOS_3
        return _DUP_AT_MOST_ONCE if flags & 0b1110 == 0b1000 else _PASSES
    if flags not in _flags_allowed(packet_type, level):
        return _WRONG_FLAGS
    if packet_type in (CONNACK, SUBACK, UNSUBACK, PINGRESP):
        return _WRONG_DIRECTION
    return _SECOND_CONNECT if packet_type == CONNECT else _PASSES


def _connected(level: int) -> bytes:
    return bytes([_verdict(first_byte, level) for first_byte in range(256)])


def _restricted(allowed: tuple[int, ...], verdict: int) -> bytes:
    return bytes([_PASSES if first_byte in allowed else verdict for first_byte in range(256)])


# Nothing but CONNECT begins a connection.
BEFORE_CONNECT: Final = _restricted((CONNECT << 4,), _NOT_CONNECT)
# Between a CONNECT that names an authentication method and its CONNACK.
AUTHENTICATING: Final = _restricted((DISCONNECT << 4, AUTH << 4), _NOT_AUTHENTICATED)
# After CONNECT, by protocol level.
CONNECTED: Final[dict[int, bytes]] = {3: _connected(3), 4: _connected(4), 5: _connected(5)}


def refusal(table: bytes, first_byte: int) -> PeerViolation:
    """Return the violation for a first byte that the table of this stage does not let pass."""
    reason_code, why = _VERDICTS[table[first_byte]]
    other = _OTHER_PROTOCOLS.get(first_byte) if table is BEFORE_CONNECT else None
    if other is not None:
        text = f"first byte 0x{first_byte:02X}, as {other} begins, where CONNECT has to be [3.1.0-1]"
    else:
        text = f"{NAMES[first_byte >> 4]} packet (first byte 0x{first_byte:02X}) {why}"
    return PeerViolation(reason_code, text)
