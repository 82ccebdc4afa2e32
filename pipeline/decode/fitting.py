"""Checks whether a value of JSON, or a cell of CSV, fits a column.

Arrow itself would cut 1.5 to 1, take `true` for 1.0, and a number for microseconds since 1970.
"""

import re
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any, Final, TypeAlias

import pyarrow as pa

from sluicegate.pipeline.decode.decoder import ArrowType, SchemaError, Undecodable

Fit: TypeAlias = Callable[[Any, str], Any]  # the value, and where it stands; raises Undecodable
SHOWN_CHARACTERS_MAX: Final = 60  # of a value that does not fit
EXACT_MAX: Final = float(1 << 53)  # beyond, a float may be another number than was written
FLOATING_MAX: Final = {32: 3.4028234663852886e38, 64: sys.float_info.max}  # by bits; beyond is infinity

INTEGER: Final = re.compile(r"[+-]?[0-9]{1,20}")
# A digit fits in one place only: a search through all ways to share out a megabyte of them would not end.
NUMBER: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")


def fit_for(kind: ArrowType) -> Fit:
    """Return the function that fits values to a type, without guesses; null fits all types. Raises SchemaError."""
    if pa.types.is_struct(kind):
        return _struct(kind)
    if pa.types.is_list(kind):
        return _list(kind)
    if pa.types.is_map(kind):
        return _map(kind)
    for matches, make in _SCALARS:
        if matches(kind):
            return make(kind)
    raise SchemaError(
        f"the type {kind} is not for texts; allowed are string, boolean, tinyint, smallint, int, bigint, float, double,"
        " timestamp, date, and array, map and struct of these"
    )


def reading_of_cells(kind: ArrowType) -> Fit:
    """Return the function that parses a cell of CSV into a value for `fit_for`."""
    if pa.types.is_integer(kind):
        return _integer_in
    if pa.types.is_floating(kind):
        return _number_in
    return _boolean_in if pa.types.is_boolean(kind) else _cell_itself


def _integer_in(cell: Any, place: str) -> Any:
    return int(cell) if INTEGER.fullmatch(cell) else _unfit("a whole number", cell, place)


def _number_in(cell: Any, place: str) -> Any:
    return float(cell) if NUMBER.fullmatch(cell) else _number(cell, place)


def _boolean_in(cell: Any, place: str) -> Any:
    found = _BOOLEANS.get(cell.lower())
    return _unfit("true or false", cell, place) if found is None else found


def _cell_itself(cell: Any, place: str) -> Any:
    return cell


_BOOLEANS: Final = {"true": True, "false": False}


def _unfit(wanted: str, value: Any, place: str) -> Any:
    shown = repr(value)
    if len(shown) > SHOWN_CHARACTERS_MAX:
        shown = f"{shown[:SHOWN_CHARACTERS_MAX]}..."
    raise Undecodable(f"{place} is {shown}, and {wanted} is wanted")


def _text(kind: ArrowType) -> Fit:
    def fit(value: Any, place: str) -> Any:
        return value if value is None or isinstance(value, str) else _unfit("a text", value, place)

    return fit


def _boolean(kind: ArrowType) -> Fit:
    def fit(value: Any, place: str) -> Any:
        return value if value is None or isinstance(value, bool) else _unfit("true or false", value, place)

    return fit


def _whole(kind: ArrowType) -> Fit:
    bound = 1 << (kind.bit_width - 1)

    def fit(value: Any, place: str) -> Any:
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer() and -EXACT_MAX <= value <= EXACT_MAX:
            value = int(value)  # JSON has one kind of numbers: 3.0 is 3
        if not isinstance(value, int) or isinstance(value, bool) or not -bound <= value < bound:
            return _unfit(f"a whole number of {kind.bit_width} bits", value, place)
        return value

    return fit


def _floating(kind: ArrowType) -> Fit:
    bound = FLOATING_MAX[kind.bit_width]

    def fit(value: Any, place: str) -> Any:
        if value is None:
            return None
        if not isinstance(value, float | int) or isinstance(value, bool):
            return _number(value, place)
        return float(value) if -bound <= value <= bound else _unfit(f"a number of {kind.bit_width} bits", value, place)

    return fit


def _number(value: Any, place: str) -> Any:
    return _unfit("a number", value, place)


def _timestamp(kind: ArrowType) -> Fit:
    """Read a time; without a zone it is in UTC. Python's years end with 9999."""

    def fit(value: Any, place: str) -> Any:
        if value is None:
            return None
        try:
            found = datetime.fromisoformat(value)
            return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
        except (TypeError, ValueError, OverflowError):
            return _unfit("a time such as 2026-03-04T05:06:07.890Z", value, place)

    return fit


def _date(kind: ArrowType) -> Fit:
    def fit(value: Any, place: str) -> Any:
        if value is None:
            return None
        try:
            return date.fromisoformat(value)
        except (TypeError, ValueError):
            return _unfit("a day such as 2026-03-04", value, place)

    return fit


def _struct(kind: ArrowType) -> Fit:
    fits = [(field.name, fit_for(field.type)) for field in kind]

    def fit(value: Any, place: str) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict):
            return _unfit("an object", value, place)
        return {name: each(value.get(name), f"{place}.{name}" if place else name) for name, each in fits}

    return fit


def _list(kind: ArrowType) -> Fit:
    each = fit_for(kind.value_type)

    def fit(value: Any, place: str) -> Any:
        if value is None:
            return None
        if not isinstance(value, list):
            return _unfit("an array", value, place)
        return [each(item, f"{place}[{at}]") for at, item in enumerate(value)]

    return fit


def _map(kind: ArrowType) -> Fit:
    if not pa.types.is_string(kind.key_type):
        raise SchemaError(f"a map has texts for keys, not {kind.key_type}")
    each = fit_for(kind.item_type)

    def fit(value: Any, place: str) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict):
            return _unfit("an object", value, place)
        return [(key, each(item, f"{place}.{key}")) for key, item in value.items()]

    return fit


_SCALARS: Final[tuple[tuple[Callable[[ArrowType], bool], Callable[[ArrowType], Fit]], ...]] = (
    (pa.types.is_string, _text),
    (pa.types.is_boolean, _boolean),
    (pa.types.is_integer, _whole),
    (pa.types.is_floating, _floating),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_date, _date),
)
