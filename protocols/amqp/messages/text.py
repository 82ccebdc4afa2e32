"""AMQP values as consumers of other protocols see them: text, JSON, and the types of user properties."""

import base64
import uuid
from typing import TypeAlias

from sluicegate.messaging.message.headers import UserPropertyValue
from sluicegate.protocols.amqp.types.values import (
    CHAR,
    UUID,
    AmqpArray,
    AmqpMap,
    AmqpValue,
    Described,
    Scalar,
    Symbol,
)

Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None


def text_form(value: AmqpValue) -> str:
    """Return a value as text: what an id or a map's key becomes where only text is possible."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.hex()
    plain = user_value(value)
    if isinstance(plain, bytes):
        return plain.hex()
    return "" if plain is None else str(plain)


def user_value(value: AmqpValue) -> UserPropertyValue:
    """Return a value as a user property's: numbers stay numbers, what has no such type becomes text."""
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return value
    if isinstance(value, Symbol):
        return value.text
    if isinstance(value, Scalar):
        content = value.value
        if isinstance(content, bytes):
            return str(uuid.UUID(bytes=content)) if value.kind == UUID else content.hex()
        if value.kind == CHAR and isinstance(content, int):
            return chr(content)
        return content
    return str(json_form(value))


def json_form(value: AmqpValue) -> Json:
    """Return a value as JSON has it: binary in base64, a map's keys as text."""
    if isinstance(value, AmqpMap):
        return {text_form(key): json_form(its) for key, its in value.pairs}
    if isinstance(value, AmqpArray):
        return [json_form(item) for item in value.items]
    if isinstance(value, list):
        return [json_form(item) for item in value]
    if isinstance(value, Described):
        return json_form(value.value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    plain = user_value(value)
    return plain.hex() if isinstance(plain, bytes) else plain
