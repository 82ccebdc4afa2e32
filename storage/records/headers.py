"""The headers column of a batch at rest: one row of attributes per message, and one byte for a row without any.

A row begins with a u16 of flags. Bit 0 says that there are headers; a row without is the single byte 0. Each further
bit is a truth value itself (T) or says that its field follows, in the order of the bits (F):

    1 F partition_key   text        6 F correlation    bytes       11 T deliver_to_one
    2 F key_hash        number      7 F reply_to       text        12 T eliding_eligible
    3 F expires_at_ms   number      8 F message_id     text        13 F user_properties
    4 F priority        u8          9 F timestamp_ms   number      14 F native: u8 format, bytes
    5 F content_type    text       10 T dmq_eligible               15   a second u16 of flags follows the first

Second flags; those not named are 0:

    0 T payload_is_text             1 F not_before_ms  number, behind the fields of the first
    2 F dead: text reason, text queue, varint partition, varint delivery_count, number died_ms, text client,
      u8 was_eligible, varint count of via, and text for each
    3 F cause of the death, a text
    4 F link_targets bytes, from version 4 on

In version 1 of the batch format bit 15 was payload_is_text, and there were no second flags.

User properties are a varint count, then for each: text name, u8 type, value (0 None, 1 false, 2 true, 3 number, 4
float as f64, 5 text, 6 bytes). Field types are those of `fields`. Once released, a bit that was 0 may get a
meaning only in a new version of the batch format.
"""

import struct
from typing import Final

from sluicegate.messaging.message.headers import NATIVE_NONE, PRIORITY_DEFAULT, DeadLetter, Headers, UserPropertyValue
from sluicegate.storage.records.fields import (
    BYTES,
    put_bytes,
    put_number,
    put_text,
    put_u8,
    put_varint,
    take_bytes,
    take_number,
    take_text,
    take_varint,
)

HEADERS_WITH_TARGETS: Final = 4  # the version of the batch format

_PRESENT: Final = 1 << 0
_PARTITION_KEY: Final = 1 << 1
_KEY_HASH: Final = 1 << 2
_EXPIRES_AT: Final = 1 << 3
_PRIORITY: Final = 1 << 4
_CONTENT_TYPE: Final = 1 << 5
_CORRELATION: Final = 1 << 6
_REPLY_TO: Final = 1 << 7
_MESSAGE_ID: Final = 1 << 8
_TIMESTAMP: Final = 1 << 9
_DMQ_ELIGIBLE: Final = 1 << 10
_DELIVER_TO_ONE: Final = 1 << 11
_ELIDING_ELIGIBLE: Final = 1 << 12
_USER_PROPERTIES: Final = 1 << 13
_NATIVE: Final = 1 << 14
_SECOND_FLAGS: Final = 1 << 15  # version 1: payload_is_text

_PAYLOAD_IS_TEXT: Final = 1 << 0
_NOT_BEFORE: Final = 1 << 1
_DEAD: Final = 1 << 2
_DEAD_CAUSE: Final = 1 << 3
_LINK_TARGETS: Final = 1 << 4
_SECOND_KNOWN: Final = 31
_SECOND_BEFORE_4: Final = 15

_NO_HASH: Final = -1

_NONE: Final = 0
_FALSE: Final = 1
_TRUE: Final = 2
_NUMBER: Final = 3
_FLOAT: Final = 4
_TEXT: Final = 5
_BYTES: Final = 6

_F64: Final = struct.Struct("<d")


def encode_headers(column: list[Headers | None]) -> bytes:
    """Return the column's bytes. Raises ValueError for an attribute the format cannot hold."""
    out: list[bytes] = []
    for headers in column:
        if headers is None:
            out.append(BYTES[0])
        else:
            _put_row(out, headers)
    return b"".join(out)


def decode_headers(data: bytes, offset: int, end: int, count: int, version: int) -> tuple[list[Headers | None], int]:
    """Return a column of `count` rows of a batch of this format version, and the offset behind it.

    The column is shorter when it reaches `end` early, or at an unreadable row: the beginning of the next row is then
    unknown, and the column ends there.
    """
    column: list[Headers | None] = []
    while len(column) < count and offset < end:
        if data[offset] == 0:
            column.append(None)
            offset += 1
            continue
        try:
            headers, offset = _take_row(data, offset, version)
        except (IndexError, ValueError, OverflowError, struct.error):
            return column, end
        if offset > end:
            return column, end
        column.append(headers)
    return column, offset


