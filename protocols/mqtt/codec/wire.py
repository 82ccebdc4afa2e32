"""The data types of MQTT on the wire: integers, strings, binary data, variable byte integers.

Free functions from (buffer, position, end) to a value and the position after it. `end` is the end of the packet: a
field that runs past it is malformed. On the path of every packet positions are `i64`: plain machine integers in
compiled code, half the instructions of Python's.
"""

import re
from typing import Final

from mypy_extensions import i64

from sluicegate.messaging.topics.syntax import TopicError, check_level_count, check_topic_syntax
from sluicegate.protocols.mqtt.codec.limits import REMAINING_LENGTH_MAX, STRING_BYTES_MAX
from sluicegate.protocols.mqtt.codec.reason_codes import (
    MALFORMED_PACKET,
    TOPIC_NAME_INVALID,
    LocalMisuse,
    PeerViolation,
)

INCOMPLETE: Final = -1  # a length whose last byte has not arrived yet

# Characters that SHOULD NOT appear in a string: controls, and the two non-characters at the end of each plane.
_UNWANTED: Final = re.compile(
    "[\x01-\x1f\x7f-\x9f\ufdd0-\ufdef"
    + "".join([f"{chr(p * 65536 + 0xFFFE)}{chr(p * 65536 + 0xFFFF)}" for p in range(17)])
    + "]"
)


def read_length(data: bytes, pos: i64, end: i64) -> tuple[i64, i64]:
    """Return a remaining length and the position behind it; (INCOMPLETE, pos) when bytes are missing.

    A fourth byte that announces a fifth is malformed at once, whatever follows. Padded forms pass: see `is_padded`.
    """
    if pos >= end:
        return INCOMPLETE, pos
    byte = data[pos]
    if byte < 0x80:
        return byte, pos + 1
    value = byte & 0x7F
    shift = 7
    cursor = pos + 1
    while cursor < end:
        byte = data[cursor]
        cursor += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, cursor
        if shift == 21:
            raise PeerViolation(MALFORMED_PACKET, "remaining length has more than 4 bytes")
        shift += 7
    return INCOMPLETE, pos


def is_padded(data: bytes, pos: i64, end: i64) -> bool:
    """Whether the variable byte integer at [pos, end) has more bytes than it needs [1.5.5-1]."""
    return end - pos > 1 and data[end - 1] == 0


def read_varint(data: bytes, pos: i64, end: i64) -> tuple[i64, i64]:
    """Return a variable byte integer inside a packet, which must be whole and in its shortest form."""
    value, cursor = read_length(data, pos, end)
    if value < 0:
        raise PeerViolation(MALFORMED_PACKET, "variable byte integer runs past the end of the packet")
    if is_padded(data, pos, cursor):
        raise PeerViolation(MALFORMED_PACKET, "variable byte integer is not in its shortest form [1.5.5-1]")
    return value, cursor


def read_u8(data: bytes, pos: int, end: int) -> int:
    """Return the byte at `pos`."""
    if pos >= end:
        raise PeerViolation(MALFORMED_PACKET, "packet ends where a byte is required")
    return data[pos]


def read_u16(data: bytes, pos: i64, end: i64) -> i64:
    """Return the two byte integer at `pos`."""
    if pos + 2 > end:
        raise PeerViolation(MALFORMED_PACKET, "packet ends where a two byte integer is required")
    return data[pos] << 8 | data[pos + 1]


def read_u32(data: bytes, pos: int, end: int) -> int:
    """Return the four byte integer at `pos`."""
    if pos + 4 > end:
        raise PeerViolation(MALFORMED_PACKET, "packet ends where a four byte integer is required")
    return data[pos] << 24 | data[pos + 1] << 16 | data[pos + 2] << 8 | data[pos + 3]


def read_binary(data: bytes, pos: int, end: int) -> tuple[bytes, int]:
    """Return binary data and the position behind it."""
    start = pos + 2
    stop = start + read_u16(data, pos, end)
    if stop > end:
        raise PeerViolation(MALFORMED_PACKET, f"field of {stop - start} bytes runs past the end of the packet")
    return data[start:stop], stop


def read_string(data: bytes, pos: int, end: int) -> tuple[str, int]:
    """Return a UTF-8 string and the position behind it."""
    raw, stop = read_binary(data, pos, end)
    return decode_string(raw), stop


def decode_string(raw: bytes) -> str:
    """Decode the bytes of a string: well-formed UTF-8 without U+0000 [1.5.4-1] [1.5.4-2]. A leading BOM stays."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PeerViolation(MALFORMED_PACKET, f"string is not valid UTF-8 at byte {error.start} [1.5.4-1]") from None
    if "\0" in text:
        raise PeerViolation(MALFORMED_PACKET, "string contains U+0000 [1.5.4-2]")
    return text


def has_unwanted_characters(text: str) -> bool:
    """Whether a string has control characters or non-characters, which it SHOULD NOT have."""
    # str.isprintable settles nearly all names in one call; only the rest need the exact set.
    return not text.isprintable() and _UNWANTED.search(text) is not None


def varint(value: int) -> bytes:
    """Encode a variable byte integer."""
    if value < 0x80:
        return bytes([value])
    if value < 0x4000:
        return bytes([value & 0x7F | 0x80, value >> 7])
    if value > REMAINING_LENGTH_MAX:
        raise LocalMisuse(f"variable byte integer {value} above {REMAINING_LENGTH_MAX}")
    if value < 0x20_0000:
        return bytes([value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14])
    return bytes([value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14 & 0x7F | 0x80, value >> 21])


def binary(value: bytes) -> bytes:
    """Encode binary data."""
    if len(value) > STRING_BYTES_MAX:
        raise LocalMisuse(f"field of {len(value)} bytes, at most {STRING_BYTES_MAX} fit")
    return len(value).to_bytes(2, "big") + value


def string(text: str) -> bytes:
    """Encode a string."""
    return binary(text.encode("utf-8"))


def fits_string(text: str) -> bool:
    """Whether a text of another protocol can be an MQTT string: no U+0000, no surrogates, at most 65,535 bytes."""
    if "\0" in text:
        return False
    try:
        return len(text.encode("utf-8")) <= STRING_BYTES_MAX
    except UnicodeEncodeError:
        return False


def packet(first_byte: int, body: bytes) -> bytes:
    """Put the fixed header before the body of a packet."""
    size = len(body)
    if size < 0x80:  # nearly always
        return bytes([first_byte, size]) + body
    return bytes([first_byte]) + varint(size) + body


# Topic names as MQTT clients send them: in a PUBLISH or as a will topic. The syntax itself is
# `messaging.topics.syntax`.


def decode_topic(raw: bytes, refuse_control_characters: bool, levels_max: int) -> str:
    """Decode and check the topic name of a will or PUBLISH. Raises PeerViolation."""
    topic = decode_string(raw)
    try:
        check_topic_syntax(topic)
    except TopicError as error:
        raise PeerViolation(TOPIC_NAME_INVALID, f"topic {error} [3.3.2-2]") from None
    try:
        check_level_count(topic, levels_max)
    except TopicError as error:
        raise PeerViolation(TOPIC_NAME_INVALID, f"topic {error} (mqtt.topic_levels_max)") from None
    if refuse_control_characters and has_unwanted_characters(topic):
        raise PeerViolation(TOPIC_NAME_INVALID, "topic has control characters")
    return topic
