"""How a value that is not allowed is shown to whoever wrote it, in YAML, JSON, or on a command line."""

from datetime import date
from typing import Final

SEEN_CHARS_MAX: Final = 60  # of a value, in a message


def seen(value: object) -> str:
    """Return a value as a message shows it: quoted when it is text, cut when it is long."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, date):  # which YAML makes of what is tagged so
        return str(value)
    shown = repr(value)
    return shown if len(shown) <= SEEN_CHARS_MAX else shown[: SEEN_CHARS_MAX - 3] + "..."
