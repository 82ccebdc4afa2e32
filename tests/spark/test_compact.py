"""The job `compact`: days that are over, in files and in Delta tables."""

import os
import re
import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession

from sluicegate.pipeline.archive.delta import ensure_table, enter_batch
from sluicegate.pipeline.archive.reader import Archived
from sluicegate.pipeline.configuration import DELTA
from sluicegate.pipeline.directories import as_it_is, with_day, write_batch
from sluicegate.pipeline.failures import JobFailed
from sluicegate.pipeline.jobs.compact.days import DONE, NEW, OLD, WORK, alone_in
from sluicegate.pipeline.jobs.compact.job import CompactJob, CompactResult, CompactTable, compact

pytestmark = pytest.mark.slow

DAY = datetime(2026, 3, 4, 5, tzinfo=UTC)
QUEUE = "plant/{007}"  # a name that directories and patterns read differently
SCHEMA = "queue string, partition int, sequence long, received timestamp, payload binary"


def rows(spark: SparkSession, sequences: Sequence[int], at: datetime = DAY) -> DataFrame:
    made = [(QUEUE, n % 2, n, at + timedelta(milliseconds=n), str(n).encode()) for n in sequences]
    return with_day(spark.createDataFrame(made, SCHEMA)).coalesce(1)


def compacted(spark: SparkSession, path: Path, **more: object) -> CompactResult:
    return compact(spark, CompactJob(compact=CompactTable.model_validate({"path": str(path), **more})))


def found(spark: SparkSession, path: Path) -> list[int]:
    """What a reader of the folder finds."""
    return sorted(int(bytes(row.payload)) for row in spark.read.parquet(str(path)).select("payload").collect())


def files(path: Path) -> list[Path]:
    return sorted(path.glob("queue=*/dt=*/batch=*/*.parquet"))


