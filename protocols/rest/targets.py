"""Request targets: the path of a request to a REST consumer, with substitution expressions.

    /orders/${userProperty("region")}/${topic(2)}

The value of an expression is percent-encoded; it is empty if the message does not have it. It must not lead out of the
path: `..` would, because web servers go up the path by it, also where it or the `/` beside it is percent-encoded.
"""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

from sluicegate.protocols.http.consuming.unsettled import UnsettledMessage

TARGET_CHARS_MAX: Final = 8_000  # what web servers take of a request line

_EXPRESSION: Final = re.compile(r"\$\{([^}]*)\}")
_CALL: Final = re.compile(r'^\s*([A-Za-z]+)\(\s*(?:"([^"]*)"|([0-9]{1,4}))?\s*\)\s*$')
_DOTS: Final = frozenset((".", ".."))  # levels of a path that stand for others (RFC 3986 5.2.4)
_BETWEEN: Final = re.compile(r"[/\\]")  # levels; nginx looks for them in the decoded path, Windows takes both
_WITHOUT: Final = ("correlationId", "messageId", "partitionKey", "timestamp", "topic")
_FORMS: Final = (*[f"{name}()" for name in _WITHOUT], "topic(LEVEL)", 'userProperty("NAME")')


class TargetInvalid(ValueError):
    """A text is no request target, or a message makes none; it says why."""


@dataclass(frozen=True, slots=True)
class Target:
    """A request target. `pieces` are texts, and (function, argument) for expressions."""

    text: str
    pieces: tuple[str | tuple[str, str], ...]

    def path(self, message: UnsettledMessage) -> str:
        """Return the target for a message. Raises TargetInvalid."""
        if len(self.pieces) == 1:
            return self.text
        made = "".join([each if isinstance(each, str) else _value(each[0], each[1], message) for each in self.pieces])
        if not _DOTS.isdisjoint(_BETWEEN.split(unquote(made.partition("?")[0]))):
            raise TargetInvalid(f"{self.text:.80} would be {made:.80} for this message, which leads out of the path")
        return made


def parse_target(text: str, *, evaluates: bool) -> Target:
    """Return a target; with `evaluates` it may hold expressions. Raises TargetInvalid."""
    if not text.startswith("/") or len(text) > TARGET_CHARS_MAX:
        raise TargetInvalid(f"{text!r:.80} is no path: it begins with / and has at most {TARGET_CHARS_MAX} characters")
    if not text.isascii() or any(each <= " " or each == "\x7f" for each in _EXPRESSION.sub("", text)):
        raise TargetInvalid(f"{text!r:.80} has characters that a path has percent-encoded")
    if not evaluates:
        return Target(text, (text,))
    pieces: list[str | tuple[str, str]] = []
    end = 0
    for found in _EXPRESSION.finditer(text):
        pieces += [text[end : found.start()], _call(found.group(1))]
        end = found.end()
    rest = text[end:]
    if "${" in rest:
        raise TargetInvalid(f"{text!r:.80} has an expression without its end")
    return Target(text, (*pieces, rest))


def _call(text: str) -> tuple[str, str]:
    call = _CALL.match(text)
    if call is not None:
        name, quoted, number = call.groups()
        if name == "userProperty" and quoted:
            return name, quoted
        if name == "topic" and number and int(number) > 0:
            return name, number
        if name in _WITHOUT and quoted is None and number is None:
            return name, ""
    raise TargetInvalid(f"${{{text:.80}}} is no expression; allowed: {', '.join(_FORMS)}")


def _value(function: str, argument: str, message: UnsettledMessage) -> str:
    if function == "topic":
        topic = message.batch.topic_of(message.row)
        if not argument:
            return quote(topic, safe="/")
        levels = topic.split("/")
        return quote(levels[int(argument) - 1], safe="") if int(argument) <= len(levels) else ""
    headers = message.batch.headers_of(message.row)
    if headers is None:
        return ""
    found: object = None
    if function == "correlationId":
        found = None if headers.correlation is None else headers.correlation.decode("utf-8", "replace")
    elif function == "messageId":
        found = headers.message_id
    elif function == "partitionKey":
        found = headers.partition_key
    elif function == "timestamp":
        found = headers.timestamp_ms or None
    else:
        values = [value for name, value in headers.user_properties or [] if name == argument]
        found = values[0] if values else None
    return "" if found is None else quote(str(found), safe="")
