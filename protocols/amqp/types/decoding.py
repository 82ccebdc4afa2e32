"""AMQP's primitive and compound types from bytes (1.2, 1.6).

Free functions from (buffer, position, end) to a value and the position behind it. Nothing outside `[position, end)` is
read, and the only exception is DecodeError, whatever the bytes. A value that is not needed is skipped, not decoded.
"""

import struct
from typing import Final, final

from sluicegate.protocols.amqp.types.errors import DecodeError
from sluicegate.protocols.amqp.types.values import (
    CHAR,
    DECIMAL32,
    DECIMAL64,
    DECIMAL128,
    FLOAT,
    INT,
    TIMESTAMP,
    UINT,
    ULONG,
    UUID,
    AmqpArray,
    AmqpMap,
    AmqpValue,
    Described,
    Scalar,
    Symbol,
)

DEPTH_MAX: Final = 32  # of lists in maps in lists; more than any message has, and far from Python's own limit
# Items of an array that take no bytes, such as nulls. With it ten bytes make no more of memory than ten empty lists do.
EMPTY_ITEMS_MAX: Final = 64
VALUES_MAX: Final = 100_000  # within one: 40 ms of the node, and some MB of memory, for as many bytes

_F32: Final = struct.Struct(">f")
_F64: Final = struct.Struct(">d")


@final
class DecodeBudget:
    """What may still be within a value, or within all that are decoded with the same one."""

    def __init__(self, values: int = VALUES_MAX) -> None:
        self.depth = DEPTH_MAX
        self.values = values

    def enter(self) -> None:
        """Note that what follows lies within another value. Raises DecodeError."""
        if self.depth == 0:
            raise DecodeError(f"values are nested more than {DEPTH_MAX} deep")
        self.depth -= 1

    def leave(self) -> None:
        """Note the end of that value."""
        self.depth += 1

    def take(self, count: int) -> None:
        """Note that so many values follow. Raises DecodeError."""
        self.values -= count
        if self.values < 0:
            raise DecodeError(f"{-self.values} values more than are taken at once")


def decode(data: bytes, pos: int, end: int, budget: DecodeBudget | None = None) -> tuple[AmqpValue, int]:
    """Return the value at `pos` and the position behind it. Raises DecodeError."""
    if pos >= end:
        raise DecodeError("a value is missing")
    if budget is None:
        budget = DecodeBudget()
    code = data[pos]
    if code == 0x00:
        budget.enter()
        descriptor, pos = decode(data, pos + 1, end, budget)
        value, pos = decode(data, pos, end, budget)
        budget.leave()
        return Described(descriptor, value), pos
    return _decode_as(code, data, pos + 1, end, budget)


def skip(data: bytes, pos: int, end: int) -> int:
    """Return the position behind the value at `pos`. Raises DecodeError when it runs past `end`."""
    pending = 1
    while pending:
        if pos < end and data[pos] == 0x00:  # a descriptor, which is a value, and then the value it describes
            pending += 1
            pos += 1
        else:
            pos = skip_plain(data, pos, end)
            pending -= 1
    return pos


def skip_plain(data: bytes, pos: int, end: int) -> int:
    """Return the position behind a value without descriptor. The high nibble says its width (1.2.1)."""
    if pos >= end:
        raise DecodeError("a value is missing")
    code = data[pos]
    width = code >> 4
    pos += 1
    if width == 0x4:
        stop = pos
    elif 0x5 <= width <= 0x9:
        stop = pos + (1 << (width - 5))
    elif width in (0xA, 0xC, 0xE):
        stop = pos + 1 + _u8(data, pos, end)
    elif width in (0xB, 0xD, 0xF):
        stop = pos + 4 + u32(data, pos, end)
    else:
        raise DecodeError(f"unknown constructor {code:#04x}")
    if stop > end:
        raise DecodeError(f"a value of {stop - pos} bytes where {end - pos} are left")
    return stop


def u32(data: bytes, pos: int, end: int) -> int:
    """Return the four byte unsigned integer at `pos`."""
    if pos + 4 > end:
        raise DecodeError("four bytes are required")
    return data[pos] << 24 | data[pos + 1] << 16 | data[pos + 2] << 8 | data[pos + 3]


