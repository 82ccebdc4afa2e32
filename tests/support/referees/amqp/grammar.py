"""Values and composites of AMQP 1.0, decoded by the letter of the specification.

Written from its parts 1 to 5 and the table in `data/amqp/composites.txt`, without the gateway's decoders, so that it
can judge them and the encoders.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from support.amqp.golden import BY_SYMBOL, COMPOSITES, Composite, Field

# Format codes (1.6): the type, and how many bytes follow.
_FIXED: Final = {
    0x40: ("null", 0), 0x41: ("boolean", 0), 0x42: ("boolean", 0), 0x56: ("boolean", 1), 0x50: ("ubyte", 1),
    0x60: ("ushort", 2), 0x70: ("uint", 4), 0x52: ("uint", 1), 0x43: ("uint", 0), 0x80: ("ulong", 8),
    0x53: ("ulong", 1), 0x44: ("ulong", 0), 0x51: ("byte", 1), 0x61: ("short", 2), 0x71: ("int", 4), 0x54: ("int", 1),
    0x81: ("long", 8), 0x55: ("long", 1), 0x72: ("float", 4), 0x82: ("double", 8), 0x74: ("decimal32", 4),
    0x84: ("decimal64", 8),
    0x94: ("decimal128", 16), 0x73: ("char", 4), 0x83: ("timestamp", 8), 0x98: ("uuid", 16),
}  # fmt: skip
_VARIABLE: Final = {
    0xA0: ("binary", 1), 0xB0: ("binary", 4), 0xA1: ("string", 1), 0xB1: ("string", 4), 0xA3: ("symbol", 1),
    0xB3: ("symbol", 4),
}  # fmt: skip
_COMPOUND: Final = {0xC0: ("list", 1), 0xD0: ("list", 4), 0xC1: ("map", 1), 0xD1: ("map", 4)}
_ARRAY: Final = {0xE0: 1, 0xF0: 4}
_UNSIGNED: Final = {"ubyte", "ushort", "uint", "ulong"}
_SIGNED: Final = {"byte", "short", "int", "long", "timestamp"}

# Types of the specification that are another one with a meaning (2.8, 3.5, 4.5.5, 5.3.3.6).
_ALIASES: Final = {
    "milliseconds": "uint", "seconds": "uint", "handle": "uint", "transfer-number": "uint", "delivery-number": "uint",
    "sequence-no": "uint", "message-format": "uint", "terminus-durability": "uint", "role": "boolean",
    "sender-settle-mode": "ubyte", "receiver-settle-mode": "ubyte", "sasl-code": "ubyte", "delivery-tag": "binary",
    "ietf-language-tag": "symbol", "terminus-expiry-policy": "symbol", "fields": "map", "node-properties": "map",
    "filter-set": "map",
}  # fmt: skip
_CHOICES: Final[dict[str, set[int] | set[str]]] = {
    "sender-settle-mode": {0, 1, 2}, "receiver-settle-mode": {0, 1}, "sasl-code": {0, 1, 2, 3, 4},
    "terminus-durability": {0, 1, 2},
    "terminus-expiry-policy": {"link-detach", "session-end", "connection-close", "never"},
}  # fmt: skip
_BYTES_MAX: Final = {"delivery-tag": 32, "txn-id": 32}  # 2.8.7, 4.5.5
_OUTCOMES: Final = ("accepted", "rejected", "released", "modified", "declared")
_STATES: Final = (*_OUTCOMES, "received", "transactional-state")
# What a field of any type (`*`) may hold: simple types, or composites by their names.
_ANY: Final[dict[str, tuple[str, ...]]] = {
    "source": ("source",), "target": ("target", "coordinator"), "state": _STATES, "outcome": _OUTCOMES,
    "default-outcome": _OUTCOMES, "address": ("string",), "to": ("string",), "reply-to": ("string",),
    "message-id": ("ulong", "uuid", "binary", "string"), "correlation-id": ("ulong", "uuid", "binary", "string"),
    "txn-id": ("binary",),
}  # fmt: skip


class Malformed(Exception):
    """Bytes that do not match the grammar. The text begins with the section."""


class Value(NamedTuple):
    """A value, and the name of its type. A described one that is a composite has that's name, and holds its fields."""

    kind: str
    it: object


