"""Values of queue attributes and sizes as texts: YAML reads `yes` as a boolean, and the environment has only texts."""

import re
from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator

from sluicegate.messaging.queues.attributes import ATTRIBUTE_BY_NAME, FLAG, NUMBER

_TRUTHS: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}  # as pydantic's


def plain_values(given: Mapping[str, object]) -> dict[str, object]:
    """Return the attributes of a queue or template, with texts converted to numbers and booleans."""
    return {str(name): plain_value(str(name), value) for name, value in given.items()}


def plain_value(name: str, value: object) -> object:
    """Return the value of a text for this attribute; other values, and texts without one, unchanged."""
    attribute = ATTRIBUTE_BY_NAME.get(name)
    if attribute is None or not isinstance(value, str):
        return value
    if attribute.kind == NUMBER and value.isascii() and value.isdigit() and len(value) <= 20:
        return int(value)
    if attribute.kind == FLAG:
        return _TRUTHS.get(value.lower(), value)
    return value


# --- sizes: `16 GiB`, `256MB`, `1.5 MiB`, or a plain number of bytes ---


UNITS: Final[dict[str, int]] = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
}
KIB: Final = 1 << 10
MIB: Final = 1 << 20
GIB: Final = 1 << 30
TIB: Final = 1 << 40

_UNIT_BY_LOWER: Final = {unit.lower(): size for unit, size in UNITS.items()}
_SIZE: Final = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,9}))?\s*([a-z]*)", re.IGNORECASE)


def parse_size(text: str) -> int:
    """Return the bytes of a text; units count by 1000 (`MB`) or 1024 (`MiB`), in any case. Raises ValueError."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a size")
    whole, fraction, unit = match.groups()
    factor = _UNIT_BY_LOWER.get(unit.lower() or "b")
    if factor is None:
        raise ValueError(f"{unit!r} is not a unit; the units are {', '.join(UNITS)}")
    size = int(whole) * factor
    if fraction:
        # In whole numbers: as a float, 0.1 GB is not exact.
        part, rest = divmod(int(fraction) * factor, 10 ** len(fraction))
        if rest:
            raise ValueError(f"{text!r} is not a whole number of bytes")
        size += part
    return size


def format_size(size: int) -> str:
    """Return a size in the largest unit in which it is a whole number: the inverse of `parse_size`."""
    for unit in ("TiB", "TB", "GiB", "GB", "MiB", "MB", "KiB", "kB"):
        if size and size % UNITS[unit] == 0:
            return f"{size // UNITS[unit]} {unit}"
    return f"{size} B"


def rounded_size(size: float) -> str:
    """Return a rounded size, for display: `1.4 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def _to_bytes(value: object) -> object:
    return parse_size(value) if isinstance(value, str) else value


Size = Annotated[int, BeforeValidator(_to_bytes)]


# --- Server Reference of MQTT 5.0: names or addresses of servers, each with a port or without (section 4.11) ---

REFERENCE_CHARS_MAX: Final = 1024
_REFERENCE: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[^\s:\[\]/]+)(?::([0-9]{1,5}))?")


def _reference(text: str) -> str:
    """Return the servers with one blank between them. Raises ValueError."""
    if len(text) > REFERENCE_CHARS_MAX:
        raise ValueError(f"it has {len(text)} characters; allowed: {REFERENCE_CHARS_MAX}")
    servers = text.split()
    for server in servers:
        match = _REFERENCE.fullmatch(server)
        if match is None or not 0 < int(match[1] or 1) < 65_536:
            raise ValueError(f"{server!r} is no server; allowed: HOST, HOST:PORT, or [IPV6-ADDRESS]:PORT")
    return " ".join(servers)


ServerReference = Annotated[str, AfterValidator(_reference)]
