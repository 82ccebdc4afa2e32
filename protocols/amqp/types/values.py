"""AMQP values as Python objects: the results of decoding and the input of encoding.

Python has one kind of integer, AMQP has eight, and a value that is passed on has to keep its own. So plain objects
stand for the type that is most used, and everything else carries its type:

    None null       bool boolean    str string      bytes binary     list list
    int  long       float double    Symbol symbol   AmqpMap map      AmqpArray array
    Scalar          every other primitive: its constructor's type, and a number or the raw bytes
    Described       a descriptor and a value

A message's body is never decoded: it travels as the bytes it came in.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias, final

# Types of Scalar: the widest constructor of each (1.6), whichever one was on the wire.
UBYTE: Final = 0x50
BYTE: Final = 0x51
USHORT: Final = 0x60
SHORT: Final = 0x61
UINT: Final = 0x70
INT: Final = 0x71
FLOAT: Final = 0x72
CHAR: Final = 0x73
DECIMAL32: Final = 0x74
ULONG: Final = 0x80
TIMESTAMP: Final = 0x83
DECIMAL64: Final = 0x84
DECIMAL128: Final = 0x94
UUID: Final = 0x98

SCALAR_NAMES: Final[dict[int, str]] = {
    UBYTE: "ubyte",
    BYTE: "byte",
    USHORT: "ushort",
    SHORT: "short",
    UINT: "uint",
    INT: "int",
    FLOAT: "float",
    CHAR: "char",
    DECIMAL32: "decimal32",
    ULONG: "ulong",
    TIMESTAMP: "timestamp",
    DECIMAL64: "decimal64",
    DECIMAL128: "decimal128",
    UUID: "uuid",
}


@final
class Symbol:
    """A symbol (1.6.21): a name from a closed vocabulary, in ASCII."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Symbol) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Symbol({self.text!r})"


@final
class Scalar:
    """A primitive of a type that has no Python type of its own."""

    __slots__ = ("kind", "value")

    def __init__(self, kind: int, value: int | float | bytes) -> None:
        self.kind = kind
        self.value = value  # bytes for the decimals and uuid, a float for FLOAT, an int for the rest

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Scalar) or other.kind != self.kind:
            return False
        return other.value == self.value or (other.value != other.value and self.value != self.value)  # NaN is NaN

    def __hash__(self) -> int:
        return hash((self.kind, self.value))

    def __repr__(self) -> str:
        return f"{SCALAR_NAMES[self.kind]}({self.value!r})"


@final
class Described:
    """A value with a descriptor (1.2), which says what it means."""

    __slots__ = ("descriptor", "value")

    def __init__(self, descriptor: "AmqpValue", value: "AmqpValue") -> None:
        self.descriptor = descriptor
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Described) and other.descriptor == self.descriptor and other.value == self.value

    __hash__ = None  # type: ignore[assignment]  # its value may be a list

    def __repr__(self) -> str:
        return f"Described({self.descriptor!r}, {self.value!r})"


@final
class AmqpMap:
    """A map (1.6.23): pairs in the order sent, each key once."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: "Sequence[tuple[AmqpValue, AmqpValue]]") -> None:
        self.pairs: list[tuple[AmqpValue, AmqpValue]] = list(pairs)

    def symbol(self, name: str) -> "AmqpValue":
        """Return the value under a symbol, None when there is none."""
        for key, value in self.pairs:
            if isinstance(key, Symbol) and key.text == name:
                return value
        return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AmqpMap) and other.pairs == self.pairs

    __hash__ = None  # type: ignore[assignment]  # it can be changed

    def __repr__(self) -> str:
        return f"AmqpMap({self.pairs!r})"


@final
class AmqpArray:
    """An array (1.6.24): values of one type, named once."""

    __slots__ = ("constructor", "descriptor", "items")

    def __init__(self, constructor: int, items: "Sequence[AmqpValue]", descriptor: "AmqpValue" = None) -> None:
        self.constructor = constructor  # the code on the wire; kept, for an empty array has a type too
        self.items: list[AmqpValue] = list(items)
        self.descriptor = descriptor  # of every item; None: they are not described

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, AmqpArray)
            and other.constructor == self.constructor
            and other.items == self.items
            and other.descriptor == self.descriptor
        )

    __hash__ = None  # type: ignore[assignment]  # its items can be changed

    def __repr__(self) -> str:
        return f"AmqpArray({self.constructor:#04x}, {self.items!r})"


AmqpValue: TypeAlias = (
    bool | int | float | str | bytes | Symbol | Scalar | Described | AmqpMap | AmqpArray | list["AmqpValue"] | None
)


def uint(value: int) -> Scalar:
    """Return a uint."""
    return Scalar(UINT, value)


def ulong(value: int) -> Scalar:
    """Return a ulong."""
    return Scalar(ULONG, value)


def ubyte(value: int) -> Scalar:
    """Return a ubyte."""
    return Scalar(UBYTE, value)


def ushort(value: int) -> Scalar:
    """Return a ushort."""
    return Scalar(USHORT, value)


def timestamp(ms: int) -> Scalar:
    """Return a timestamp, in milliseconds since the Unix epoch."""
    return Scalar(TIMESTAMP, ms)


def symbols(names: Sequence[str]) -> AmqpValue:
    """Return the form of a `multiple` field: null, one symbol, or an array of them (1.4)."""
    if not names:
        return None
    if len(names) == 1:
        return Symbol(names[0])
    return AmqpArray(0xA3, [Symbol(name) for name in names])
