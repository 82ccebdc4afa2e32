"""Search filters that a configuration has, with places for what a login fills in (RFC 4515)."""

import re
from typing import Final

USER, ENTRY = "{username}", "{dn}"

# An attribute, perhaps with the rule of the match, and a whole value that has the name of the user.
_EQUALITY: Final = re.compile(r"\( *([A-Za-z0-9][A-Za-z0-9.;_-]*) *(?::[^()=]*)?=([^()*]*\{username\}[^()*]*)\)")
_ESCAPED: Final = re.compile(r"((?:\\[0-9A-Fa-f]{2})+)")
_TO_ESCAPE: Final = re.compile(r"[*()\\\0]")


def filled(pattern: str, user_name: str, dn: str = "") -> str:
    """Return a filter for a user and the name of its entry, which are escaped."""
    given = {USER: _escape(user_name), ENTRY: _escape(dn)}
    return re.sub(r"\{(?:username|dn)\}", lambda place: given[place[0]], pattern)


def naming_attributes(pattern: str) -> list[str]:
    """Return the attributes that a filter compares with the name of the user, as a whole."""
    return [attribute for attribute, _ in _EQUALITY.findall(pattern)]


def names(pattern: str, user_name: str) -> set[str]:
    """Return the values of these attributes that the user's entry may have, spelled as the user's name is."""
    return {_plain(value).replace(USER, user_name) for _, value in _EQUALITY.findall(pattern)}


def _escape(value: str) -> str:
    return _TO_ESCAPE.sub(lambda character: f"\\{ord(character[0]):02x}", value)


def _plain(value: str) -> str:
    return _ESCAPED.sub(lambda octets: bytes.fromhex(octets[0].replace("\\", "")).decode(errors="replace"), value)
