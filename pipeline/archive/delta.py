"""A Delta table of an archive: the same directories of Parquet files, and a log that lists the valid ones.

Tasks write the files; the driver enters the files of a batch as one commit, together with the query's id and the
batch's number (Delta's transaction identifiers). A batch that is already entered is not written again, so readers of
the table find each message once, and a batch completely or not at all. The driver and all tasks see the table as a
folder.

All calls of the library `deltalake` are in this module: its errors have many lines, and name no table.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final, final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from sluicegate.pipeline.configuration import ConfigError
from sluicegate.pipeline.directories import BATCH, DAY, PARTITIONED_BY, BatchFile, as_it_is, files_of
from sluicegate.pipeline.failures import JobFailed

APPEND: Final = "append"


class TableMismatch(ConfigError):
    """A Delta table whose columns differ from the job's."""


class TableFailed(JobFailed):
    """A Delta table that cannot be read or written."""


@final
@dataclass(frozen=True, kw_only=True)
class CompactedTable:
    """The result for a table's days."""

    day_count: int
    files_before_count: int
    files_after_count: int
    removed_count: int  # files that no version names any longer


def ensure_table(path: str, schema: StructType) -> None:
    """Create the table if it is missing. Raises TableMismatch for a table with other columns or partitions.

    Raises TableFailed, as all functions here do.
    """
    wanted = Schema.from_arrow(_arrow(schema))
    with _told(path, "made"):
        table = DeltaTable.create(path, wanted, mode="ignore", partition_by=list(PARTITIONED_BY))
        found, partitions = table.schema(), table.metadata().partition_columns
    if _columns(found) != _columns(wanted) or tuple(partitions) != PARTITIONED_BY:
        raise TableMismatch(
            f"the Delta table {path} has the columns {', '.join(sorted(_columns(found)))}, by {', '.join(partitions)};"
            f" the job has {', '.join(sorted(_columns(wanted)))}, by {', '.join(PARTITIONED_BY)}. Give it another path"
        )


def has_batch(path: str, query_id: str, batch: int) -> bool:
    """Return whether the table has a batch already."""
    with _told(path, "read"):
        entered = DeltaTable(path).transaction_version(query_id)
    return entered is not None and entered >= batch


def enter_batch(path: str, name: str, schema: StructType, query_id: str, batch: int) -> None:
    """Enter the files that `write_batch` wrote under this name, all in one commit; none when there are none."""
    actions: list[AddAction | RemoveAction] = list(_actions(Path(path), files_of(Path(path), name)))
    if not actions:
        return
    with _told(path, "written"):
        DeltaTable(path).create_write_transaction(
            actions,
            APPEND,
            _arrow(schema),
            list(PARTITIONED_BY),
            commit_properties=CommitProperties(app_transactions=[Transaction(query_id, batch)]),
        )


def rows_of(spark: SparkSession, path: str) -> DataFrame:
    """Return the current rows of a table.

    Spark finds queue and day in the directories, and opens only files that match a condition. It requires files of
    equal depth in one read, so the files of batches and those of `compact_table` are separate reads. The latter's
    directory names contain the bytes of UTF-8, each of which Spark takes for a character.
    """
    with _told(path, "read"):
        table = DeltaTable(path)
        columns = StructType.fromJson(json.loads(table.schema().to_json()))  # Delta writes schemas as Spark does
        actions = pa.table(table.get_add_actions(flatten=True))
    files = [unquote(name) for name in actions["path"].to_pylist()]
    of_batches = [each for each in files if f"/{BATCH}=" in each]
    compacted = [each for each in files if f"/{BATCH}=" not in each]
    rows = spark.createDataFrame([], columns)
    for found, more, queue in (
        (of_batches, [StructField(BATCH, StringType())], fn.col("queue")),
        (compacted, [], fn.decode(fn.encode("queue", "ISO-8859-1"), "UTF-8")),
    ):
        if found:
            read = spark.read.schema(StructType([*columns.fields, *more])).option("basePath", path)
            part = read.parquet(*(as_it_is(Path(path) / each) for each in found)).withColumn("queue", queue)
            rows = rows.unionByName(part.select(columns.names))
    return rows


def compact_table(path: str, before: date, *, file_bytes: int, replaced_kept_h: int) -> CompactedTable:
    """Merge the days before a date into few files of about `file_bytes`, and remove files long unnamed."""
    with _told(path, "compacted"):
        table = DeltaTable(path)
        found = table.optimize.compact(partition_filters=[(DAY, "<", before.isoformat())], target_size=file_bytes)
        # A batch that `archive` is writing is younger than that.
        removed = table.vacuum(replaced_kept_h, dry_run=False, enforce_retention_duration=False)
    return CompactedTable(
        day_count=found["partitionsOptimized"],
        files_before_count=found["numFilesRemoved"],
        files_after_count=found["numFilesAdded"],
        removed_count=len(removed),
    )


@contextmanager
def _told(path: str, done: str) -> Iterator[None]:
    """Translate the library's errors to TableFailed: one line, which names the table."""
    try:
        yield
    except (DeltaError, OSError) as error:
        said = str(error).partition("\n")[0]
        if isinstance(error, TableNotFoundError):
            said += ". Wanted is a folder with a whole log, as `archive` makes it"
        raise TableFailed(f"the Delta table {path} could not be {done}: {said}") from None


def _actions(root: Path, files: Iterable[BatchFile]) -> Iterable[AddAction]:
    for file in files:
        stat = file.path.stat()
        yield AddAction(
            path=str(file.path.relative_to(root)),
            size=stat.st_size,
            partition_values={"queue": file.queue, DAY: file.day},
            modification_time=int(stat.st_mtime * 1000),
            data_change=True,
            stats=json.dumps({"numRecords": pq.read_metadata(file.path).num_rows}),
        )


def _columns(schema: Schema) -> dict[str, str]:
    return {field.name: str(field.type) for field in schema.fields}


def _arrow(schema: StructType) -> Any:
    return to_arrow_schema(schema, timezone="UTC")