class Said:
    """A composite: the fields that are not null, by name."""

    __slots__ = ("fields", "name", "values")

    def __init__(self, name: str, fields: list[Field], values: list[Value]) -> None:
        self.name = name
        self.fields = fields
        self.values = {field.name: value for field, value in zip(fields, values, strict=False) if value.kind != "null"}

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={value.it!r}' for name, value in self.values.items())})"

    def has(self, name: str) -> bool:
        return name in self.values

    def number(self, name: str, default: int = -1) -> int:
        found = self.values.get(name)
        return default if found is None or not isinstance(found.it, int) else found.it

    def flag(self, name: str) -> bool:
        found = self.values.get(name)
        return found is not None and found.it is True

    def text(self, name: str) -> str:
        found = self.values.get(name)
        return "" if found is None or not isinstance(found.it, str) else found.it

    def binary(self, name: str) -> bytes:
        found = self.values.get(name)
        return b"" if found is None or not isinstance(found.it, bytes) else found.it

    def composite(self, name: str) -> "Said | None":
        found = self.values.get(name)
        return None if found is None or not isinstance(found.it, Said) else found.it

    def symbols(self, name: str) -> list[str]:
        """Return the symbols of a multiple field: an array, or one that stands alone (1.4)."""
        found = self.values.get(name)
        if found is None:
            return []
        items = found.it if isinstance(found.it, list) else [found]
        return [str(item.it) for item in items]

    def entries(self, name: str) -> list[tuple[Value, Value]]:
        """Return the entries of a map."""
        found = self.values.get(name)
        return found.it if found is not None and isinstance(found.it, list) else []


def read(data: bytes, pos: int, end: int) -> tuple[Value, int]:
    """Return the value at a position, and the position behind it. Raises Malformed."""
    _must(pos < end, "1.2: a value begins behind the end")
    code = data[pos]
    if code == 0:
        descriptor, pos = read(data, pos + 1, end)
        inside, pos = read(data, pos, end)
        return _described(descriptor, inside), pos
    return _read_as(code, data, pos + 1, end)


def _read_as(code: int, data: bytes, pos: int, end: int) -> tuple[Value, int]:
    if code in _FIXED:
        kind, width = _FIXED[code]
        _must(pos + width <= end, "1.6: {} of {} bytes ends behind the end", kind, width)
        return Value(kind, _fixed(kind, code, data[pos : pos + width])), pos + width
    if code in _VARIABLE:
        kind, width = _VARIABLE[code]
        stop = _size_at(data, pos, width, end)
        return Value(kind, _text(kind, data[pos + width : stop])), stop
    if code in _COMPOUND:
        kind, width = _COMPOUND[code]
        stop = _size_at(data, pos, width, end)
        return Value(kind, _items(kind, data, pos + width, width, stop)), stop
    if code in _ARRAY:
        width = _ARRAY[code]
        stop = _size_at(data, pos, width, end)
        return Value("array", _array(data, pos + width, width, stop)), stop
    _must(code == 0x45, "1.6: there is no format code {:#04x}", code)
    return Value("list", []), pos


def _size_at(data: bytes, pos: int, width: int, end: int) -> int:
    """Return where something ends whose size stands at a position."""
    _must(pos + width <= end, "1.2: a size ends behind the end")
    stop = pos + width + int.from_bytes(data[pos : pos + width], "big")
    _must(stop <= end, "1.2: a value ends {} bytes behind the end", stop - end)
    return stop


def _fixed(kind: str, code: int, raw: bytes) -> object:
    if kind == "boolean":
        _must(not raw or raw[0] < 2, "1.6.2: a boolean of {!r}", raw)
        return raw == b"\x01" if raw else code == 0x41
    if kind in _UNSIGNED:
        return int.from_bytes(raw, "big")
    if kind in _SIGNED:
        return int.from_bytes(raw, "big", signed=True)
    return None if kind == "null" else raw


def _text(kind: str, raw: bytes) -> object:
    if kind == "binary":
        return raw
    try:
        return raw.decode("ascii" if kind == "symbol" else "utf-8")
    except UnicodeDecodeError:
        raise Malformed(f"1.6: a {kind} of {raw[:80]!r}") from None


def _items(kind: str, data: bytes, pos: int, width: int, stop: int) -> object:
    """Read the items of a list, or the entries of a map."""
    _must(pos + width <= stop, "1.6: a {} without a count", kind)
    count = int.from_bytes(data[pos : pos + width], "big")
    pos += width
    values: list[Value] = []
    for _ in range(count):
        value, pos = read(data, pos, stop)
        values.append(value)
    _must(pos == stop, "1.6: a {} of {} items has {} bytes more", kind, count, stop - pos)
    if kind == "list":
        return values
    _must(count % 2 == 0, "1.6.23: a map with an odd number of items")
    entries = list(zip(values[::2], values[1::2], strict=True))
    _must(len({repr(key) for key, _ in entries}) == len(entries), "1.6.23: a map with a key twice")
    return entries


def _array(data: bytes, pos: int, width: int, stop: int) -> list[Value]:
    _must(pos + width < stop, "1.6.24: an array without a count or constructor")
    count = int.from_bytes(data[pos : pos + width], "big")
    pos += width
    descriptor: Value | None = None
    if data[pos] == 0:
        descriptor, pos = read(data, pos + 1, stop)
    code = data[pos]
    pos += 1
    values: list[Value] = []
    for _ in range(count):
        value, pos = _read_as(code, data, pos, stop)
        values.append(value if descriptor is None else _described(descriptor, value))
    _must(pos == stop, "1.6.24: an array of {} items has {} bytes more", count, stop - pos)
    return values


