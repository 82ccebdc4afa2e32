"""Schemas of the admin API that are not the schema of one type: lists, and bodies of changes."""

from typing import Final

from pydantic import TypeAdapter

from sluicegate.gateway.admin.operation import Described, JsonSchema, NamedSchema
from sluicegate.gateway.config.sections.section import NamedSection
from sluicegate.gateway.views.queues.attributes import attribute_schema
from sluicegate.messaging.queues.attributes import ATTRIBUTES
from sluicegate.messaging.queues.template import NOT_IN_TEMPLATES

TEXTS: Final[JsonSchema] = {"type": "array", "items": {"type": "string"}}
_REFERENCE: Final = "#/components/schemas/{model}"


def reference(name: str) -> JsonSchema:
    """Return the schema that refers to another one."""
    return {"$ref": f"#/components/schemas/{name}"}


def type_definitions(described: type) -> dict[str, JsonSchema]:
    """Return the schema of a type as it is sent, and those of the types in it."""
    schema = TypeAdapter(described).json_schema(ref_template=_REFERENCE, mode="serialization")
    definitions: dict[str, JsonSchema] = schema.pop("$defs", {})
    if "$ref" not in schema:  # a recursive view is among its own definitions
        definitions[described.__name__] = schema
    return definitions


def name_of(described: Described) -> str:
    """Return the name under `components/schemas`."""
    return described.__name__ if isinstance(described, type) else described.name


def definitions_of(described: Described) -> dict[str, JsonSchema]:
    """Return the schema by its name, beside the schemas that it refers to."""
    return type_definitions(described) if isinstance(described, type) else described.definitions()


def list_of(name: str, member: str, listed: Described) -> NamedSchema:
    """Return the schema of an object with one list."""
    items: JsonSchema = {"type": "array", "items": reference(name_of(listed))}
    schema: JsonSchema = {"type": "object", "properties": {member: items}, "required": [member]}
    return NamedSchema(name, lambda: definitions_of(listed) | {name: schema})


def count_of(name: str, member: str) -> NamedSchema:
    """Return the schema of an object with one number."""
    return fixed(name, {"type": "object", "properties": {member: {"type": "integer"}}, "required": [member]})


def fixed(name: str, schema: JsonSchema) -> NamedSchema:
    """Return a named schema that refers to no other."""
    return NamedSchema(name, lambda: {name: schema})


def section_body(name: str, model: type[NamedSection]) -> NamedSchema:
    """Return the schema of a body that describes an object as the configuration does."""

    def definitions() -> dict[str, JsonSchema]:
        whole = TypeAdapter(model).json_schema(ref_template=_REFERENCE)
        parts: dict[str, JsonSchema] = whole.pop("$defs", {})
        return parts | {name: whole}

    return NamedSchema(name, definitions)


def changes_of(described: NamedSchema) -> NamedSchema:
    """Return the schema of a body that changes an object: nothing is required."""
    name = f"{described.name}Changes"

    def definitions() -> dict[str, JsonSchema]:
        parts = described.definitions()
        whole = parts.pop(described.name)
        return parts | {name: {key: value for key, value in whole.items() if key != "required"}}

    return NamedSchema(name, definitions)


def queue_attributes() -> JsonSchema:
    """Return the properties that a queue's definition may have."""
    return {**{attribute.name: attribute_schema(attribute) for attribute in ATTRIBUTES}, "subscriptions": TEXTS}


def template_attributes() -> JsonSchema:
    """Return the queue attributes that a template may have."""
    return {each.name: attribute_schema(each) for each in ATTRIBUTES if each.name not in NOT_IN_TEMPLATES}
