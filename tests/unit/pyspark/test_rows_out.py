"""Record batches become the wire's columns: whatever Arrow's arrays look like, the gateway reads the same rows."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import BinaryType, DataType, LongType, StringType, StructField, StructType

from pyspark_sluicegate.options import OptionError, SinkOptions
from pyspark_sluicegate.source import SluicegateSource
from pyspark_sluicegate.writing.rows_out import RowError, encode_rows, rows_with_destination
from sluicegate.protocols.flow.codec import columns as wire
from sluicegate.protocols.flow.codec.columns import Columns, counts_of, cut_values, read_columns

texts = st.one_of(st.none(), st.text(max_size=6))
rows = st.lists(
    st.fixed_dictionaries(
        {
            "topic": st.text(min_size=1, max_size=8),
            "payload": st.binary(max_size=12),
            "partition_key": texts,
            "priority": st.one_of(st.none(), st.integers(0, 9)),
            "ttl_ms": st.one_of(st.none(), st.integers(0, 1 << 40)),
            "timestamp": st.one_of(st.none(), st.integers(1, 1 << 41)),
            "content_type": texts,
            "user_properties": st.one_of(
                st.none(), st.dictionaries(st.text(min_size=1, max_size=3), texts, max_size=3)
            ),
        }
    ),
    min_size=1,
    max_size=20,
)
KINDS: dict[str, Any] = {
    "topic": pa.string(),
    "payload": pa.binary(),
    "partition_key": pa.string(),
    "priority": pa.int32(),
    "ttl_ms": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "content_type": pa.string(),
    "user_properties": pa.map_(pa.string(), pa.string()),
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@settings(deadline=None)
@given(rows, st.data())
def test_the_gateway_reads_the_rows_that_spark_has(found: list[dict[str, Any]], data: st.DataObject) -> None:
    """Flow: columns. Slices have buffers that begin and end elsewhere than they do."""
    first = data.draw(st.integers(0, len(found) - 1))
    batch = _batch(found).slice(first, data.draw(st.integers(1, len(found) - first)))
    expected = found[first : first + batch.num_rows]
    columns = _through_the_wire(batch)
    assert columns.values(wire.TOPIC) == [row["topic"].encode() for row in expected]
    assert columns.values(wire.PAYLOAD) == [row["payload"] for row in expected]
    for name, bit in (("partition_key", wire.PARTITION_KEY), ("content_type", wire.CONTENT_TYPE)):
        assert _optional(columns, bit) == [None if row[name] is None else row[name].encode() for row in expected]
    assert _numbers(columns, wire.PRIORITY, 4) == [
        4 if row["priority"] is None else row["priority"] for row in expected
    ]
    assert _numbers(columns, wire.EXPIRY_MS, 0) == [row["ttl_ms"] or 0 for row in expected]
    assert _numbers(columns, wire.TIMESTAMP_MS, 0) == [row["timestamp"] or 0 for row in expected]
    assert _properties(columns) == [
        {name: text for name, text in (row["user_properties"] or {}).items() if text is not None} for row in expected
    ]


def test_where_rows_go_is_named_once_or_by_each_of_them() -> None:
    batch = pa.RecordBatch.from_pydict({"queue": ["a", "b"], "payload": [b"1", b"2"]})
    assert rows_with_destination(batch, _sink({}, batch)).column(0).to_pylist() == ["a", "b"]
    assert rows_with_destination(batch, _sink({"queue": "all"}, batch)).column(0).to_pylist() == ["all", "all"]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"payload": BinaryType()}, "topic or queue"),
        ({"payload": BinaryType(), "queue": StringType(), "hue": LongType()}, "no column hue; it takes topic, payload"),
        ({"queue": StringType()}, "needs a column payload"),
        ({"payload": LongType(), "queue": StringType()}, "payload is int64; the sink takes texts and bytes"),
    ],
)
def test_columns_that_no_message_is_made_of_are_refused_before_a_task_begins(
    columns: dict[str, DataType], said: str
) -> None:
    """Each task would fail with it, as often as tasks are tried, and none where there are no rows."""
    source = SluicegateSource({"url": "flow://gateway"})
    schema = StructType([StructField(name, kind) for name, kind in columns.items()])
    for make in (source.writer, source.streamWriter):
        with pytest.raises(OptionError, match=said):
            make(schema, False)


def test_rows_without_what_every_message_needs_are_refused() -> None:
    with pytest.raises(RowError, match="1 of 2 rows have no payload"):
        encode_rows(pa.RecordBatch.from_pydict({"topic": ["a", "b"], "payload": [b"1", None]}))
    with pytest.raises(RowError, match="priority"):
        encode_rows(pa.RecordBatch.from_pydict({"topic": ["a"], "payload": [b"1"], "priority": [10]}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("partition_key", b"\xff"),
        ("message_id", b"\xff"),
        ("priority", 4.5),
        ("priority", "high"),
        ("ttl_ms", 0.5),
        ("user_properties", {"name": b"\xff"}),
    ],
)
def test_a_value_that_its_column_cannot_have_is_the_rows_mistake(name: str, value: Any) -> None:
    kind = pa.map_(pa.string(), pa.binary()) if isinstance(value, dict) else None
    batch = pa.RecordBatch.from_pydict({"topic": ["a"], "payload": [b"1"], name: pa.array([value], kind)})
    with pytest.raises(RowError, match=f"^the column {name}: "):
        encode_rows(batch)


def test_a_column_of_a_type_that_no_message_is_made_of_is_the_jobs_mistake() -> None:
    batch = pa.RecordBatch.from_pydict({"topic": ["a"], "payload": [b"1"], "correlation_id": [5]})
    with pytest.raises(OptionError, match=r"^the column correlation_id is int64, of which no message can be made"):
        encode_rows(batch)


@pytest.mark.parametrize(
    ("kind", "values", "texts"),
    [
        (pa.map_(pa.large_string(), pa.large_string()), ["x", "yz"], ["x", "yz"]),
        (pa.map_(pa.string(), pa.int64()), [1, -20], ["1", "-20"]),
        (pa.map_(pa.string(), pa.bool_()), [True, None], ["true", None]),
    ],
)
def test_properties_of_any_type_are_published_as_their_texts(kind: Any, values: list[Any], texts: list[Any]) -> None:
    """Large texts are Spark's with `spark.sql.execution.arrow.useLargeVarTypes`."""
    found = pa.array([[("name", each)] for each in values], kind)
    batch = pa.RecordBatch.from_pydict({"topic": ["a", "b"], "payload": [b"1", b"2"], "user_properties": found})
    assert _properties(_through_the_wire(batch)) == [{} if text is None else {"name": text} for text in texts]


