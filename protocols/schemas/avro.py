"""Avro, by fastavro: a payload is one datum in the binary encoding, without a container or a prefix.

fastavro follows a payload as deep as it leads. So two kinds of schemas are refused, for a client could end the broker
or keep it busy for ever: recursive ones, whose payloads may be nested without bound (C's stack ends, and the process
with it), and arrays of items without bytes, of which a short payload may have 2^62. Logical types are not looked at:
dates and decimals are checked as the numbers and bytes that they are.
"""

import io
from collections.abc import Callable
from typing import Any, Final

import fastavro
import fastavro.schema
import orjson

from sluicegate.protocols.schemas.errors import SchemaUnusable

_NAMED: Final = ("record", "error", "enum", "fixed")
_RECORDS: Final = ("record", "error")


def avro_problem_finder(content: bytes, message_type: str) -> Callable[[bytes], str]:
    """Return a function that says why a payload is not a datum of a type. Raises SchemaUnusable.

    `message_type` is the full name of a type in a file that has several, or inside another; empty: the file's own.
    """
    try:
        schema: Any = fastavro.parse_schema(_plain(orjson.loads(content)))
    except fastavro.schema.UnknownType as problem:
        raise SchemaUnusable(f"it has an unknown type: {problem}") from None
    except (ValueError, KeyError, TypeError, RecursionError, fastavro.schema.SchemaParseException) as problem:
        raise SchemaUnusable(f"it is no Avro schema: {type(problem).__name__} {problem}") from None
    types = _Types(schema)
    if message_type:
        if message_type not in types.named:
            known = ", ".join(sorted(types.named)) or "none"
            raise SchemaUnusable(f"it has no type {message_type!r}; it has: {known}")
        schema = types.named[message_type]
    types.check(schema, ())
    schema = types.alone(schema)

    def problem_of(payload: bytes) -> str:
        stream = io.BytesIO(payload)
        try:
            fastavro.schemaless_reader(stream, schema, None)
        except Exception as problem:  # whatever its C code stumbles over: the payload is not of this schema
            return f"it is no such Avro datum: {type(problem).__name__} {problem}".rstrip()
        left = len(payload) - stream.tell()
        return f"{left} bytes are left behind the Avro datum" if left else ""

    return problem_of


def _plain(schema: Any) -> Any:
    """Return a schema without its logical types, and without documentation and defaults, which no datum depends on."""
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    dropped = ("logicalType", "doc", "default")
    return {
        key: _plain(value) if key in ("type", "fields", "items", "values") else value
        for key, value in schema.items()
        if key not in dropped
    }


class _Types:
    """The named types of a parsed schema."""

    def __init__(self, schema: Any) -> None:
        self.named: dict[str, Any] = {}
        self._collect(schema)

    def _collect(self, schema: Any) -> None:
        if isinstance(schema, list):
            for each in schema:
                self._collect(each)
        elif isinstance(schema, dict):
            if schema.get("type") in _NAMED:
                self.named[schema["name"]] = schema
            for field in schema.get("fields", ()):
                self._collect(field["type"])
            for key in ("type", "items", "values"):
                if not isinstance(schema.get(key), str):
                    self._collect(schema.get(key))

    def check(self, schema: Any, within: tuple[str, ...]) -> None:
        """Raise SchemaUnusable for a type that contains itself, and for arrays whose items may have no bytes."""
        if isinstance(schema, str):
            if schema in within:
                raise SchemaUnusable(f"the type {schema!r} contains itself: its payloads could be nested without bound")
            if schema in self.named:
                self.check(self.named[schema], within)
        elif isinstance(schema, list):
            for each in schema:
                self.check(each, within)
        else:
            kind = schema["type"]
            if kind in _RECORDS:
                for field in schema["fields"]:
                    self.check(field["type"], (*within, schema["name"]))
            elif kind == "array":
                self.check(schema["items"], within)
                if not self._has_bytes(schema["items"]):
                    raise SchemaUnusable("it has an array of items without bytes, of which there could be any number")
            elif kind == "map":
                self.check(schema["values"], within)
            elif not isinstance(kind, str):
                self.check(kind, within)

    def _has_bytes(self, schema: Any) -> bool:
        """Return whether each datum of a type, which does not contain itself, has at least one byte."""
        if isinstance(schema, str):
            return self._has_bytes(self.named[schema]) if schema in self.named else schema != "null"
        if isinstance(schema, list):
            return True  # which of its types it is
        kind = schema["type"]
        if kind in _RECORDS:
            return any(self._has_bytes(field["type"]) for field in schema["fields"])
        if kind == "fixed":
            return bool(schema["size"] > 0)
        return self._has_bytes(kind) if not isinstance(kind, str) or kind not in (*_NAMED, "array", "map") else True

    def alone(self, schema: Any) -> Any:
        """Return a type that needs no other one: types that it names, and that stand elsewhere, stand in it."""
        return fastavro.parse_schema(self._resolved(schema, set()))

    def _resolved(self, schema: Any, known: set[str]) -> Any:
        if isinstance(schema, str):
            if schema in self.named and schema not in known:
                return self._resolved(self.named[schema], known)
            return schema
        if isinstance(schema, list):
            return [self._resolved(each, known) for each in schema]
        made = {key: value for key, value in schema.items() if not key.startswith("__")}
        if made.get("type") in _NAMED:
            if made["name"] in known:
                return made["name"]
            known.add(made["name"])
        if "fields" in made:
            made["fields"] = [field | {"type": self._resolved(field["type"], known)} for field in made["fields"]]
        for key in ("items", "values"):
            if key in made:
                made[key] = self._resolved(made[key], known)
        if not isinstance(made["type"], str):
            made["type"] = self._resolved(made["type"], known)
        return made
