"""The fields of a performative, a terminus or an outcome, read one by one with their types checked (1.4)."""

from typing import final

from sluicegate.protocols.amqp.types.errors import DecodeError
from sluicegate.protocols.amqp.types.values import (
    UBYTE,
    UINT,
    ULONG,
    USHORT,
    AmqpArray,
    AmqpMap,
    AmqpValue,
    Scalar,
    Symbol,
)


@final
class Fields:
    """A described list by position. A field that is missing at the end and a null are the same: the default.

    Extra fields at the end are passed over: a later revision may add some.
    """

    def __init__(self, name: str, values: list[AmqpValue]) -> None:
        self._name = name  # of the composite, for the text of errors
        self._values = values

    def value(self, index: int) -> AmqpValue:
        """Return a field of any type."""
        return self._values[index] if index < len(self._values) else None

    def number(self, index: int, field: str, kind: int, default: int) -> int:
        """Return an unsigned integer of the given type."""
        value = self.value(index)
        if value is None:
            return default
        if not isinstance(value, Scalar) or value.kind != kind or not isinstance(value.value, int):
            raise self._wrong(field, value)
        return value.value

    def uint(self, index: int, field: str, default: int) -> int:
        """Return a uint."""
        return self.number(index, field, UINT, default)

    def uint_required(self, index: int, field: str) -> int:
        """Return a uint that has to be there."""
        return self.number(index, field, UINT, self._required(index, field))

    def ulong(self, index: int, field: str, default: int) -> int:
        """Return a ulong."""
        return self.number(index, field, ULONG, default)

    def ushort(self, index: int, field: str, default: int) -> int:
        """Return a ushort."""
        return self.number(index, field, USHORT, default)

    def ubyte(self, index: int, field: str, default: int) -> int:
        """Return a ubyte."""
        return self.number(index, field, UBYTE, default)

    def flag(self, index: int, field: str, *, default: bool) -> bool:
        """Return a boolean."""
        value = self.value(index)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self._wrong(field, value)
        return value

    def flag_required(self, index: int, field: str) -> bool:
        """Return a boolean that has to be there."""
        return self.flag(index, field, default=bool(self._required(index, field)))

    def text(self, index: int, field: str) -> str | None:
        """Return a string, or None."""
        value = self.value(index)
        if value is not None and not isinstance(value, str):
            raise self._wrong(field, value)
        return value

    def text_required(self, index: int, field: str) -> str:
        """Return a string that has to be there."""
        self._required(index, field)
        text = self.text(index, field)
        assert text is not None, "that it is there was checked"
        return text

    def symbol(self, index: int, field: str) -> str | None:
        """Return a symbol's text, or None."""
        value = self.value(index)
        if value is None:
            return None
        if not isinstance(value, Symbol):
            raise self._wrong(field, value)
        return value.text

    def symbol_required(self, index: int, field: str) -> str:
        """Return the text of a symbol that has to be there."""
        self._required(index, field)
        text = self.symbol(index, field)
        assert text is not None, "that it is there was checked"
        return text

    def symbols(self, index: int, field: str) -> list[str]:
        """Return a `multiple` field: null, one bare symbol, or an array, all alike (1.4)."""
        value = self.value(index)
        if value is None:
            return []
        if isinstance(value, Symbol):
            return [value.text]
        names: list[str] = []
        if not isinstance(value, AmqpArray):
            raise self._wrong(field, value)
        for item in value.items:
            if not isinstance(item, Symbol):
                raise self._wrong(field, item)
            names.append(item.text)
        return names

    def binary(self, index: int, field: str) -> bytes | None:
        """Return binary data, or None."""
        value = self.value(index)
        if value is not None and not isinstance(value, bytes):
            raise self._wrong(field, value)
        return value

    def binary_required(self, index: int, field: str) -> bytes:
        """Return binary data that has to be there."""
        self._required(index, field)
        data = self.binary(index, field)
        assert data is not None, "that it is there was checked"
        return data

    def map(self, index: int, field: str) -> AmqpMap | None:
        """Return a map, or None."""
        value = self.value(index)
        if value is not None and not isinstance(value, AmqpMap):
            raise self._wrong(field, value)
        return value

    def _required(self, index: int, field: str) -> int:
        if self.value(index) is None:
            raise DecodeError(f"{self._name} without its mandatory field {field}")
        return 0

    def _wrong(self, field: str, value: AmqpValue) -> DecodeError:
        return DecodeError(f"{self._name}.{field} has the wrong type: {value!r:.80}")
