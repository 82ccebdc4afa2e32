"""The properties of a message: all but its fixed part, topic and partition key.

Flow: properties. A sequence of entries: `u8 slot`, then for a standard slot (below 0x80) `u32 length | value`, for a
user property (0x80 and its type) `u32 length | name | value`. An unknown standard slot is ignored. Times are relative,
so that clocks need not agree: time to live and delay count from arrival.
"""

import struct
from base64 import b64decode, b64encode
from typing import Final

from sluicegate.messaging.message.headers import TIME_MS_MAX, USER_PROPERTIES_MAX, Headers, UserPropertyValue
from sluicegate.protocols.flow.codec.codes import MALFORMED, LocalMisuse, PeerViolation

MESSAGE_ID: Final = 0x01  # text
CORRELATION: Final = 0x02  # bytes
REPLY_TO: Final = 0x03  # text: a topic, or a queue as `#q/NAME`
CONTENT_TYPE: Final = 0x04  # text
TTL_MS: Final = 0x05  # u64: in PUBLISH from arrival, in DELIVER the rest
TIMESTAMP_MS: Final = 0x06  # u64: as the sender set it, since 1970
DELAY_MS: Final = 0x07  # u64: not delivered before; only in PUBLISH

USER: Final = 0x80
NULL: Final = 0
FALSE: Final = 1
TRUE: Final = 2
I64: Final = 3
U64: Final = 4
F64: Final = 5
TEXT: Final = 6  # u32 length before it, as bytes have
BYTES: Final = 7

ENTRIES_MAX: Final = USER_PROPERTIES_MAX  # of one message that a client publishes; others have fields besides

_I64: Final = struct.Struct(">q")
_U64: Final = struct.Struct(">Q")
_F64: Final = struct.Struct(">d")


def decode_properties(headers: Headers, data: bytes, start: int, end: int, wall_ms: int, entries_max: int) -> None:
    """Put the properties in `data[start:end]`, `entries_max` at most, into headers. Raises PeerViolation."""
    try:
        _decode(headers, data, start, end, wall_ms, entries_max)
    except (IndexError, struct.error):
        raise PeerViolation(MALFORMED, "properties that end within an entry") from None
    except UnicodeDecodeError as error:
        raise PeerViolation(MALFORMED, f"a property that is not UTF-8: {error.reason}") from None


def _decode(headers: Headers, data: bytes, start: int, end: int, wall_ms: int, entries_max: int) -> None:
    pos = start
    user: list[tuple[str, UserPropertyValue]] = []
    for _ in range(entries_max):
        if pos >= end:
            break
        slot = data[pos]
        value_at, stop = _extent(data, pos + 1, end)
        if slot >= USER:
            name = data[value_at:stop].decode("utf-8")
            value, stop = _decode_user(slot - USER, data, stop, end)
            user.append((name, value))
        else:
            _decode_standard(headers, slot, data[value_at:stop], wall_ms)
        pos = stop
    if pos != end:
        raise PeerViolation(MALFORMED, f"more than {entries_max} properties")
    if user:
        headers.user_properties = user


