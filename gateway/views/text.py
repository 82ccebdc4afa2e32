"""Patterns of names in queries to the admin port (`*` is any characters, `?` is one), and printable text.

Patterns are matched on the event loop, so no pattern may take exponential time: a part between two `*` is matched at
the first place where it fits, and never tried again further on.
"""

import re
from typing import Final


def name_pattern(text: str) -> re.Pattern[str]:
    """Return what matches the names, as a whole, that a pattern is for; an empty one is for all."""
    head, *parts = [re.escape(part).replace(r"\?", ".") for part in (text or "*").split("*")]
    if not parts:
        return re.compile(head, re.DOTALL)
    within = "".join(f"(?>.*?{part})" for part in parts[:-1] if part)
    return re.compile(f"{head}{within}.*{parts[-1]}", re.DOTALL)


# Text of clients as it may stand on a terminal or in a log: one line, and nothing in it that a terminal obeys.
#
# Controls are written out, those of C1 too, which some terminals take for escape sequences, and so is what changes the
# order in which text is shown: a name with a bidirectional mark in it reads like another one.


_BEYOND_ASCII: Final = re.compile(r"[^\x00-\x7e]+")


def counted(number: int, noun: str) -> str:
    """Return a number of things: `1 message`, `2 messages`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def printable(text: str) -> str:
    """Return a text with what cannot be seen written out: a newline is `\\n`, an escape `\\x1b`."""
    if text.isprintable():  # as nearly all are; to look at each character was a quarter of the time of a line
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def quoted(text: str) -> str:
    """Return a text as `printable`, between apostrophes, with those in it and backslashes behind a backslash."""
    within = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{printable(within)}'"


def printable_json(document: str) -> str:
    """Return a document of JSON that says the same, with what cannot be seen as `\\u` and four digits.

    It is also for YAML, where these characters stand between double quotes. What the form escapes anyhow is escaped.
    """
    return _BEYOND_ASCII.sub(_escaped, document)


def _escaped(found: re.Match[str]) -> str:
    run = found[0]
    return run if run.isprintable() else "".join(each if each.isprintable() else _units(each) for each in run)


def _units(character: str) -> str:
    """Return a character as JSON escapes it: by the one or two units that UTF-16 has of it (RFC 8259, section 7)."""
    units = character.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
