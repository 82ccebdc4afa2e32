"""AMQP's types to bytes, each in its shortest form (1.6)."""

import struct
from collections.abc import Sequence
from typing import Final

from sluicegate.protocols.amqp.types.errors import LocalMisuse
from sluicegate.protocols.amqp.types.values import (
    BYTE,
    CHAR,
    FLOAT,
    INT,
    SHORT,
    TIMESTAMP,
    UBYTE,
    UINT,
    ULONG,
    USHORT,
    AmqpArray,
    AmqpMap,
    AmqpValue,
    Described,
    Scalar,
    Symbol,
)

# Every byte as bytes. `bytes` of a tuple takes ten times as long as a look-up here.
ONE_BYTE: Final[list[bytes]] = [bytes((each,)) for each in range(256)]

_U32: Final = struct.Struct(">I")
_U64: Final = struct.Struct(">Q")
_I64: Final = struct.Struct(">q")
_F32: Final = struct.Struct(">f")
_F64: Final = struct.Struct(">d")

_SIGNED: Final[dict[int, int]] = {BYTE: 1, SHORT: 2, INT: 4, TIMESTAMP: 8}  # bytes of each kind
_UNSIGNED: Final[dict[int, int]] = {UBYTE: 1, USHORT: 2, UINT: 4, CHAR: 4, ULONG: 8}


def encode(value: AmqpValue) -> bytes:
    """Return a value with its constructor. Raises LocalMisuse for what AMQP cannot hold."""
    if value is None:
        return b"\x40"
    if isinstance(value, bool):
        return b"\x41" if value else b"\x42"
    if isinstance(value, int):
        if -128 <= value <= 127:
            return b"\x55" + ONE_BYTE[value & 0xFF]
        return b"\x81" + _fitted(value, 8, signed=True)
    if isinstance(value, float):
        return b"\x82" + _F64.pack(value)
    if isinstance(value, str):
        return _variable(0xA1, value.encode("utf-8"))
    if isinstance(value, bytes):
        return _variable(0xA0, value)
    if isinstance(value, Symbol):
        return _variable(0xA3, _ascii(value.text))
    if isinstance(value, Scalar):
        return _scalar(value)
    if isinstance(value, Described):
        return b"\x00" + encode(value.descriptor) + encode(value.value)
    if isinstance(value, AmqpMap):
        return _compound(0xC1, 2 * len(value.pairs), b"".join([encode(key) + encode(its) for key, its in value.pairs]))
    if isinstance(value, AmqpArray):
        return _array(value)
    return encode_list(value)


def encode_list(items: Sequence[AmqpValue]) -> bytes:
    """Return a list."""
    return b"\x45" if not items else _compound(0xC0, len(items), b"".join([encode(item) for item in items]))


def encode_composite(code: int, fields: list[AmqpValue]) -> bytes:
    """Return a described list (1.4): trailing nulls are left out, which means the same."""
    count = len(fields)
    while count and fields[count - 1] is None:
        count -= 1
    return b"\x00\x53" + ONE_BYTE[code] + encode_list(fields[:count])


def encode_performative(code: int, fields: list[AmqpValue]) -> bytes:
    """Return a described list with every field in its place, nulls at the end too: azure's pyamqp counts on them."""
    return b"\x00\x53" + ONE_BYTE[code] + encode_list(fields)


def _scalar(scalar: Scalar) -> bytes:
    kind = scalar.kind
    value = scalar.value
    if isinstance(value, bytes):
        return ONE_BYTE[kind] + value
    if kind == FLOAT:
        return b"\x72" + _F32.pack(value)
    assert isinstance(value, int), "only FLOAT has a float"
    if kind in (UINT, ULONG) and 0 <= value <= 0xFF:
        if value == 0:
            return b"\x43" if kind == UINT else b"\x44"
        return (b"\x52" if kind == UINT else b"\x53") + ONE_BYTE[value]
    if kind == INT and -128 <= value <= 127:
        return b"\x54" + ONE_BYTE[value & 0xFF]
    if kind in _UNSIGNED:
        return ONE_BYTE[kind] + _fitted(value, _UNSIGNED[kind], signed=False)
    return ONE_BYTE[kind] + _fitted(value, _SIGNED[kind], signed=True)