def _extent(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """Return where the value begins whose length stands at `pos`, and where it ends."""
    if pos + 4 > end:
        raise IndexError
    value_at = pos + 4
    stop = value_at + (data[pos] << 24 | data[pos + 1] << 16 | data[pos + 2] << 8 | data[pos + 3])
    if stop > end:
        raise IndexError
    return value_at, stop


def _decode_standard(headers: Headers, slot: int, value: bytes, wall_ms: int) -> None:
    if slot == MESSAGE_ID:
        headers.message_id = value.decode("utf-8")
    elif slot == CORRELATION:
        headers.correlation = value
    elif slot == REPLY_TO:
        headers.reply_to = value.decode("utf-8")
    elif slot == CONTENT_TYPE:
        headers.content_type = value.decode("utf-8")
    elif slot == TTL_MS:
        headers.expires_at_ms = wall_ms + max(1, _time(value))
    elif slot == TIMESTAMP_MS:
        headers.timestamp_ms = _time(value)
    elif slot == DELAY_MS:
        headers.not_before_ms = wall_ms + _time(value)


def _time(value: bytes) -> int:
    if len(value) != 8:
        raise PeerViolation(MALFORMED, f"a time of {len(value)} bytes in the properties; 8 are required")
    return min(int.from_bytes(value, "big"), TIME_MS_MAX)


def _decode_user(kind: int, data: bytes, pos: int, end: int) -> tuple[UserPropertyValue, int]:
    if kind == NULL:
        return None, pos
    if kind == FALSE:
        return False, pos
    if kind == TRUE:
        return True, pos
    if kind in (I64, U64, F64):
        if pos + 8 > end:
            raise IndexError
        form = _I64 if kind == I64 else _U64 if kind == U64 else _F64
        number: int | float = form.unpack_from(data, pos)[0]
        return number, pos + 8
    if kind == TEXT:
        value_at, stop = _extent(data, pos, end)
        return data[value_at:stop].decode("utf-8"), stop
    if kind == BYTES:
        value_at, stop = _extent(data, pos, end)
        return data[value_at:stop], stop
    raise PeerViolation(MALFORMED, f"a user property of the unknown type {kind}")


def encode_properties(headers: Headers, *, ttl_ms: int, delay_ms: int) -> bytes:
    """Return the properties of a message. `ttl_ms` and `delay_ms` stand for the times in its headers; 0: none."""
    out: list[bytes] = []
    if headers.message_id is not None:
        _put(out, MESSAGE_ID, headers.message_id.encode("utf-8"))
    if headers.correlation is not None:
        _put(out, CORRELATION, headers.correlation)
    if headers.reply_to is not None:
        _put(out, REPLY_TO, headers.reply_to.encode("utf-8"))
    if headers.content_type is not None:
        _put(out, CONTENT_TYPE, headers.content_type.encode("utf-8"))
    if ttl_ms > 0:
        _put(out, TTL_MS, _U64.pack(ttl_ms))
    if headers.timestamp_ms > 0:
        _put(out, TIMESTAMP_MS, _U64.pack(headers.timestamp_ms))
    if delay_ms > 0:
        _put(out, DELAY_MS, _U64.pack(delay_ms))
    if headers.user_properties is not None:
        for name, value in headers.user_properties:
            _put_user(out, name, value)
    dead = headers.dead
    if dead is not None:
        for name, shown in dead.properties():
            _put_user(out, name, shown)
    return b"".join(out)


def _put(out: list[bytes], slot: int, value: bytes) -> None:
    out.append(bytes((slot,)))
    out.append(len(value).to_bytes(4, "big"))
    out.append(value)


def _put_user(out: list[bytes], name: str, value: UserPropertyValue) -> None:
    kind, data = _user_value(value)
    _put(out, USER + kind, name.encode("utf-8"))
    if kind in (TEXT, BYTES):
        out.append(len(data).to_bytes(4, "big"))
    out.append(data)


def _user_value(value: UserPropertyValue) -> tuple[int, bytes]:
    if value is None:
        return NULL, b""
    if isinstance(value, bool):
        return (TRUE if value else FALSE), b""
    if isinstance(value, int):
        if -(1 << 63) <= value < 1 << 63:
            return I64, _I64.pack(value)
        if 0 <= value < 1 << 64:
            return U64, _U64.pack(value)
        raise LocalMisuse(f"the user property {value} has more than 64 bits")
    if isinstance(value, float):
        return F64, _F64.pack(value)
    if isinstance(value, str):
        return TEXT, value.encode("utf-8")
    return BYTES, value


# User properties as texts: how columns carry them, for readers whose maps hold texts only.
#
# Flow: columns. The type of a property is that of `properties`; its text is what it looks like: numbers in decimal,
# `true` and `false`, nothing for null, bytes in base64.


def property_text(value: UserPropertyValue) -> tuple[int, bytes]:
    """Return type and text of a property."""
    if value is None:
        return NULL, b""
    if isinstance(value, bool):
        return (TRUE, b"true") if value else (FALSE, b"false")
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 64:
            raise LocalMisuse(f"the user property {value} has more than 64 bits")
        return (I64 if value < 1 << 63 else U64), str(value).encode()
    if isinstance(value, float):
        return F64, repr(value).encode()
    if isinstance(value, str):
        return TEXT, value.encode("utf-8")
    return BYTES, b64encode(value)


def property_value(kind: int, text: bytes) -> UserPropertyValue:
    """Return the property that a type and a text stand for. Raises PeerViolation."""
    if kind == TEXT:
        return text.decode("utf-8")
    if kind == NULL:
        return None
    if kind in (TRUE, FALSE):
        return kind == TRUE
    try:
        if kind == F64:
            return float(text)
        if kind == BYTES:
            return b64decode(text, validate=True)
        number = int(text) if kind in (I64, U64) and len(text) <= 20 else None
    except ValueError:
        number = None
    if number is None or not -(1 << 63) <= number < 1 << 64:
        raise PeerViolation(MALFORMED, f"a property of type {kind} with the text {text[:40]!r}")
    return number
