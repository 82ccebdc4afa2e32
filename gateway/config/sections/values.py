"""What a text means as a value of a queue's attribute: in YAML `yes` is one, and the environment has nothing else."""

from collections.abc import Mapping
from typing import Final

from sluicegate.messaging.queues.attributes import ATTRIBUTE_BY_NAME, FLAG, NUMBER

_TRUTHS: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}  # as pydantic's


def plain_values(given: Mapping[str, object]) -> dict[str, object]:
    """Return a queue's attributes, or a template's, with numbers and truths in the place of texts that are some."""
    return {str(name): plain_value(str(name), value) for name, value in given.items()}


def plain_value(name: str, value: object) -> object:
    """Return what a text means for this attribute; other values, and what means nothing, as they are."""
    attribute = ATTRIBUTE_BY_NAME.get(name)
    if attribute is None or not isinstance(value, str):
        return value
    if attribute.kind == NUMBER and value.isascii() and value.isdigit() and len(value) <= 20:
        return int(value)
    if attribute.kind == FLAG:
        return _TRUTHS.get(value.lower(), value)
    return value
