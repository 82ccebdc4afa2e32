"""Columns of the flow protocol: what is put in comes out, for a plain reader and for Apache Arrow."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.message import outcomes as settlement
from sluicegate.messaging.partitions.state import segments
from sluicegate.protocols.flow.codec import columns as c
from sluicegate.protocols.flow.codec.codes import PeerViolation
from sluicegate.protocols.flow.codec.columns import Columns, ColumnWriter, counts_of, cut_values, read_columns
from sluicegate.protocols.flow.codec.frames.rows import GAP_REASONS
from sluicegate.protocols.flow.codec.properties import property_text, property_value

I64 = st.integers(-(1 << 63), (1 << 63) - 1)
ROW = st.tuples(I64, st.binary(max_size=20), st.none() | st.binary(max_size=20), st.integers(0, 255))
ENTRY = st.tuples(st.binary(max_size=8), st.integers(0, 7), st.binary(max_size=8))


def read(writer: ColumnWriter, count: int) -> Columns:
    data = writer.encoded()
    return read_columns(data, 0, len(data), count=count, columns=writer.columns)


@given(rows=st.lists(ROW, min_size=1, max_size=40), entries=st.lists(st.lists(ENTRY, max_size=3), max_size=40))
def test_written_columns_are_read_back(
    rows: list[tuple[int, bytes, bytes | None, int]], entries: list[list[tuple[bytes, int, bytes]]]
) -> None:
    """Flow: columns. Goal: no length and no value is lost. Method: write, read, compare with the rows."""
    count = len(rows)
    entries = [*entries, *[[] for _ in rows]][:count]
    flat = [entry for row in entries for entry in row]
    writer = ColumnWriter()
    writer.put_numbers(c.SEQUENCE, [row[0] for row in rows])
    writer.put_values(c.PAYLOAD, [row[1] for row in rows])
    writer.put_optional(c.PARTITION_KEY, [row[2] for row in rows])
    writer.put(c.PRIORITY, [bytes([row[3] for row in rows])])
    types = bytes([entry[1] for entry in flat])
    writer.put_map(
        c.PROPERTIES, [len(row) for row in entries], [entry[0] for entry in flat], types, [entry[2] for entry in flat]
    )

    found = read(writer, count)

    assert found.numbers(c.SEQUENCE) == [row[0] for row in rows]
    assert found.values(c.PAYLOAD) == [row[1] for row in rows]
    assert found.optional_values(c.PARTITION_KEY) == [row[2] for row in rows]
    assert found.numbers(c.PRIORITY) == [row[3] for row in rows]
    offsets, name_offsets, names, kinds, value_offsets, values = found.buffers(c.PROPERTIES)
    assert counts_of(offsets) == [len(row) for row in entries]
    assert cut_values(name_offsets, names) == [entry[0] for entry in flat]
    assert bytes(kinds) == types
    assert cut_values(value_offsets, values) == [entry[2] for entry in flat]


def test_apache_arrow_wraps_the_buffers_as_they_are() -> None:
    """Flow: columns. The layout is Arrow's: https://arrow.apache.org/docs/format/Columnar.html."""
    writer = ColumnWriter()
    writer.put_numbers(c.SEQUENCE, [-1, 1 << 40, 3])
    writer.put_values(c.TOPIC, [b"a/b", b"", "ü".encode()])
    writer.put_optional(c.PARTITION_KEY, [None, b"k", None])
    writer.put(c.PRIORITY, [bytes([4, 9, 0])])
    writer.put_map(c.PROPERTIES, [2, 0, 1], [b"i", b"t", b"i"], bytes([3, 6, 3]), [b"-7", b"x", b"8"])
    rows = read(writer, 3)

    def buffers(column: int) -> list[pa.Buffer]:
        return [pa.py_buffer(buffer) for buffer in rows.buffers(column)]

    offsets, name_offsets, names, _, value_offsets, values = buffers(c.PROPERTIES)
    pairs = pa.StructArray.from_arrays(
        [
            pa.Array.from_buffers(pa.string(), 3, [None, name_offsets, names]),
            pa.Array.from_buffers(pa.string(), 3, [None, value_offsets, values]),
        ],
        fields=[pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string())],
    )
    found = [
        pa.Array.from_buffers(pa.int64(), 3, [None, *buffers(c.SEQUENCE)]),
        pa.Array.from_buffers(pa.string(), 3, [None, *buffers(c.TOPIC)]),
        pa.Array.from_buffers(pa.string(), 3, buffers(c.PARTITION_KEY)),
        pa.Array.from_buffers(pa.uint8(), 3, [None, *buffers(c.PRIORITY)]),
        pa.Array.from_buffers(pa.map_(pa.string(), pa.string()), 3, [None, offsets], children=[pairs]),
    ]
    for array in found:
        array.validate(full=True)
    assert [array.to_pylist() for array in found] == [
        [-1, 1 << 40, 3],
        ["a/b", "", "ü"],
        [None, "k", None],
        [4, 9, 0],
        [[("i", "-7"), ("t", "x")], [], [("i", "8")]],
    ]


@given(data=st.binary(max_size=120), count=st.integers(0, 5), columns=st.integers(0, c.ALL + 1))
def test_any_bytes_are_columns_or_a_violation(data: bytes, count: int, columns: int) -> None:
    """Flow: columns. Nothing but PeerViolation comes out, and what is accepted can be read row by row."""
    try:
        found = read_columns(data, 0, len(data), count=count, columns=columns)
        for column, kind in c.KINDS.items():
            if columns & column and kind in (c.VALUES, c.OPTIONAL):
                assert len(found.values(column)) == count
    except PeerViolation:
        return


@pytest.mark.parametrize("value", [None, True, False, 0, -(1 << 63), (1 << 64) - 1, 1.5, "ü", "", b"\0\xff", b""])
def test_a_property_is_the_same_after_its_text(value: str | bytes | float | None) -> None:
    """Flow: columns, user properties."""
    kind, text = property_text(value)
    again = property_value(kind, text)
    assert (again, type(again)) == (value, type(value))


@pytest.mark.parametrize(
    ("kind", "text"), [(3, b"x"), (3, b"9" * 19 + b"9"), (4, b"1" * 30), (5, b"x"), (7, b"=x"), (8, b""), (255, b"1")]
)
def test_a_text_that_is_no_property_of_its_type_is_refused(kind: int, text: bytes) -> None:
    """Flow: columns, user properties."""
    with pytest.raises(PeerViolation):
        property_value(kind, text)


def test_every_reason_of_a_gap_has_a_number() -> None:
    """Flow: reading in bulk, gaps."""
    discards = [value for name, value in vars(settlement).items() if name.startswith("DISCARD_")]
    assert {*discards, segments.GAP_SETTLED, segments.GAP_NEVER_USED, segments.GAP_MOVED} == set(GAP_REASONS[1:])
