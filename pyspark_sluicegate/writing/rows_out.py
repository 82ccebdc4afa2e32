"""Encodes record batches of Spark as the wire's columns: by whole buffers, without a Python loop over rows."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_sluicegate.options import OptionError, SinkOptions
from sluicegate.messaging.message.headers import PRIORITY_DEFAULT, PRIORITY_MAX
from sluicegate.protocols.flow.codec import columns as wire
from sluicegate.protocols.flow.codec.columns import ColumnWriter
from sluicegate.protocols.flow.codec.properties import TEXT

Array: TypeAlias = Any  # pyarrow ships no types


_OF_PAYLOADS: Final = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)


class RowError(ValueError):
    """A row without a required value, or with a value that no message can have."""


def check_columns(schema: Any, options: SinkOptions) -> None:
    """Raise OptionError unless rows of an Arrow schema can be messages."""
    allowed = [*WRITTEN, "queue"]
    unknown = [name for name in schema.names if name not in allowed]
    if unknown:
        raise OptionError(f"the sink knows no column {', '.join(unknown)}; it takes {', '.join(allowed)}")
    if "payload" not in schema.names:
        raise OptionError("the sink needs a column payload")
    kind = schema.field("payload").type
    if not any(of_kind(kind) for of_kind in _OF_PAYLOADS):
        raise OptionError(f"the column payload is {kind}; the sink takes texts and bytes, such as to_json makes")
    if not (options.queue or options.topic or _destination(options) in schema.names):
        raise OptionError("where to? Give the option topic or queue, or a column of that name")


def rows_with_destination(batch: Any, options: SinkOptions) -> Any:
    """Return a batch, whose columns were checked, with the destinations in the column `topic`."""
    names = batch.schema.names
    named = options.queue or options.topic
    if named:
        destinations = pa.repeat(pa.scalar(named, pa.string()), batch.num_rows)
    else:
        destinations = batch.column(names.index(_destination(options)))
    kept = {name: batch.column(at) for at, name in enumerate(names) if name not in ("queue", "topic")}
    return pa.RecordBatch.from_pydict({"topic": destinations, **kept})


def _destination(options: SinkOptions) -> str:
    return "queue" if options.is_to_queue else "topic"


def encode_rows(rows: Any) -> ColumnWriter:
    """Return the columns of a STAGE.

    Raises RowError for a row without a required value, or with a value that its column cannot have; OptionError for a
    column of an unsupported type.
    """
    out = ColumnWriter()
    for name, (bit, put) in WRITTEN.items():
        at = rows.schema.get_field_index(name)
        if at < 0:
            continue
        array = rows.column(at)
        try:
            put(out, bit, array)
        except pa.ArrowInvalid as error:  # bytes that are no text, a priority of 4.5
            raise RowError(f"the column {name}: {error}") from None
        except pa.ArrowNotImplementedError as error:
            raise OptionError(f"the column {name} is {array.type}, of which no message can be made: {error}") from None
    return out


def _required(kind: Any) -> Callable[[ColumnWriter, int, Array], None]:
    def put(out: ColumnWriter, bit: int, array: Array) -> None:
        if array.null_count:
            what = "payload" if bit == wire.PAYLOAD else "destination"
            raise RowError(f"{array.null_count} of {len(array)} rows have no {what}")
        out.put(bit, _value_buffers(array.cast(kind)))

    return put


def _optional(kind: Any) -> Callable[[ColumnWriter, int, Array], None]:
    def put(out: ColumnWriter, bit: int, array: Array) -> None:
        if array.null_count == len(array):
            return
        present = _at_zero(array.cast(kind))
        bits = present.is_valid()  # an array of bits, whose second buffer is just them
        out.put(bit, [_bits(bits), *_value_buffers(present)])

    return put


def _put_priority(out: ColumnWriter, bit: int, array: Array) -> None:
    if array.null_count == len(array):
        return
    numbers = pc.fill_null(array.cast(pa.int64()), PRIORITY_DEFAULT)
    if pc.min(numbers).as_py() < 0 or pc.max(numbers).as_py() > PRIORITY_MAX:
        raise RowError(f"a priority outside of 0 to {PRIORITY_MAX}")
    out.put(bit, [_plain(numbers.cast(pa.uint8()), 1)])


def _put_ttl(out: ColumnWriter, bit: int, array: Array) -> None:
    if array.null_count < len(array):
        out.put(bit, [_plain(pc.fill_null(array.cast(pa.int64()), 0), 8)])


def _put_time(out: ColumnWriter, bit: int, array: Array) -> None:
    if array.null_count < len(array):
        millis = array.cast(pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64())
        out.put(bit, [_plain(pc.fill_null(millis, 0), 8)])


def _put_properties(out: ColumnWriter, bit: int, array: Array) -> None:
    """Write properties, with values as texts; a row without properties, and a null value, have none."""
    if array.null_count == len(array):
        return
    whole = _at_zero(_as_maps(array).cast(pa.map_(pa.string(), pa.string())))
    if whole.null_count or whole.items.null_count:
        rows = whole.to_pylist()
        plain = [[(name, text) for name, text in each if text is not None] if each else [] for each in rows]
        whole = pa.array(plain, pa.map_(pa.string(), pa.string()))
    offsets = pa.Array.from_buffers(pa.int32(), len(whole) + 1, [None, whole.buffers()[1]])
    first, end = offsets[0].as_py(), offsets[-1].as_py()
    keys, items = whole.keys.slice(first, end - first), whole.items.slice(first, end - first)
    types = bytes([TEXT]) * (end - first)
    starts = pc.subtract(offsets, pa.scalar(first, pa.int32()))
    out.put(bit, [_plain(starts, 4), *_value_buffers(keys), types, *_value_buffers(items)])


def _as_maps(array: Array) -> Array:
    """Return maps, also from arrays of structs of a name and a value: Spark's maps have no repeated names."""
    kind = array.type
    if pa.types.is_map(kind):
        return array
    if not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type) or kind.value_type.num_fields != 2:
        raise OptionError(
            f"the column user_properties is {kind}; the sink takes maps, and arrays of structs of a name and a value"
        )
    whole = _at_zero(array)
    names, values = whole.values.flatten()
    if names.null_count:
        raise RowError("a user property without a name")
    return pa.MapArray.from_arrays(whole.offsets, names, values, mask=whole.is_null())


