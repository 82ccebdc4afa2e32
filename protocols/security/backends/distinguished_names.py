"""Names of entries in a directory, and how two of them are compared (RFC 4514).

What a directory knows of its attributes is not known here: values are the same if they differ in case only.
"""

import re
from typing import Final

Canonical = tuple[frozenset[tuple[str, str]], ...]

_ATTRIBUTE: Final = r" *([A-Za-z][A-Za-z0-9-]*|[0-9]+(?:\.[0-9]+)*) *= *"
_VALUE: Final = r'((?:\\[0-9A-Fa-f]{2}|\\[ "#+,;<=>\\]|[^"+,;<>\\\0])+?) *(,|\+|\Z)'
_PART: Final = re.compile(_ATTRIBUTE + _VALUE, re.DOTALL)
_ESCAPED: Final = re.compile(r"((?:\\[0-9A-Fa-f]{2})+)|\\(.)", re.DOTALL)  # octets of UTF-8, or a character


def values(dn: str) -> list[str]:
    """Return the values of a name from left to right, without escapes. Raises ValueError."""
    return [value for _, value, _ in _parts(dn)]


def canonical(dn: str) -> Canonical:
    """Return what is equal for two spellings of a name. Raises ValueError."""
    relative: list[frozenset[tuple[str, str]]] = []
    pairs: list[tuple[str, str]] = []
    for attribute, value, separator in _parts(dn):
        pairs.append((attribute.lower(), value.lower()))
        if separator != "+":
            relative.append(frozenset(pairs))
            pairs = []
    return tuple(relative)


def _parts(dn: str) -> list[tuple[str, str, str]]:
    """Return attribute, value and the separator that follows."""
    parts: list[tuple[str, str, str]] = []
    at, separator = 0, ","
    while separator:
        found = _PART.match(dn, at)
        if found is None:
            raise ValueError(f"{dn!r} is not the name (DN) of an entry, as cn=NAME,dc=example")
        attribute, value, separator = found.groups()
        parts.append((attribute, _ESCAPED.sub(_character, value), separator))
        at = found.end()
    return parts


def _character(escaped: re.Match[str]) -> str:
    octets, character = escaped.groups()
    return bytes.fromhex(octets.replace("\\", "")).decode(errors="replace") if octets else character