def decode_list(data: bytes, pos: int, end: int, budget: DecodeBudget | None = None) -> tuple[list[AmqpValue], int]:
    """Return the list at `pos`, which has to be one."""
    if pos >= end:
        raise DecodeError("a list is missing")
    code = data[pos]
    if code == 0x45:
        return [], pos + 1
    if code not in (0xC0, 0xD0):
        raise DecodeError(f"constructor {code:#04x} where a list is required")
    return _items(code == 0xD0, data, pos + 1, end, DecodeBudget() if budget is None else budget)


def read_fields(data: bytes, pos: int, end: int) -> list[AmqpValue]:
    """Return the list at `pos`, which has to reach to `end`: the fields of a performative."""
    fields, stop = decode_list(data, pos, end)
    if stop != end:
        raise DecodeError(f"{end - stop} bytes behind a performative")
    return fields


def _decode_as(code: int, data: bytes, pos: int, end: int, budget: DecodeBudget) -> tuple[AmqpValue, int]:
    """Decode a value by its constructor, which lies before `pos`, or stands once for a whole array."""
    width = code >> 4
    if width == 0x4:
        return _decode_empty(code), pos
    if 0x5 <= width <= 0x9:
        return _decode_fixed(code, data, pos, end)
    if width in (0xA, 0xB):
        return _decode_variable(code, data, pos, end)
    if code in (0xC0, 0xD0):
        items, pos = _items(code == 0xD0, data, pos, end, budget)
        return items, pos
    if code in (0xC1, 0xD1):
        return _decode_map(code == 0xD1, data, pos, end, budget)
    if code in (0xE0, 0xF0):
        return _decode_array(code == 0xF0, data, pos, end, budget)
    raise DecodeError(f"unknown constructor {code:#04x}")


def _decode_empty(code: int) -> AmqpValue:
    if code == 0x40:
        return None
    if code == 0x41:
        return True
    if code == 0x42:
        return False
    if code == 0x43:
        return Scalar(UINT, 0)
    if code == 0x44:
        return Scalar(ULONG, 0)
    if code == 0x45:
        return []
    raise DecodeError(f"unknown constructor {code:#04x}")


def _decode_fixed(code: int, data: bytes, pos: int, end: int) -> tuple[AmqpValue, int]:
    stop = pos + (1 << ((code >> 4) - 5))
    if stop > end:
        raise DecodeError(f"a value of {stop - pos} bytes where {end - pos} are left")
    raw = data[pos:stop]
    if code == 0x56:
        if raw[0] > 1:
            raise DecodeError(f"a boolean of {raw[0]:#04x}")
        return raw[0] == 1, stop
    if code in (0x50, 0x60, 0x70, 0x80, 0x52, 0x53):
        kind = UINT if code == 0x52 else ULONG if code == 0x53 else code
        return Scalar(kind, int.from_bytes(raw, "big")), stop
    if code in (0x51, 0x61, 0x71, 0x54, TIMESTAMP):
        kind = INT if code == 0x54 else code
        return Scalar(kind, int.from_bytes(raw, "big", signed=True)), stop
    if code in (0x55, 0x81):
        return int.from_bytes(raw, "big", signed=True), stop
    if code == 0x82:
        double: float = _F64.unpack(raw)[0]
        return double, stop
    if code == FLOAT:
        single: float = _F32.unpack(raw)[0]
        return Scalar(FLOAT, single), stop
    if code == CHAR:
        point = int.from_bytes(raw, "big")
        if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
            raise DecodeError(f"{point:#x} is not a Unicode character")
        return Scalar(CHAR, point), stop
    if code in (DECIMAL32, DECIMAL64, DECIMAL128, UUID):
        return Scalar(code, raw), stop
    raise DecodeError(f"unknown constructor {code:#04x}")