def _put_row(out: list[bytes], headers: Headers) -> None:
    flags = _flags_of(headers)
    second = _second_flags_of(headers)
    if second:
        flags |= _SECOND_FLAGS
    out.append(BYTES[flags & 0xFF])
    out.append(BYTES[flags >> 8])
    if second:
        out.append(BYTES[second & 0xFF])
        out.append(BYTES[second >> 8])
    if headers.partition_key is not None:
        put_text(out, headers.partition_key)
    if flags & _KEY_HASH:
        put_number(out, headers.key_hash)
    if flags & _EXPIRES_AT:
        put_number(out, headers.expires_at_ms)
    if flags & _PRIORITY:
        put_u8(out, headers.priority)
    if headers.content_type is not None:
        put_text(out, headers.content_type)
    if headers.correlation is not None:
        put_bytes(out, headers.correlation)
    if headers.reply_to is not None:
        put_text(out, headers.reply_to)
    if headers.message_id is not None:
        put_text(out, headers.message_id)
    if flags & _TIMESTAMP:
        put_number(out, headers.timestamp_ms)
    if headers.user_properties is not None:
        _put_user_properties(out, headers.user_properties)
    if flags & _NATIVE:
        put_u8(out, headers.native_format)
        put_bytes(out, headers.native)
    if second & _NOT_BEFORE:
        put_number(out, headers.not_before_ms)
    if headers.dead is not None:
        _put_dead(out, headers.dead)
    if second & _LINK_TARGETS:
        put_bytes(out, headers.link_targets)


def _flags_of(headers: Headers) -> int:
    flags = _PRESENT
    flags |= 0 if headers.partition_key is None else _PARTITION_KEY
    flags |= 0 if headers.key_hash == _NO_HASH else _KEY_HASH
    flags |= 0 if headers.expires_at_ms == 0 else _EXPIRES_AT
    flags |= 0 if headers.priority == PRIORITY_DEFAULT else _PRIORITY
    flags |= 0 if headers.content_type is None else _CONTENT_TYPE
    flags |= 0 if headers.correlation is None else _CORRELATION
    flags |= 0 if headers.reply_to is None else _REPLY_TO
    flags |= 0 if headers.message_id is None else _MESSAGE_ID
    flags |= 0 if headers.timestamp_ms == 0 else _TIMESTAMP
    flags |= _DMQ_ELIGIBLE if headers.dmq_eligible else 0
    flags |= _DELIVER_TO_ONE if headers.deliver_to_one else 0
    flags |= _ELIDING_ELIGIBLE if headers.eliding_eligible else 0
    flags |= 0 if headers.user_properties is None else _USER_PROPERTIES
    flags |= 0 if headers.native_format == NATIVE_NONE and not headers.native else _NATIVE
    return flags


def _second_flags_of(headers: Headers) -> int:
    flags = _PAYLOAD_IS_TEXT if headers.payload_is_text else 0
    flags |= 0 if headers.not_before_ms == 0 else _NOT_BEFORE
    if headers.dead is not None:
        flags |= _DEAD_CAUSE | _DEAD if headers.dead.cause else _DEAD
    flags |= _LINK_TARGETS if headers.link_targets else 0
    return flags


def _take_row(data: bytes, offset: int, version: int) -> tuple[Headers, int]:
    flags = data[offset] | data[offset + 1] << 8
    if not flags & _PRESENT:
        raise ValueError(f"a headers row with flags {flags:#06x}")
    offset += 2
    second = 0
    if flags & _SECOND_FLAGS:
        if version == 1:
            second = _PAYLOAD_IS_TEXT
        else:
            second = data[offset] | data[offset + 1] << 8
            offset += 2
            if second & ~(_SECOND_KNOWN if version >= HEADERS_WITH_TARGETS else _SECOND_BEFORE_4):
                raise ValueError(f"a headers row with second flags {second:#06x}")
    headers = Headers(
        dmq_eligible=flags & _DMQ_ELIGIBLE != 0,
        deliver_to_one=flags & _DELIVER_TO_ONE != 0,
        eliding_eligible=flags & _ELIDING_ELIGIBLE != 0,
        payload_is_text=second & _PAYLOAD_IS_TEXT != 0,
    )
    if flags & _PARTITION_KEY:
        headers.partition_key, offset = take_text(data, offset)
    if flags & _KEY_HASH:
        headers.key_hash, offset = take_number(data, offset)
    if flags & _EXPIRES_AT:
        headers.expires_at_ms, offset = take_number(data, offset)
    if flags & _PRIORITY:
        headers.priority, offset = data[offset], offset + 1
    if flags & _CONTENT_TYPE:
        headers.content_type, offset = take_text(data, offset)
    if flags & _CORRELATION:
        headers.correlation, offset = take_bytes(data, offset)
    if flags & _REPLY_TO:
        headers.reply_to, offset = take_text(data, offset)
    if flags & _MESSAGE_ID:
        headers.message_id, offset = take_text(data, offset)
    if flags & _TIMESTAMP:
        headers.timestamp_ms, offset = take_number(data, offset)
    if flags & _USER_PROPERTIES:
        headers.user_properties, offset = _take_user_properties(data, offset)
    if flags & _NATIVE:
        headers.native_format, offset = data[offset], offset + 1
        headers.native, offset = take_bytes(data, offset)
    if second & _NOT_BEFORE:
        headers.not_before_ms, offset = take_number(data, offset)
    if second & _DEAD:
        headers.dead, offset = _take_dead(data, offset, has_cause=second & _DEAD_CAUSE != 0)
    if second & _LINK_TARGETS:
        headers.link_targets, offset = take_bytes(data, offset)
    return headers, offset


