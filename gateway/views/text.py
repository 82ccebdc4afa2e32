"""Patterns of names in queries to the admin port (`*` is any characters, `?` is one), and printable text.

Patterns are matched on the event loop, so no pattern may take exponential time: a part between two `*` is matched at
the first place where it fits, and never tried again further on.
"""

import re
from typing import Final


def name_pattern(text: str) -> re.Pattern[str]:
    """Return a regular expression that fully matches the names of a pattern; an empty pattern matches all."""
    head, *parts = [re.escape(part).replace(r"\?", ".") for part in (text or "*").split("*")]
    if not parts:
        return re.compile(head, re.DOTALL)
    within = "".join(f"(?>.*?{part})" for part in parts[:-1] if part)
    return re.compile(f"{head}{within}.*{parts[-1]}", re.DOTALL)


# --- text of clients, made safe for a terminal or a log: one line without control characters ---
#
# Control characters are escaped, those of C1 too, which some terminals take for escape sequences. So are bidirectional
# marks, which change the order of the text shown: a name with one reads like another name.


_BEYOND_ASCII: Final = re.compile(r"[^\x00-\x7e]+")


def counted(number: int, noun: str) -> str:
    """Return a number of things: `1 message`, `2 messages`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def printable(text: str) -> str:
    """Return a text with invisible characters escaped: a newline is `\\n`, an escape `\\x1b`."""
    if text.isprintable():  # nearly all are; a check of each character took a quarter of the time of a line
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def quoted(text: str) -> str:
    """Return a text as `printable`, in apostrophes; a backslash escapes apostrophes and backslashes in it."""
    within = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{printable(within)}'"


def printable_json(document: str) -> str:
    """Return the same JSON document with invisible characters as `\\u` and four digits.

    It works for YAML, too, where these characters stand in double quotes. Characters that JSON escapes stay escaped.
    """
    return _BEYOND_ASCII.sub(_escaped, document)


def _escaped(found: re.Match[str]) -> str:
    run = found[0]
    return run if run.isprintable() else "".join(each if each.isprintable() else _units(each) for each in run)


def _units(character: str) -> str:
    """Return a character as JSON escapes it: by its one or two UTF-16 code units (RFC 8259, section 7)."""
    units = character.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