WRITTEN: Final[dict[str, tuple[int, Callable[[ColumnWriter, int, Array], None]]]] = {
    "topic": (wire.TOPIC, _required(pa.string())),
    "payload": (wire.PAYLOAD, _required(pa.binary())),
    "partition_key": (wire.PARTITION_KEY, _optional(pa.string())),
    "priority": (wire.PRIORITY, _put_priority),
    "ttl_ms": (wire.EXPIRY_MS, _put_ttl),
    "timestamp": (wire.TIMESTAMP_MS, _put_time),
    "message_id": (wire.MESSAGE_ID, _optional(pa.string())),
    "correlation_id": (wire.CORRELATION, _optional(pa.binary())),
    "reply_to": (wire.REPLY_TO, _optional(pa.string())),
    "content_type": (wire.CONTENT_TYPE, _optional(pa.string())),
    "user_properties": (wire.PROPERTIES, _put_properties),
}


def _at_zero(array: Array) -> Array:
    """Return the array with its own start in the buffers: slices share the buffers of the whole."""
    return array if array.offset == 0 else pa.concat_arrays([array, array.slice(0, 0)])


def _value_buffers(array: Array) -> list[bytes]:
    """Return offsets from 0, and the bytes between the first and the last of them."""
    count = len(array)
    if count == 0:
        return [bytes(4), b""]
    buffers = array.buffers()
    raw = pa.Array.from_buffers(pa.int32(), count + 1, [None, buffers[1]], offset=array.offset)
    first, end = raw[0].as_py(), raw[-1].as_py()
    offsets = raw if first == 0 else pc.subtract(raw, pa.scalar(first, pa.int32()))
    data = b"" if buffers[2] is None else bytes(memoryview(buffers[2])[first:end])
    return [_plain(offsets, 4), data]


def _plain(array: Array, size: int) -> bytes:
    """Return the numbers of an array without nulls."""
    start = array.offset * size
    return bytes(memoryview(array.buffers()[1])[start : start + len(array) * size])


def _bits(array: Array) -> bytes:
    """Return an array of booleans without nulls as bits, the lowest first."""
    whole = _at_zero(array)
    return bytes(memoryview(whole.buffers()[1])[: (len(whole) + 7) // 8])
