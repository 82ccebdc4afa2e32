"""Avro: one record in binary encoding (Avro 1.12, "Binary Encoding"), by the schema that wrote it.

Container files and Confluent's or single-object framing are other things than a record, and are set aside as
undecodable.
"""

import json
from collections.abc import Mapping
from io import BytesIO
from typing import Any, ClassVar, Final, TypeAlias, final

import fastavro
import pyarrow as pa
from fastavro.schema import SchemaParseException

from sluicegate.pipeline.decode.decoder import ArrowType, Decoder, Record, SchemaError, Undecodable

Schema: TypeAlias = Any  # of Avro: JSON

PRIMITIVES: Final = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
# Of the logical types, those that Spark has too. Any other stays what it is written as.
TIMES: Final = {
    ("long", "timestamp-millis"): pa.timestamp("us", tz="UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", tz="UTC"),
    ("int", "date"): pa.date32(),
}
DECIMAL: Final = "decimal"
DECIMAL_DIGITS_MAX: Final = 38  # of Spark


@final
class AvroDecoder(Decoder):
    """Decodes records that one schema wrote."""

    what: ClassVar[str] = "Avro"

    def __init__(self, text: str) -> None:
        """Take the text of an `.avsc` file. Raises SchemaError."""
        try:
            self._schema = _with_types_of_spark(json.loads(text))
            self.value_type = _column_type(self._schema, {}, ())
            self._parsed = fastavro.parse_schema(self._schema)
        except (ValueError, KeyError, TypeError, AttributeError, SchemaParseException) as error:
            raise SchemaError(f"the Avro schema is none that a table can have: {error}") from None
        if not pa.types.is_struct(self.value_type):
            raise SchemaError("the Avro schema is no record, of which columns could be made")

    def decode(self, payload: bytes) -> Record:
        """Return the record. Raises Undecodable."""
        data = BytesIO(payload)
        try:
            record = fastavro.schemaless_reader(data, self._parsed, None)
        except Exception as error:  # whatever bytes of others make the library say
            raise Undecodable(f"{self.what}: {type(error).__name__}: {error}") from None
        left = len(payload) - data.tell()
        if left:
            raise Undecodable(f"{self.what}: {left} bytes are left behind the record")
        return record  # type: ignore[return-value]  # a record, for the schema is one


def _with_types_of_spark(schema: Schema) -> Schema:
    """Return the schema without the logical types that Spark lacks: their values keep their underlying type."""
    if isinstance(schema, list):
        return [_with_types_of_spark(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        key: _with_types_of_spark(value) if key in ("type", "items", "values") else value
        for key, value in schema.items()
        if key != "logicalType" or value == DECIMAL or (schema.get("type"), value) in TIMES
    }
    if "fields" in kept:
        kept["fields"] = [_with_types_of_spark(each) for each in kept["fields"]]
    return kept


def _column_type(schema: Schema, named: Mapping[str, ArrowType], inside: tuple[str, ...]) -> ArrowType:
    """Return the type of a column. `named`: types so far; `inside`: the records around. Raises SchemaError."""
    names = named if isinstance(named, dict) else dict(named)
    if isinstance(schema, str):
        return _named_type(schema, names, inside)
    if isinstance(schema, list):
        return _union_type(schema, names, inside)
    kind = schema["type"]
    if isinstance(kind, dict | list):
        return _column_type(kind, names, inside)
    logical = schema.get("logicalType")
    if (kind, logical) in TIMES:
        return TIMES[kind, logical]
    if kind in ("enum", "fixed", "record"):
        made = _complex_type(schema, names, inside)
        names[schema["name"].rpartition(".")[2]] = made
        return made
    if kind == "bytes" and logical == DECIMAL:
        return _decimal_type(schema)
    if kind == "array":
        return pa.list_(_column_type(schema["items"], names, inside))
    if kind == "map":
        return pa.map_(pa.string(), _column_type(schema["values"], names, inside))
    return _named_type(kind, names, inside)


def _named_type(name: str, names: Mapping[str, ArrowType], inside: tuple[str, ...]) -> ArrowType:
    short = name.rpartition(".")[2]
    if short in inside:
        raise SchemaError(f"the record {name} holds itself, and a table has no such columns")
    found = PRIMITIVES.get(name) or names.get(short)
    if found is None:
        raise SchemaError(f"there is no type {name} for a column")
    return found


def _union_type(branches: list[Schema], names: dict[str, ArrowType], inside: tuple[str, ...]) -> ArrowType:
    present = [each for each in branches if each != "null"]
    if len(present) != 1:
        raise SchemaError(f"the union {json.dumps(branches)} is no column; allowed are a type, or null and a type")
    return _column_type(present[0], names, inside)


def _complex_type(schema: Schema, names: dict[str, ArrowType], inside: tuple[str, ...]) -> ArrowType:
    name, kind = schema["name"], schema["type"]
    if kind == "enum":
        return pa.string()
    if kind == "fixed":
        if schema["size"] < 1:
            raise SchemaError(f"{name} has no bytes, of which an array may hold any number")
        return _decimal_type(schema) if schema.get("logicalType") == DECIMAL else pa.binary()
    around = (*inside, name.rpartition(".")[2])
    fields = [pa.field(each["name"], _column_type(each["type"], names, around)) for each in schema["fields"]]
    if not fields:
        raise SchemaError(f"the record {name} has no fields, and so no columns")
    return pa.struct(fields)


def _decimal_type(schema: Schema) -> ArrowType:
    precision = int(schema["precision"])
    if precision > DECIMAL_DIGITS_MAX:
        raise SchemaError(f"a decimal of {precision} digits; Spark has {DECIMAL_DIGITS_MAX} at most")
    return pa.decimal128(precision, int(schema.get("scale", 0)))