@pytest.fixture
def archive(written: Path, tmp_path: Path) -> Path:
    """An archive of a test's own."""
    return Path(shutil.copytree(written, tmp_path / "archive"))


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A day of three batches, of which the last was written after a lost checkpoint and repeats some; and today."""
    folder = tmp_path_factory.mktemp("written")
    for name, sequences in (("a_0", range(0, 20)), ("a_1", range(20, 40)), ("b_0", range(30, 50))):
        write_batch(rows(spark, sequences), str(folder), name)
    write_batch(rows(spark, [100, 101], datetime.now(UTC)), str(folder), "a_2")
    write_batch(rows(spark, [102], datetime.now(UTC)), str(folder), "a_3")
    return folder


def test_a_day_that_is_over_becomes_one_file_in_order_with_each_message_once(
    spark: SparkSession, archive: Path
) -> None:
    result = compacted(spark, archive)
    assert (result.day_count, result.files_before_count, result.files_after_count) == (1, 3, 1)
    assert result.repeats_count == 10
    assert found(spark, archive) == [*range(50), 100, 101, 102]
    (file,) = [each for each in files(archive) if "dt=2026-03-04" in str(each)]
    places = [(row.partition, row.sequence) for row in spark.read.parquet(as_it_is(file)).collect()]
    assert places == sorted(places)
    again = compacted(spark, archive)
    assert again.figures() == {"days": 0, "files_before": 0, "files_after": 0, "repeats": 0, "removed": 0, "left": {}}


def test_late_messages_join_their_day_in_the_next_run(spark: SparkSession, archive: Path) -> None:
    compacted(spark, archive)
    write_batch(rows(spark, range(50, 60)), str(archive), "a_4")
    write_batch(rows(spark, range(0, 20)), str(archive), "a_0")  # again, for its query had crashed before it knew
    assert compacted(spark, archive).repeats_count == 20
    assert found(spark, archive) == [*range(60), 100, 101, 102]


@pytest.mark.parametrize("ended_after", ["manifest", "new in place", "some of the old away"])
def test_an_exchange_that_a_crash_ended_is_carried_through(
    spark: SparkSession, archive: Path, ended_after: str
) -> None:
    compacted(spark, archive)
    (work,) = [each for each in (archive / WORK).iterdir() if each.is_dir()]
    day = next(archive.glob("queue=*/dt=2026-03-04"))
    (work / DONE).unlink()
    for name in ("batch=a_1", "batch=b_0"):
        (work / OLD / name).rename(day / name)
    if ended_after != "some of the old away":
        (work / OLD / "batch=a_0").rename(day / "batch=a_0")
    if ended_after == "manifest":
        (day / f"batch={work.name}").rename(work / NEW)
    compacted(spark, archive)
    assert found(spark, archive) == [*range(50), 100, 101, 102]


def test_a_write_that_a_crash_ended_counts_for_nothing(spark: SparkSession, archive: Path) -> None:
    unfinished = archive / WORK / "compact_0" / NEW
    shutil.copytree(next(archive.glob("queue=*/dt=2026-03-04/batch=a_0")), unfinished)
    compacted(spark, archive)
    assert not unfinished.exists()
    assert found(spark, archive) == [*range(50), 100, 101, 102]


def test_replaced_files_are_removed_when_their_time_is_over(spark: SparkSession, archive: Path) -> None:
    compacted(spark, archive)
    (work,) = [each for each in (archive / WORK).iterdir() if each.is_dir()]
    long_ago = (datetime.now(UTC) - timedelta(hours=200)).timestamp()
    os.utime(work / DONE, (long_ago, long_ago))
    assert compacted(spark, archive, replaced_kept_h=300).removed_count == 0
    assert compacted(spark, archive).removed_count == 1
    assert not work.exists()


def test_two_compactions_of_one_archive_exclude_each_other(spark: SparkSession, archive: Path) -> None:
    with alone_in(archive), pytest.raises(JobFailed, match="is running"):
        compacted(spark, archive)


def copied(archive: Path, to: str, change: Callable[[int, pa.Table], pa.Table]) -> None:
    """Make another day of two batches of the one that is over, changed."""
    day = next(archive.glob("queue=*/dt=2026-03-04"))
    for number, name in enumerate(("batch=a_0", "batch=a_1")):
        table = pq.ParquetFile(next((day / name).glob("*.parquet"))).read()
        table = table.replace_schema_metadata(None)  # where Spark notes which columns it wrote
        batch = day.with_name(f"dt={to}") / name
        batch.mkdir(parents=True)
        pq.write_table(change(number, table), batch / "0.parquet")


def test_days_that_cannot_be_compacted_stay_as_they_are_and_keep_no_other_from_it(
    spark: SparkSession, archive: Path
) -> None:
    kinds = (pa.struct([("t", pa.int32())]), pa.struct([("t", pa.string())]))
    copied(archive, "2026-02-26", lambda number, table: table.drop_columns(["sequence"]))
    copied(
        archive, "2026-02-27", lambda number, table: table.append_column("value", pa.nulls(len(table), kinds[number]))
    )
    copied(archive, "2026-02-28", lambda number, table: table)
    next(archive.glob("queue=*/dt=2026-02-28/batch=a_0/*")).write_bytes(b"")  # as a host leaves it that lost its power
    before = {each: each.read_bytes() for each in files(archive) if "dt=2026-02" in str(each)}

    result = compacted(spark, archive)

    assert (result.day_count, result.files_after_count, result.is_clean) == (1, 1, False), "the fourth is done"
    reasons = [why for _, why in sorted(result.left.items())]
    said = ["lacks the columns sequence", "<t: INT>.* cannot be merged .*<t: STRING>", "batch=a_0/0.parquet is damaged"]
    assert len(reasons) == len(said)
    assert all(re.search(pattern, why) for pattern, why in zip(said, reasons, strict=True)), reasons
    assert {each: each.read_bytes() for each in files(archive) if "dt=2026-02" in str(each)} == before


def test_a_delta_table_is_compacted_in_its_log(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path)
    batches = [(rows(spark, range(0, 20)), "a_0"), (rows(spark, range(20, 40)), "a_1")]
    batches += [(rows(spark, [100 + n], datetime.now(UTC)), f"a_{2 + n}") for n in range(2)]
    ensure_table(path, batches[0][0].schema)
    for number, (batch, name) in enumerate(batches):
        write_batch(batch, path, name)
        enter_batch(path, name, batch.schema, "query", number)
    result = compacted(spark, tmp_path, format=DELTA)
    assert (result.day_count, result.files_before_count, result.files_after_count) == (1, 2, 1)
    table = DeltaTable(path)
    assert len(table.file_uris()) == 3, "today is left alone"
    assert sorted(table.to_pyarrow_table()["sequence"].to_pylist()) == [*range(40), 100, 101]
    assert table.transaction_version("query") == 3
    read_again = Archived(path=path, format=DELTA, where="dt < current_date()").rows(spark)
    assert read_again.columns == batches[0][0].columns
    read_again.explain()
    scans = [each for each in capsys.readouterr().out.splitlines() if "FileScan" in each]
    assert len(scans) == 2, "of batches, and of what was compacted, however many days there are"
    assert all("PartitionFilters: [isnotnull(dt" in each for each in scans), "other days are not opened"
    assert sorted((row.queue, row.sequence) for row in read_again.collect()) == [(QUEUE, n) for n in range(40)]
    with pytest.raises(JobFailed, match="is a Delta table, and format is parquet"):
        compacted(spark, tmp_path)


def test_a_queue_keeps_its_name_in_a_delta_table_that_was_compacted(spark: SparkSession, tmp_path: Path) -> None:
    """Delta escapes the bytes of UTF-8 in a directory's name, where Spark escapes characters."""
    name = "Größe/7"
    day = pa.table({"queue": [name], "dt": [DAY.date()], "sequence": [1]})
    for _ in range(2):
        write_deltalake(str(tmp_path), day, partition_by=["queue", "dt"], mode="append")
    compacted(spark, tmp_path, format=DELTA)
    read_again = Archived(path=str(tmp_path), format=DELTA, where=f"queue = '{name}'").rows(spark)
    assert [(row.queue, row.sequence) for row in read_again.collect()] == [(name, 1), (name, 1)]