def test_properties_that_are_neither_maps_nor_pairs_are_refused_by_their_type() -> None:
    batch = pa.RecordBatch.from_pydict({"topic": ["a"], "payload": [b"1"], "user_properties": ["colour=red"]})
    with pytest.raises(OptionError, match="user_properties is string; the sink takes maps"):
        encode_rows(batch)


def test_properties_in_pairs_may_have_a_name_more_than_once() -> None:
    pairs = pa.list_(pa.struct([("key", pa.string()), ("value", pa.int64())]))
    two, none = [{"key": "n", "value": 1}, {"key": "n", "value": 2}], [{"key": "n", "value": None}]
    found = pa.array([[{"key": "left", "value": 0}], two, None, [], none], pairs)
    batch = pa.RecordBatch.from_pydict({"topic": ["a"] * 5, "payload": [b"1"] * 5, "user_properties": found})
    out = encode_rows(batch.slice(1))
    data = out.encoded()
    columns = read_columns(data, 0, len(data), count=4, columns=out.columns)
    offsets, _, names, _, _, values = columns.buffers(wire.PROPERTIES)
    assert (counts_of(offsets), bytes(names), bytes(values)) == ([2, 0, 0, 0], b"nn", b"12")
    nameless = pa.array([[{"key": None, "value": 1}]], pairs)
    with pytest.raises(RowError, match="without a name"):
        encode_rows(pa.RecordBatch.from_pydict({"topic": ["a"], "payload": [b"1"], "user_properties": nameless}))


def _sink(given: dict[str, str], batch: Any) -> SinkOptions:
    return SinkOptions.of({"url": "flow://gateway", **given}, batch.schema.names)


def _batch(found: list[dict[str, Any]]) -> Any:
    columns: dict[str, Any] = {}
    for name, kind in KINDS.items():
        values = [row[name] for row in found]
        if name == "timestamp":
            values = [None if each is None else EPOCH + timedelta(milliseconds=each) for each in values]
        if name == "user_properties":
            values = [None if each is None else list(each.items()) for each in values]
        columns[name] = pa.array(values, kind)
    return pa.RecordBatch.from_pydict(columns)


def _through_the_wire(batch: Any) -> Columns:
    out = encode_rows(batch)
    data = out.encoded()
    return read_columns(data, 0, len(data), count=batch.num_rows, columns=out.columns)


def _optional(columns: Columns, bit: int) -> list[bytes | None]:
    return columns.optional_values(bit) if columns.columns & bit else [None] * columns.count


def _numbers(columns: Columns, bit: int, absent: int) -> list[int]:
    return columns.numbers(bit) if columns.columns & bit else [absent] * columns.count


def _properties(columns: Columns) -> list[dict[str, str]]:
    if not columns.columns & wire.PROPERTIES:
        return [{} for _ in range(columns.count)]
    offsets, name_offsets, names, _types, value_offsets, values = columns.buffers(wire.PROPERTIES)
    pairs = zip(cut_values(name_offsets, names), cut_values(value_offsets, values), strict=True)
    return [{(pair := next(pairs))[0].decode(): pair[1].decode() for _ in range(count)} for count in counts_of(offsets)]
