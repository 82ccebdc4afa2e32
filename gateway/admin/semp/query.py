"""The query of a SEMP request: which objects, which of their attributes, and how many at a time.

`select=a,b*,-c` names attributes and collections, with `*` for any characters; a leading `-` leaves one out. `where=
a==x*,b>5` wants objects of which all this holds: `==` and `!=` for texts, with `*`, and all of `== != < <= > >=` for
numbers. `count` is how many, `cursor` where to go on. Commas and operators within a value are percent-encoded.

What attributes there are is a matter of `queue_objects` and `client_objects`.
"""

import base64
import binascii
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from sluicegate.gateway.admin.semp.errors import invalid_parameter

COUNT_DEFAULT: Final = 10
COUNT_MAX: Final = 100
CLAUSES_MAX: Final = 32  # of one `select` or `where`
QUERY_CHARS_MAX: Final = 8192
PARAMETERS: Final = ("select", "where", "count", "cursor")
PARAMETERS_OF_OBJECTS: Final = ("select",)

Value = str | int | bool | Mapping[str, int]

_CLAUSE: Final = re.compile(r"([A-Za-z][A-Za-z0-9.]*)(==|!=|<=|>=|<|>)(.*)", re.DOTALL)
_NAME: Final = re.compile(r"-?[A-Za-z*][A-Za-z0-9*.]*")


@dataclass(frozen=True, slots=True)
class Clause:
    """One condition of `where`."""

    attribute: str
    operator: str
    operand: str

    def holds(self, value: Value) -> bool:
        """Return whether a value meets the condition. Raises SempError if the operator does not apply to it."""
        if isinstance(value, bool):
            return _equal(self, "true" if value else "false")
        if isinstance(value, int):
            return _compared(self, value)
        if isinstance(value, str):
            return _equal(self, value)
        raise invalid_parameter(f"where: {self.attribute!r} has several parts, and cannot be compared")


@dataclass(frozen=True, slots=True)
class Selection:
    """The attributes and collections to return: those wanted, or all except those left out."""

    wanted: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        """Return whether an attribute or collection is selected."""
        chosen = not self.wanted or any(_matches(pattern, name) for pattern in self.wanted)
        return chosen and not any(_matches(pattern, name) for pattern in self.left_out)


@dataclass(frozen=True, slots=True)
class SempQuery:
    """The parsed query of a request."""

    selection: Selection = Selection()
    clauses: tuple[Clause, ...] = ()
    count: int = COUNT_DEFAULT
    after: str | None = None  # the key of the last object of the previous page


def read_query(raw: str, names: Collection[str], *, of_collection: bool) -> SempQuery:
    """Parse a query string. `names` are the known attributes and collections. Raises SempError."""
    if len(raw) > QUERY_CHARS_MAX:
        raise invalid_parameter(f"the query has {len(raw)} characters; allowed: {QUERY_CHARS_MAX}")
    given: dict[str, str] = {}
    allowed = PARAMETERS if of_collection else PARAMETERS_OF_OBJECTS
    for part in filter(None, raw.split("&")):
        name, _, text = part.partition("=")
        if name not in allowed:
            raise invalid_parameter(f"unknown parameter {unquote(name)!r}; allowed: {', '.join(allowed)}")
        if name in given:
            raise invalid_parameter(f"the parameter {name!r} is given twice")
        given[name] = text
    return SempQuery(
        selection=_selection(given.get("select", ""), names),
        clauses=_clauses(given.get("where", ""), names),
        count=_count(given.get("count")),
        after=_after(given.get("cursor")),
    )


def cursor_after(key: str) -> str:
    """Return the cursor of the page that starts after the object of this key."""
    return base64.urlsafe_b64encode(key.encode()).decode("ascii").rstrip("=")


def page_of(keys: Sequence[str], query: SempQuery) -> tuple[list[str], str | None]:
    """Return the keys of a page of those, which are in order, and the cursor of the next one, if there is one.

    A cursor names the last key before it: objects that come and go in between neither repeat others nor hide them.
    """
    rest = [key for key in keys if query.after is None or key > query.after]
    page = rest[: query.count]
    return page, cursor_after(page[-1]) if len(rest) > len(page) else None