def _fitted(value: int, width: int, *, signed: bool) -> bytes:
    try:
        return value.to_bytes(width, "big", signed=signed)
    except OverflowError:
        raise LocalMisuse(f"{value} does not fit into {8 * width} bits") from None


def _ascii(text: str) -> bytes:
    try:
        return text.encode("ascii")
    except UnicodeEncodeError:
        raise LocalMisuse(f"the symbol {text!r} is not ASCII") from None


def _variable(code: int, raw: bytes) -> bytes:
    if len(raw) <= 0xFF:
        return ONE_BYTE[code] + ONE_BYTE[len(raw)] + raw
    return ONE_BYTE[code + 0x10] + _U32.pack(len(raw)) + raw


def _compound(code: int, count: int, body: bytes) -> bytes:
    if count <= 0xFF and len(body) <= 0xFE:
        return ONE_BYTE[code] + ONE_BYTE[len(body) + 1] + ONE_BYTE[count] + body
    return ONE_BYTE[code + 0x10] + _U32.pack(len(body) + 4) + _U32.pack(count) + body


def _array(array: AmqpArray) -> bytes:
    """Return an array. Items take the constructor's width, whatever their own shortest form."""
    head = b"" if array.descriptor is None else b"\x00" + encode(array.descriptor)
    items = array.items
    if array.constructor in (0xA0, 0xA1, 0xA3) and all(_length(item) <= 0xFF for item in items):
        code = array.constructor
    elif array.constructor in (0xA0, 0xA1, 0xA3):
        code = array.constructor + 0x10
    else:
        code = array.constructor
    body = b"".join([_item(code, item) for item in items])
    return _compound(0xE0, len(items), head + bytes((code,)) + body)


def _length(item: AmqpValue) -> int:
    return len(_raw(item))


def _raw(item: AmqpValue) -> bytes:
    if isinstance(item, Symbol):
        return _ascii(item.text)
    if isinstance(item, str):
        return item.encode("utf-8")
    if isinstance(item, bytes):
        return item
    raise LocalMisuse(f"{item!r} in an array of texts")


def _item(code: int, item: AmqpValue) -> bytes:
    """Return an item without constructor, in the form its array's constructor names."""
    width = code >> 4
    if width == 0x4:
        return b""
    if code == 0x56:
        return b"\x01" if item else b"\x00"
    if 0x5 <= width <= 0x9:
        return _fixed_item(code, 1 << (width - 5), item)
    if width == 0xA:
        raw = _raw(item)
        return bytes((len(raw),)) + raw
    if width == 0xB:
        raw = _raw(item)
        return _U32.pack(len(raw)) + raw
    if code == 0x45:
        return b""
    return _compound_item(code, item)


def _fixed_item(code: int, width: int, item: AmqpValue) -> bytes:
    value = item.value if isinstance(item, Scalar) else item
    if isinstance(value, bytes):
        return value
    if code == FLOAT or code == 0x82:
        assert isinstance(value, (int, float)), "an array of floating point numbers holds numbers"
        return _F32.pack(value) if code == FLOAT else _F64.pack(value)
    assert isinstance(value, int), "an array of integers holds integers"
    return _fitted(value, width, signed=code in (BYTE, SHORT, INT, TIMESTAMP, 0x54, 0x55, 0x81))


def _compound_item(code: int, item: AmqpValue) -> bytes:
    """Return a list, map or array as an item: the form with four byte sizes or, as the code says, one byte ones."""
    if isinstance(item, AmqpMap):
        count = 2 * len(item.pairs)
        body = b"".join([encode(key) + encode(its) for key, its in item.pairs])
    elif isinstance(item, list):
        count = len(item)
        body = b"".join([encode(each) for each in item])
    else:
        assert isinstance(item, AmqpArray), "compounds are lists, maps and arrays"
        count = len(item.items)
        head = b"" if item.descriptor is None else b"\x00" + encode(item.descriptor)
        body = head + bytes((item.constructor,)) + b"".join([_item(item.constructor, each) for each in item.items])
    if code >> 4 in (0xD, 0xF):
        return _U32.pack(len(body) + 4) + _U32.pack(count) + body
    if count > 0xFF or len(body) > 0xFE:
        raise LocalMisuse(f"{len(body)} bytes do not fit into an item with a one byte size")
    return bytes((len(body) + 1, count)) + body
