"""A Delta table of an archive: the same directories of Parquet files, and a log that says which of them count.

Tasks write the files; the driver enters those of a batch as one commit, together with the query's id and the batch's
number (Delta's transaction identifiers). A batch that is entered is not written again, so readers of the table find
each message once, and a batch whole or not at all. The table is a folder that the driver and all tasks see.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.transaction import AddAction, RemoveAction
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pipeline.configuration import ConfigError
from pipeline.directories import DAY, PARTITIONED_BY, BatchFile, files_of

APPEND: Final = "append"


class TableMismatch(ConfigError):
    """A Delta table whose columns are not those of the job."""


def ensure_table(path: str, schema: StructType) -> None:
    """Make the table unless it is there. Raises TableMismatch when it is, with other columns or partitions."""
    wanted = Schema.from_arrow(_arrow(schema))
    table = DeltaTable.create(path, wanted, mode="ignore", partition_by=list(PARTITIONED_BY))
    found, partitions = table.schema(), table.metadata().partition_columns
    if _columns(found) != _columns(wanted) or tuple(partitions) != PARTITIONED_BY:
        raise TableMismatch(
            f"the Delta table {path} has the columns {', '.join(sorted(_columns(found)))}, by {', '.join(partitions)};"
            f" the job has {', '.join(sorted(_columns(wanted)))}, by {', '.join(PARTITIONED_BY)}. Give it another path"
        )


def has_batch(path: str, query_id: str, batch: int) -> bool:
    """Return whether the table has a batch already."""
    entered = DeltaTable(path).transaction_version(query_id)
    return entered is not None and entered >= batch


def enter_batch(path: str, name: str, schema: StructType, query_id: str, batch: int) -> None:
    """Enter the files that `write_batch` wrote under this name, all in one commit; none when there are none."""
    actions: list[AddAction | RemoveAction] = list(_actions(Path(path), files_of(Path(path), name)))
    if not actions:
        return
    DeltaTable(path).create_write_transaction(
        actions,
        APPEND,
        _arrow(schema),
        list(PARTITIONED_BY),
        commit_properties=CommitProperties(app_transactions=[Transaction(query_id, batch)]),
    )


def rows_of(spark: SparkSession, path: str) -> DataFrame:
    """Return the rows of a table as it is now. Raises what Delta does where there is none.

    What its files lack, and their directories may write in two ways (those that `compact` made have no batch), are the
    values of the columns that the table is partitioned by: they come from the log.
    """
    table = DeltaTable(path)
    columns = StructType.fromJson(json.loads(table.schema().to_json()))  # Delta writes schemas as Spark does
    partitioned_by = table.metadata().partition_columns
    in_files = StructType([each for each in columns.fields if each.name not in partitioned_by])
    parts: dict[tuple[object, ...], list[str]] = {}
    for file in pa.table(table.get_add_actions(flatten=True)).to_pylist():
        values = tuple(file[f"partition.{name}"] for name in partitioned_by)
        parts.setdefault(values, []).append(str(Path(path) / unquote(file["path"])))
    rows = spark.createDataFrame([], columns)
    for values, files in parts.items():
        named = {name: fn.lit(value) for name, value in zip(partitioned_by, values, strict=True)}
        rows = rows.unionByName(spark.read.schema(in_files).parquet(*files).withColumns(named))
    return rows


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