def _selection(text: str, names: Collection[str]) -> Selection:
    wanted: list[str] = []
    left_out: list[str] = []
    for part in _parts("select", text.replace("%2C", ",").replace("%2c", ",")):  # no name has one
        if not _NAME.fullmatch(part):
            raise invalid_parameter(f"select: {part!r} is not the name of an attribute")
        name = part.removeprefix("-")
        if not any(_matches(name, each) for each in names):
            raise invalid_parameter(f"select: unknown attribute {name!r}; allowed: {', '.join(names)}")
        (left_out if part.startswith("-") else wanted).append(name)
    return Selection(tuple(wanted), tuple(left_out))


def _clauses(text: str, names: Collection[str]) -> tuple[Clause, ...]:
    clauses = []
    for part in _parts("where", text):
        found = _CLAUSE.fullmatch(part)
        if found is None:
            raise invalid_parameter(f"where: {part!r} is not of the form NAME==VALUE; operators: == != < <= > >=")
        if found[1] not in names:
            raise invalid_parameter(f"where: unknown attribute {found[1]!r}; allowed: {', '.join(names)}")
        clauses.append(Clause(found[1], found[2], found[3]))
    return tuple(clauses)


def _parts(parameter: str, text: str) -> list[str]:
    """Split a text at commas, and decode the parts, which may contain encoded commas."""
    parts = text.split(",") if text else []
    if len(parts) > CLAUSES_MAX:
        raise invalid_parameter(f"{parameter}: there are {len(parts)} parts; allowed: {CLAUSES_MAX}")
    try:
        return [unquote(part, errors="strict") for part in parts]
    except UnicodeDecodeError:
        raise invalid_parameter(f"{parameter}: {text!r} is not percent-encoded UTF-8") from None


def _count(text: str | None) -> int:
    if text is None:
        return COUNT_DEFAULT
    if text.isascii() and text.isdigit() and len(text) <= 9 and 1 <= int(text) <= COUNT_MAX:
        return int(text)
    raise invalid_parameter(f"count: {unquote(text)!r} is not allowed; allowed: 1 to {COUNT_MAX}")


def _after(text: str | None) -> str | None:
    if text is None:
        return None
    padded = unquote(text) + "=" * (-len(unquote(text)) % 4)
    try:
        return base64.b64decode(padded, b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        allowed = "the value of paging.cursorQuery in a response"
        raise invalid_parameter(f"cursor: it is invalid; allowed: {allowed}") from None


def _matches(pattern: str, name: str) -> bool:
    """Return whether a name, or its parent, matches a pattern."""
    return _like(pattern, name) or name.startswith(f"{pattern}.")


def _equal(clause: Clause, value: str) -> bool:
    if clause.operator not in ("==", "!="):
        raise invalid_parameter(f"where: {clause.attribute!r} is not a number; allowed: == and !=")
    matches = _like(clause.operand, value)
    return matches if clause.operator == "==" else not matches


def _like(pattern: str, value: str) -> bool:
    """Return whether a text matches a pattern, in time that is bounded by their lengths for every pattern."""
    head, *rest = pattern.split("*")
    if not rest:
        return value == pattern
    if not value.startswith(head):
        return False
    at = len(head)
    for part in rest[:-1]:
        found = value.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return len(value) - len(rest[-1]) >= at and value.endswith(rest[-1])


def _compared(clause: Clause, value: int) -> bool:
    operand = clause.operand
    if not (operand.isascii() and operand.removeprefix("-").isdigit() and len(operand) <= 20):
        raise invalid_parameter(f"where: {clause.attribute!r} is a number, but {operand!r} is not")
    wanted = int(operand)
    return {
        "==": value == wanted,
        "!=": value != wanted,
        "<": value < wanted,
        "<=": value <= wanted,
        ">": value > wanted,
        ">=": value >= wanted,
    }[clause.operator]