def _decode_variable(code: int, data: bytes, pos: int, end: int) -> tuple[AmqpValue, int]:
    if code >> 4 == 0xA:
        start = pos + 1
        stop = start + _u8(data, pos, end)
    else:
        start = pos + 4
        stop = start + u32(data, pos, end)
    if stop > end:
        raise DecodeError(f"a value of {stop - start} bytes where {end - start} are left")
    raw = data[start:stop]
    kind = code & 0x0F
    if kind == 0x0:
        return raw, stop
    if kind == 0x1:
        try:
            return raw.decode("utf-8"), stop
        except UnicodeDecodeError as error:
            raise DecodeError(f"a string is not valid UTF-8 at byte {error.start}") from None
    if kind == 0x3:
        try:
            return Symbol(raw.decode("ascii")), stop
        except UnicodeDecodeError as error:
            raise DecodeError(f"a symbol is not ASCII at byte {error.start}") from None
    raise DecodeError(f"unknown constructor {code:#04x}")


def _bounds(wide: bool, data: bytes, pos: int, end: int) -> tuple[int, int, int]:
    """Return count, first position and end of the compound whose size field is at `pos`."""
    if wide:
        stop = pos + 4 + u32(data, pos, end)
        if stop > end or stop < pos + 8:
            raise DecodeError(f"a compound of {stop - pos - 4} bytes where {end - pos - 4} are left")
        return u32(data, pos + 4, end), pos + 8, stop
    stop = pos + 1 + _u8(data, pos, end)
    if stop > end or stop < pos + 2:
        raise DecodeError(f"a compound of {stop - pos - 1} bytes where {end - pos - 1} are left")
    return data[pos + 1], pos + 2, stop


def _items(wide: bool, data: bytes, pos: int, end: int, budget: DecodeBudget) -> tuple[list[AmqpValue], int]:
    count, pos, stop = _bounds(wide, data, pos, end)
    if count > stop - pos:
        raise DecodeError(f"{count} values in {stop - pos} bytes")
    budget.take(count)
    budget.enter()
    items: list[AmqpValue] = []
    for _ in range(count):
        value, pos = decode(data, pos, stop, budget)
        items.append(value)
    budget.leave()
    if pos != stop:
        raise DecodeError(f"{stop - pos} bytes behind the last value of a list or map")
    return items, stop


def _decode_map(wide: bool, data: bytes, pos: int, end: int, budget: DecodeBudget) -> tuple[AmqpValue, int]:
    items, stop = _items(wide, data, pos, end, budget)
    if len(items) % 2:
        raise DecodeError(f"a map of {len(items)} values: the last key has none")
    pairs: list[tuple[AmqpValue, AmqpValue]] = []
    simple: set[tuple[str, object]] = set()
    for index in range(0, len(items), 2):
        key = items[index]
        if isinstance(key, (list, AmqpMap, AmqpArray, Described)):  # legal, but nothing here can be looked up by them
            raise DecodeError("a map's key is a compound value")
        name = (type(key).__name__, key)  # 1 and True are one key in Python, and two in AMQP
        if name in simple:
            raise DecodeError(f"a map has the key {key!r:.80} twice")
        simple.add(name)
        pairs.append((key, items[index + 1]))
    return AmqpMap(pairs), stop


def _decode_array(wide: bool, data: bytes, pos: int, end: int, budget: DecodeBudget) -> tuple[AmqpValue, int]:
    count, pos, stop = _bounds(wide, data, pos, end)
    budget.enter()
    descriptor: AmqpValue = None
    if pos < stop and data[pos] == 0x00:
        descriptor, pos = decode(data, pos + 1, stop, budget)
    if pos >= stop:
        raise DecodeError("an array without the type of its items")
    code = data[pos]
    pos += 1
    if code < 0x40:  # a descriptor of a descriptor is among them: the grammar allows it, and no known client sends it
        raise DecodeError(f"an array of items with the unknown constructor {code:#04x}")
    if count > (EMPTY_ITEMS_MAX if code >> 4 == 0x4 else stop - pos):
        raise DecodeError(f"{count} items in an array of {stop - pos} bytes")
    budget.take(count)
    items: list[AmqpValue] = []
    for _ in range(count):
        value, pos = _decode_as(code, data, pos, stop, budget)
        items.append(value)
    budget.leave()
    if pos != stop:
        raise DecodeError(f"{stop - pos} bytes behind the last item of an array")
    return AmqpArray(code, items, descriptor), stop


def _u8(data: bytes, pos: int, end: int) -> int:
    if pos >= end:
        raise DecodeError("a byte is required")
    return data[pos]
