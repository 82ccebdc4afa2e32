"""Columns of the wire as record batches of Spark."""

from datetime import UTC, datetime

import pyarrow as pa

from pyspark_sluicegate.columns import chosen_columns, record_batch
from sluicegate.messaging.message.headers import TIME_MS_MAX
from sluicegate.protocols.flow.codec import columns as wire
from sluicegate.protocols.flow.codec.columns import ColumnWriter, read_columns


def test_a_time_that_no_calendar_has_is_never() -> None:
    """HTTP takes a time to live of 2^53 ms; the rows of a batch are read by programs that know years up to 9999."""
    times = [0, 1_000, TIME_MS_MAX, TIME_MS_MAX + 1, 1 << 53]
    out = ColumnWriter()
    out.put(wire.EXPIRY_MS, [b"".join(each.to_bytes(8, "little") for each in times)])
    data = out.encoded()
    chunk = read_columns(data, 0, len(data), count=len(times), columns=out.columns)
    schema = pa.schema([("expiry", pa.timestamp("us", tz="UTC"))])
    found = record_batch(chosen_columns(["expiry"]), schema, chunk, "q", 0)
    assert found.column(0).to_pylist() == [
        None,
        datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
        None,
        None,
    ]
