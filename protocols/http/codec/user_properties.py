"""Typed user properties in header values: `value` is a string, `value; type=int32` a number."""

import re
from typing import Final

from sluicegate.messaging.message.headers import UserPropertyValue
from sluicegate.protocols.http.codec.problems import BAD_REQUEST, HttpProblem

PREFIX: Final = "solace-user-property-"  # lower case, as headers are compared

_INTEGER_BITS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_UNSIGNED_BITS: Final = {"uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64}
_TYPED: Final = re.compile(r"^(.*);\s*type=([A-Za-z0-9]+)\s*$", re.DOTALL)
_DECIMAL: Final = re.compile(r"^[+-]?[0-9]{1,20}$")


def property_value(name: str, text: str) -> UserPropertyValue:
    """Return the value of a user property. Raises HttpProblem."""
    typed = _TYPED.match(text)
    if typed is None:
        return text
    value: str = typed.group(1).strip()
    kind: str = typed.group(2).lower()
    if kind == "string":
        return value
    if kind in _INTEGER_BITS:
        bits = _INTEGER_BITS[kind]
        return _integer(name, value, kind, -(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    if kind in _UNSIGNED_BITS:
        return _integer(name, value, kind, 0, (1 << _UNSIGNED_BITS[kind]) - 1)
    if kind in ("float", "double"):
        try:
            return float(value)
        except ValueError:
            raise _refused(name, f"{value!r:.80} is no number") from None
    if kind == "boolean":
        if value.lower() not in ("true", "false"):
            raise _refused(name, f"{value!r:.80} is neither true nor false")
        return value.lower() == "true"
    allowed = ", ".join(["string", "boolean", "float", "double", *_INTEGER_BITS, *_UNSIGNED_BITS])
    raise _refused(name, f"the type {kind!r:.80} is none of {allowed}")


def _integer(name: str, value: str, kind: str, low: int, high: int) -> int:
    if _DECIMAL.match(value) is None:
        raise _refused(name, f"{value!r:.80} is no whole number")
    number = int(value)
    if not low <= number <= high:
        raise _refused(name, f"{value} is no {kind}: {low} to {high}")
    return number


def _refused(name: str, why: str) -> HttpProblem:
    return HttpProblem(BAD_REQUEST, f"user property {name!r:.80}: {why}")