def _put_dead(out: list[bytes], dead: DeadLetter) -> None:
    put_text(out, dead.reason)
    put_text(out, dead.queue)
    put_varint(out, dead.partition)
    put_varint(out, dead.delivery_count)
    put_number(out, dead.died_ms)
    put_text(out, dead.client)
    put_u8(out, 1 if dead.was_eligible else 0)
    put_varint(out, len(dead.via))
    for name in dead.via:
        put_text(out, name)
    if dead.cause:
        put_text(out, dead.cause)


def _take_dead(data: bytes, offset: int, *, has_cause: bool) -> tuple[DeadLetter, int]:
    reason, offset = take_text(data, offset)
    queue, offset = take_text(data, offset)
    partition, offset = take_varint(data, offset)
    delivery_count, offset = take_varint(data, offset)
    died_ms, offset = take_number(data, offset)
    client, offset = take_text(data, offset)
    was_eligible = data[offset] == 1
    count, offset = take_varint(data, offset + 1)
    via: list[str] = []
    for _ in range(count):
        name, offset = take_text(data, offset)
        via.append(name)
    cause = ""
    if has_cause:
        cause, offset = take_text(data, offset)
    dead = DeadLetter(
        reason=reason,
        queue=queue,
        partition=partition,
        delivery_count=delivery_count,
        died_ms=died_ms,
        client=client,
        cause=cause,
        was_eligible=was_eligible,
        via=tuple(via),
    )
    return dead, offset


def _put_user_properties(out: list[bytes], properties: list[tuple[str, UserPropertyValue]]) -> None:
    put_varint(out, len(properties))
    for name, value in properties:
        put_text(out, name)
        _put_value(out, value)


def _put_value(out: list[bytes], value: UserPropertyValue) -> None:
    if value is None:
        out.append(BYTES[_NONE])
    elif isinstance(value, str):
        out.append(BYTES[_TEXT])
        put_text(out, value)
    elif isinstance(value, bool):  # before int, of which bool is a kind
        out.append(BYTES[_TRUE if value else _FALSE])
    elif isinstance(value, int):
        out.append(BYTES[_NUMBER])
        put_number(out, value)
    elif isinstance(value, float):
        out.append(BYTES[_FLOAT])
        out.append(_F64.pack(value))
    else:
        out.append(BYTES[_BYTES])
        put_bytes(out, value)


def _take_user_properties(data: bytes, offset: int) -> tuple[list[tuple[str, UserPropertyValue]], int]:
    count, offset = take_varint(data, offset)
    properties: list[tuple[str, UserPropertyValue]] = []
    for _ in range(count):
        name, offset = take_text(data, offset)
        value, offset = _take_value(data, offset)
        properties.append((name, value))
    return properties, offset


def _take_value(data: bytes, offset: int) -> tuple[UserPropertyValue, int]:
    kind = data[offset]
    offset += 1
    if kind == _TEXT:
        return take_text(data, offset)
    if kind == _NUMBER:
        return take_number(data, offset)
    if kind == _FLOAT:
        number: float = _F64.unpack_from(data, offset)[0]
        return number, offset + 8
    if kind == _BYTES:
        return take_bytes(data, offset)
    if kind == _NONE:
        return None, offset
    if kind in (_FALSE, _TRUE):
        return kind == _TRUE, offset
    raise ValueError(f"a user property of the unknown type {kind}")
