"""Archives are read with all columns of the source, whatever each of their files has."""

from pathlib import Path
from threading import Event

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from sluicegate.pipeline.archive.reader import Archived
from sluicegate.pipeline.failures import JobFailed
from sluicegate.pipeline.run.attempt import supervise
from support.spark.archives import BEGAN, Archive, numbered, write_archives


def test_an_archive_has_its_columns_though_another_one_beside_it_has_fewer(spark: SparkSession, tmp_path: Path) -> None:
    """Spark goes by one file, the first by its path. Without its keys a replay would lose the order of messages."""
    path = write_archives(tmp_path, Archive("orders", numbered(10)))
    small = Path(path) / "queue=alarms" / "dt=2026-03-04" / "batch=0_0" / "0.parquet"
    small.parent.mkdir(parents=True)
    times = pa.array([BEGAN], pa.timestamp("us", tz="UTC"))
    pq.write_table(pa.table({"received": times, "payload": [b"x"], "value": pa.array([1.5])}), small)
    rows = Archived(path=path).rows(spark)
    (alarm,) = rows.where("queue = 'alarms'").collect()
    assert (bytes(alarm.payload), alarm.value, alarm.topic, alarm.user_properties) == (b"x", 1.5, None, None)
    orders = rows.where("queue = 'orders'").orderBy("received").collect()
    assert [(row.partition_key, row.user_properties) for row in orders] == [
        (key, {"number": str(number)}) for number, (_, key) in enumerate(numbered(10))
    ]


def test_a_job_over_a_damaged_file_fails_with_a_line_that_names_it(spark: SparkSession, tmp_path: Path) -> None:
    """Spark has no exception of Python for it, but one of Java."""
    path = write_archives(tmp_path, Archive("orders", numbered(10)))
    for file in Path(path).rglob("*.parquet"):
        file.write_bytes(b"half of a file")
    with pytest.raises(JobFailed, match=r"^SparkException: .*queue=orders/.*\.parquet.*") as failed:
        supervise(lambda: Archived(path=path).rows(spark).collect(), lambda: 0, Event())
    assert "\n" not in str(failed.value)