def _described(descriptor: Value, inside: Value) -> Value:
    composite = _composite_of(descriptor)
    if composite is None or not isinstance(inside.it, list) or inside.kind != "list":
        return Value("described", (descriptor, inside))
    _must(len(inside.it) <= len(composite.fields), "1.4: {} has {} fields", composite.name, len(inside.it))
    return Value(composite.name, Said(composite.name, composite.fields, inside.it))


def _composite_of(descriptor: Value) -> Composite | None:
    if descriptor.kind == "symbol":
        return BY_SYMBOL.get(str(descriptor.it))
    return COMPOSITES.get(descriptor.it) if isinstance(descriptor.it, int) else None


def check(said: Said) -> None:
    """Hold each field of a composite, and of those within it, against its type (1.4). Raises Malformed."""
    for field in said.fields:
        value = said.values.get(field.name)
        where = f"{said.name}.{field.name}"
        if value is None:
            _must(not field.is_mandatory, "1.4: {} without {}", said.name, field.name)
        elif field.is_multiple and value.kind == "array":
            assert isinstance(value.it, list)
            for item in value.it:
                _check_one(where, field, item)
        else:
            _check_one(where, field, value)


def _check_one(where: str, field: Field, value: Value) -> None:
    kinds = _ANY.get(field.name, (value.kind,)) if field.kind == "*" else (_ALIASES.get(field.kind, field.kind),)
    _must(value.kind in kinds, "{} is {}, not of {}", where, value, kinds)
    limit = _BYTES_MAX.get(field.name)
    _must(limit is None or not isinstance(value.it, bytes) or len(value.it) <= limit, "{} is {}", where, value)
    if field.kind in _CHOICES:
        _must(value.it in _CHOICES[field.kind], "{} is {}", where, value)
    if value.kind == "map":
        _check_map(where, field, value.it)
    if isinstance(value.it, Said):
        check(value.it)


def _check_map(where: str, field: Field, entries: object) -> None:
    assert isinstance(entries, list)
    if field.name == "unsettled":  # 2.7.3: delivery tags and the states of their deliveries
        _check_entries(where, entries, "binary", lambda value: value.kind in (*_STATES, "null"))
    elif field.kind == "filter-set":  # 3.5.8
        _check_entries(where, entries, "symbol", lambda value: value.kind in ("described", "null"))
    else:
        _check_entries(where, entries, "symbol", lambda value: True)


def _check_entries(
    where: str, entries: Iterable[tuple[Value, Value]], kind: str, allows: Callable[[Value], bool]
) -> None:
    for key, value in entries:
        _must(key.kind == kind, "{} has the key {}, not of {}", where, key, kind)
        _must(allows(value), "{} has {}", where, value)
        if isinstance(value.it, Said):
            check(value.it)


# Sections of a message (3.2): its parts by their descriptors, in the order in which they come, and what each holds.
_SECTIONS: Final = {
    0x71: (1, "map"), 0x72: (2, "map"), 0x74: (4, "map"), 0x75: (5, "binary"), 0x76: (5, "list"), 0x77: (5, ""),
    0x78: (6, "map"),
}  # fmt: skip
_BY_NAME: Final[dict[object, int]] = {
    "amqp:delivery-annotations:map": 0x71, "amqp:message-annotations:map": 0x72,
    "amqp:application-properties:map": 0x74, "amqp:data:binary": 0x75, "amqp:amqp-sequence:list": 0x76,
    "amqp:amqp-value:*": 0x77, "amqp:footer:map": 0x78,
}  # fmt: skip


def check_message(message: bytes) -> None:
    """Hold the sections of a message of format 0 against 3.2: their order, and their types. Raises Malformed."""
    pos, place, body = 0, -1, 0
    while pos < len(message):
        value, pos = read(message, pos, len(message))
        if isinstance(value.it, Said):
            _must(value.kind in ("header", "properties"), "3.2: a section {}", value.kind)
            here = 0 if value.kind == "header" else 3
            _must(here > place, "3.2: section {} out of turn", value.kind)
            check(value.it)
            place = here
            continue
        _must(value.kind == "described", "3.2: a section of {}", value.kind)
        assert isinstance(value.it, tuple)
        code, kind = _BY_NAME.get(value.it[0].it, value.it[0].it), value.it[1].kind
        _must(code in _SECTIONS, "3.2: a section {}", code)
        here, wanted = _SECTIONS[code]
        is_again = here == place == 5 and code == body and code != 0x77  # several data, or several sequences
        _must(here > place or is_again, "3.2: section {:#x} out of turn", code)
        _must(not wanted or kind == wanted, "3.2: section {:#x} holds {}", code, kind)
        place, body = here, code if here == 5 else body
    _must(body != 0, "3.2: a message without a body")


def _must(holds: bool, text: str, *about: object) -> None:
    if not holds:
        raise Malformed(text.format(*about))
