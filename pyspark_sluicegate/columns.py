"""The columns of a message as Spark sees them, and how the wire's buffers become them.

The buffers have the layout of Arrow's arrays, so a column is wrapped without a Python loop over its rows. A value that
the sender omitted is null; times are in UTC.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, final

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_sluicegate.options import OptionError
from sluicegate.messaging.message.headers import PRIORITY_DEFAULT, TIME_MS_MAX
from sluicegate.protocols.flow.codec import columns as wire
from sluicegate.protocols.flow.codec.columns import Columns

Array: TypeAlias = Any  # pyarrow ships no types


@final
@dataclass(frozen=True)
class Column:
    """A column: its name and type in Spark, the wire column it is made of (0: none), and the conversion."""

    name: str
    spark_type: str
    bit: int
    make: Callable[[Columns, str, int], Array]  # the chunk, its queue, its partition


def _queue(chunk: Columns, queue: str, partition: int) -> Array:
    return pa.repeat(pa.scalar(queue, pa.string()), chunk.count)


def _partition(chunk: Columns, queue: str, partition: int) -> Array:
    return pa.repeat(pa.scalar(partition, pa.int32()), chunk.count)


def _numbers(bit: int) -> Callable[[Columns, str, int], Array]:
    def make(chunk: Columns, queue: str, partition: int) -> Array:
        (data,) = chunk.buffers(bit)
        return pa.Array.from_buffers(pa.int64(), chunk.count, [None, pa.py_buffer(data)])

    return make


def _time(bit: int) -> Callable[[Columns, str, int], Array]:
    def make(chunk: Columns, queue: str, partition: int) -> Array:
        kind = pa.timestamp("us", tz="UTC")
        buffers = chunk.buffers(bit)
        if not buffers:
            return pa.nulls(chunk.count, kind)
        millis = pa.Array.from_buffers(pa.int64(), chunk.count, [None, pa.py_buffer(buffers[0])])
        # 0 is none. Who gives a message thousands of years to live means never, and Python knows no such time.
        is_time = pc.and_(pc.not_equal(millis, 0), pc.less_equal(millis, TIME_MS_MAX))
        present = pc.if_else(is_time, millis, pa.scalar(None, pa.int64()))
        return present.cast(pa.timestamp("ms", tz="UTC")).cast(kind)

    return make


def _priority(chunk: Columns, queue: str, partition: int) -> Array:
    buffers = chunk.buffers(wire.PRIORITY)
    if not buffers:
        return pa.repeat(pa.scalar(PRIORITY_DEFAULT, pa.int32()), chunk.count)
    return pa.Array.from_buffers(pa.uint8(), chunk.count, [None, pa.py_buffer(buffers[0])]).cast(pa.int32())


def _values(bit: int, kind: Any) -> Callable[[Columns, str, int], Array]:
    def make(chunk: Columns, queue: str, partition: int) -> Array:
        buffers = chunk.buffers(bit)
        if not buffers:
            return pa.nulls(chunk.count, kind)
        present = pa.py_buffer(buffers[0]) if len(buffers) == 3 else None
        parts = [present, pa.py_buffer(buffers[-2]), pa.py_buffer(buffers[-1])]
        return pa.Array.from_buffers(kind, chunk.count, parts)

    return make


def _properties(chunk: Columns, queue: str, partition: int) -> Array:
    buffers = chunk.buffers(wire.PROPERTIES)
    if not buffers:
        return _empty_maps(chunk.count)
    offsets, name_offsets, names, types, value_offsets, values = buffers
    entries = len(types)
    keys = pa.Array.from_buffers(pa.string(), entries, [None, pa.py_buffer(name_offsets), pa.py_buffer(names)])
    items = pa.Array.from_buffers(pa.string(), entries, [None, pa.py_buffer(value_offsets), pa.py_buffer(values)])
    starts = pa.Array.from_buffers(pa.int32(), chunk.count + 1, [None, pa.py_buffer(offsets)])
    return pa.MapArray.from_arrays(starts, keys, items)


def _empty_maps(count: int) -> Array:
    none = pa.array([], pa.string())
    return pa.MapArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), count + 1), none, none)


COLUMNS: Final = {
    column.name: column
    for column in (
        Column("queue", "string", 0, _queue),
        Column("partition", "int", 0, _partition),
        Column("sequence", "bigint", wire.SEQUENCE, _numbers(wire.SEQUENCE)),
        Column("topic", "string", wire.TOPIC, _values(wire.TOPIC, pa.string())),
        Column("partition_key", "string", wire.PARTITION_KEY, _values(wire.PARTITION_KEY, pa.string())),
        Column("payload", "binary", wire.PAYLOAD, _values(wire.PAYLOAD, pa.binary())),
        Column("received", "timestamp", wire.RECEIVED_MS, _time(wire.RECEIVED_MS)),
        Column("timestamp", "timestamp", wire.TIMESTAMP_MS, _time(wire.TIMESTAMP_MS)),
        Column("expiry", "timestamp", wire.EXPIRY_MS, _time(wire.EXPIRY_MS)),
        Column("publisher", "string", wire.PUBLISHER, _values(wire.PUBLISHER, pa.string())),
        Column("priority", "int", wire.PRIORITY, _priority),
        Column("message_id", "string", wire.MESSAGE_ID, _values(wire.MESSAGE_ID, pa.string())),
        Column("correlation_id", "binary", wire.CORRELATION, _values(wire.CORRELATION, pa.binary())),
        Column("reply_to", "string", wire.REPLY_TO, _values(wire.REPLY_TO, pa.string())),
        Column("content_type", "string", wire.CONTENT_TYPE, _values(wire.CONTENT_TYPE, pa.string())),
        Column("user_properties", "map<string,string>", wire.PROPERTIES, _properties),
    )
}


def chosen_columns(names: Sequence[str]) -> list[Column]:
    """Return the columns by name; all columns without names. Raises OptionError."""
    unknown = [name for name in names if name not in COLUMNS]
    if unknown or len(set(names)) < len(names):
        wrong = f"no column {', '.join(unknown)}" if unknown else "a column twice"
        raise OptionError(f"columns: {wrong}; there are {', '.join(COLUMNS)}")
    return [COLUMNS[name] for name in names] if names else list(COLUMNS.values())


def schema_of(columns: Sequence[Column]) -> str:
    """Return Spark's schema of the columns."""
    return ", ".join(f"{column.name} {column.spark_type}" for column in columns)


def bits_of(columns: Sequence[Column]) -> int:
    """Return the columns that the gateway has to send: at least one, because it counts the rows."""
    bits = 0
    for column in columns:
        bits |= column.bit
    return bits or wire.SEQUENCE


def record_batch(columns: Sequence[Column], schema: Any, chunk: Columns, queue: str, partition: int) -> Any:
    """Return a chunk of rows as a record batch, with the Arrow schema of these columns."""
    arrays = [column.make(chunk, queue, partition) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
