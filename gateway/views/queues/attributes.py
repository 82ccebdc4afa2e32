"""The attributes of a queue as JSON, and the JSON schema of each."""

from typing import Annotated, Final

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from sluicegate.messaging.message.keys import FORM as KEY_SOURCE_FORM
from sluicegate.messaging.message.thresholds import PAIR_FORM
from sluicegate.messaging.queues.attributes import (
    ATTRIBUTES,
    CHOICE,
    FLAG,
    KEY_SOURCE,
    NUMBER,
    THRESHOLD,
    Attribute,
    AttributeValue,
)
from sluicegate.messaging.queues.definition import QueueConfig, config_from_dict


def attribute_schema(attribute: Attribute) -> dict[str, object]:
    """Return the JSON schema of one queue attribute."""
    schema: dict[str, object] = {"description": attribute.meaning, "default": attribute.default}
    if attribute.kind == NUMBER:
        return {"type": "integer", "minimum": attribute.low, "maximum": attribute.high, **schema}
    if attribute.kind == FLAG:
        return {"type": "boolean", **schema}
    if attribute.kind == CHOICE:
        return {"type": "string", "enum": list(attribute.choices), **schema}
    if attribute.kind == THRESHOLD:
        return {"type": "string", "pattern": f"^{PAIR_FORM.pattern}$", **schema}
    if attribute.kind == KEY_SOURCE:
        return {"type": "string", "pattern": f"^({KEY_SOURCE_FORM.pattern})$", **schema}
    return {"type": "string", "maxLength": attribute.high, **schema}


QUEUE_CONFIG_SCHEMA: Final[dict[str, object]] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, **{each.name: attribute_schema(each) for each in ATTRIBUTES}},
    "required": ["name"],
    "additionalProperties": False,
}


def _config_to_json(config: QueueConfig) -> dict[str, AttributeValue]:
    return config.to_dict()


def _config_from_json(given: object) -> QueueConfig:
    if isinstance(given, QueueConfig):
        return given
    if not isinstance(given, dict):
        raise ValueError("a queue configuration is a mapping")
    return config_from_dict(given, reserved_name=True)


# The core's class is plain (and compiled), so its pydantic schema is here.
QueueConfigField = Annotated[
    QueueConfig,
    PlainValidator(_config_from_json),
    PlainSerializer(_config_to_json),
    WithJsonSchema(QUEUE_CONFIG_SCHEMA),
]
