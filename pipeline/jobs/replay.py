"""`replay`: publishes a part of an archive again, to a queue or to topics.

The rows of each partition are published in their original order, in chunks of one transaction each, one after the
other. The name of a chunk's transaction contains the replay, the sizes of all its chunks, and its number. So a replay
that starts again, after any failure, publishes each row once. The job refuses a replay with other chunks: a published
row could be in several of them, or an unpublished one in none. This relies on an unchanged number of rows.
"""

import hashlib
import json
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Event
from typing import Annotated, Any, Final, final

from pydantic import Field, field_validator
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as fn

from pyspark_sluicegate.connection import bulk_for
from pyspark_sluicegate.options import SinkOptions
from sluicegate import BlockingBulk
from sluicegate.pipeline.archive.reader import Archived
from sluicegate.pipeline.configuration import JobFile, Section, as_options, check_target
from sluicegate.pipeline.failures import JobFailed

REPLAY_OF: Final = "x-replay-of"  # user property: queue/partition/sequence that the message had
CHUNK_ROWS_MAX: Final = 1_000_000
CUT_CHARACTERS: Final = 16  # of the hash of a replay's chunks

# What becomes of a message's columns is the sink's matter; these are those that it takes. An expiry is over.
_KEPT: Final = (
    "payload", "partition_key", "priority", "timestamp", "message_id", "correlation_id", "reply_to", "content_type",
)  # fmt: skip
_NO_PROPERTIES: Final = "cast(array() as array<struct<key: string, value: string>>)"

_log: Final = logging.getLogger("pipeline")


@final
class ReplayTable(Section):
    """`[replay]`: the rows, their destination, the name of the replay, and its rate."""

    id: Annotated[str, Field(pattern=r"^[\w.-]{1,100}$")]
    archive: Archived
    target: dict[str, bool | int | str]  # options of the sink; without queue and topic each goes to the topic it had
    chunk_rows: Annotated[int, Field(ge=1, le=CHUNK_ROWS_MAX)] = 50_000
    rows_per_s: Annotated[int, Field(ge=1)] | None = None
    dry_run: bool = False

    @field_validator("target")
    @classmethod
    def _check_target(cls, target: dict[str, bool | int | str]) -> dict[str, bool | int | str]:
        check_target(target, ("topic", *_KEPT))
        return target


@final
class ReplayJob(JobFile):
    """The file of `replay`."""

    replay: ReplayTable


@final
@dataclass(frozen=True, kw_only=True)
class ReplayResult:
    """The rows that were replayed, or would be."""

    row_count: int
    key_count: int
    chunk_count: int
    first_received: str
    last_received: str
    is_dry_run: bool

    @property
    def is_clean(self) -> bool:
        """Always true: a replay has no findings."""
        return True

    def figures(self) -> Mapping[str, object]:
        """Return the results, as JSON values."""
        return {
            "rows": self.row_count,
            "keys": self.key_count,
            "chunks": self.chunk_count,
            "first_received": self.first_received,
            "last_received": self.last_received,
            "dry_run": self.is_dry_run,
        }


def replay(spark: SparkSession, config: ReplayJob) -> ReplayResult:
    """Publish the rows, or count them. Raises JobFailed if there are none, and the errors of Spark and the sink."""
    table = config.replay
    rows = table.archive.rows(spark)
    totals: Any = rows.agg(
        fn.count("*").alias("rows"),
        fn.count_distinct("queue", "partition").alias("partitions"),
        fn.count_distinct("partition_key").alias("keys"),
        fn.date_format(fn.min("received"), "yyyy-MM-dd HH:mm:ss.SSS").alias("first"),
        fn.date_format(fn.max("received"), "yyyy-MM-dd HH:mm:ss.SSS").alias("last"),
    ).first()
    if not totals.rows:
        raise JobFailed(f"replay.archive: no message in {table.archive.path} where {table.archive.where}")
    chunked = _chunked(rows, max(1, table.chunk_rows // totals.partitions)).persist()
    try:
        sizes = [row["count"] for row in chunked.groupBy("chunk").count().orderBy("chunk").collect()]
        if not table.dry_run:
            _publish(chunked, sizes, table)
    finally:
        chunked.unpersist()
    return ReplayResult(
        row_count=totals.rows,
        key_count=totals["keys"],
        chunk_count=len(sizes),
        first_received=totals.first,
        last_received=totals.last,
        is_dry_run=table.dry_run,
    )


def _chunked(rows: DataFrame, rows_of_each: int) -> DataFrame:
    """Number the rows of each partition in order, and put an equal number of each into a chunk."""
    order = Window.partitionBy("queue", "partition").orderBy("sequence")
    numbered = rows.withColumn("number", fn.row_number().over(order) - 1)
    return numbered.withColumn("chunk", fn.floor(fn.col("number") / rows_of_each).cast("int"))


def _publish(chunked: DataFrame, sizes: list[int], table: ReplayTable) -> None:
    began_s, done, pause = time.monotonic(), 0, Event()
    begun = f"replay/{table.id}"  # without a message; committed behind the first chunk
    transactions = _transactions(begun, sizes)
    bulk = bulk_for(SinkOptions.of(as_options(table.target), ("topic", *_KEPT)).connect)
    if _is_committed(bulk, begun) and not _is_committed(bulk, transactions[0]):
        raise JobFailed(
            f"replay.id: {table.id} has begun with other chunks: with another chunk_rows, or other messages."
            " Change that back, or give the replay another id, under which nothing was published yet"
        )
    for number, size in enumerate(sizes):
        (
            _messages(chunked.where(fn.col("chunk") == number))
            .write.format("sluicegate")
            .mode("append")
            .options(**as_options(table.target), txn=transactions[number])
            .save()
        )
        if number == 0:
            bulk.commit_staged(begun, {})
        done += size
        _log.info("replay %s: %d of %d messages, chunk %d of %d", table.id, done, sum(sizes), number + 1, len(sizes))
        if table.rows_per_s is not None and number + 1 < len(sizes):
            pause.wait(max(0.0, began_s + done / table.rows_per_s - time.monotonic()))


def _transactions(replay: str, sizes: list[int]) -> list[str]:
    """Return the name of each chunk's transaction. A replay with other chunks has other names."""
    cut = hashlib.sha256(json.dumps(sizes).encode()).hexdigest()[:CUT_CHARACTERS]
    return [f"{replay}/{cut}/{number}" for number in range(len(sizes))]


def _is_committed(bulk: BlockingBulk, transaction: str) -> bool:
    """Ask the gateway whether a transaction is committed; if not, drop rows that a crash left in it."""
    return bulk.abort_staged(transaction).already


def _messages(chunk: DataFrame) -> DataFrame:
    """Return a chunk for one task, in order within each partition."""
    place = fn.concat_ws("/", "queue", "partition", "sequence")
    properties = fn.array(fn.struct(fn.lit(REPLAY_OF).alias("key"), place.alias("value")))
    if "user_properties" in chunk.columns:
        # Entries and no map: names may repeat, and of two maps Spark makes none in which one does.
        had = fn.coalesce(fn.map_entries("user_properties"), fn.expr(_NO_PROPERTIES))
        properties = fn.concat(fn.filter(had, lambda each: each["key"] != REPLAY_OF), properties)
    kept = [name for name in ("topic", *_KEPT) if name in chunk.columns]
    return (
        chunk.coalesce(1)
        .sortWithinPartitions("number", "queue", "partition")
        .select(*kept, properties.alias("user_properties"))
    )
