"""Rows of a queue with their decoded payloads.

Each row gets two columns: `value`, a struct of the schema's columns, and `decode_error`, the reason where there is no
value. No row is dropped: a job writes rows with a reason to the folder of `undecodable`, with all columns of the queue,
including their offset (queue, partition and sequence).
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import DataType, StringType, StructField, StructType

from sluicegate.pipeline.configuration import AVRO, CSV, JSON, PAYLOAD, PROTOBUF, RAW, SchemaTable
from sluicegate.pipeline.decode.avro import AvroDecoder
from sluicegate.pipeline.decode.decoder import ArrowType, Decoder, SchemaError
from sluicegate.pipeline.decode.protobuf import ProtobufDecoder
from sluicegate.pipeline.decode.text import CsvDecoder, JsonDecoder

VALUE: Final = "value"
DECODE_ERROR: Final = "decode_error"


def decoder_for(table: SchemaTable) -> Decoder | None:
    """Return the decoder of payloads, None for raw ones. Raises SchemaError; needs a session of Spark."""
    try:
        if table.format == AVRO:
            return AvroDecoder(_file(table).decode("utf-8"))
        if table.format == PROTOBUF:
            return ProtobufDecoder(_file(table), table.message or "")
        if table.format == JSON:
            return JsonDecoder(_columns(table))
        if table.format == CSV:
            return CsvDecoder(_columns(table), table.delimiter)
    except (OSError, UnicodeDecodeError) as error:
        raise SchemaError(f"decode.schema_file: {error}") from None
    assert table.format == RAW
    return None


def decoded(rows: DataFrame, decoder: Decoder) -> DataFrame:
    """Return the rows with `value` and `decode_error`."""
    added = [
        StructField(VALUE, from_arrow_type(decoder.value_type, prefer_timestamp_ntz=False)),
        StructField(DECODE_ERROR, StringType()),
    ]
    return rows.mapInArrow(partial(_with_values, decoder), StructType([*rows.schema.fields, *added]))


def _with_values(decoder: Decoder, batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        payloads = batch.column(batch.schema.get_field_index(PAYLOAD)).to_pylist()
        values, reasons = decoder.decode_all(payloads)
        names = [*batch.schema.names, VALUE, DECODE_ERROR]
        yield pa.RecordBatch.from_arrays([*batch.columns, values, pa.array(reasons, pa.string())], names)


def _columns(table: SchemaTable) -> ArrowType:
    text = table.columns or _file(table).decode("utf-8")
    try:
        found = DataType.fromDDL(text)
    except PySparkException as error:
        first_line = str(error).strip().partition("\n")[0]
        raise SchemaError(f"the columns {text.strip()!r} are no schema of Spark: {first_line}") from None
    if not isinstance(found, StructType) or len(set(found.names)) < len(found.names):
        raise SchemaError(f"the columns {text.strip()!r} have no names, or one name twice")
    return to_arrow_type(found, timezone="UTC")


def _file(table: SchemaTable) -> bytes:
    assert table.schema_file is not None, "the format needs it"
    return table.schema_file.read_bytes()
