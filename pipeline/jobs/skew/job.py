"""The job `skew`: its file, and the counts by Spark."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, final

from pydantic import Field
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from sluicegate.messaging.queues.attributes import PARTITION_COUNT_MAX
from sluicegate.pipeline.archive.reader import Archived
from sluicegate.pipeline.configuration import JobFile, Section
from sluicegate.pipeline.failures import JobFailed
from sluicegate.pipeline.jobs.skew.shares import (
    HASHED,
    PARTITIONS_MAX,
    KeyShare,
    PartitionShare,
    SkewResult,
    loads,
    with_empty,
    with_hashes,
)
from sluicegate.pipeline.report.page import write_report

KEYS_SHOWN_MAX: Final = 1_000


@final
class SkewTable(Section):
    """`[skew]`: the archive, what is counted, and the file of the page."""

    report: Annotated[str, Field(min_length=1)]
    archive: Archived
    key: Annotated[str, Field(min_length=1)] = "partition_key"  # SQL over the columns
    partitions: Annotated[int, Field(ge=1, le=PARTITION_COUNT_MAX)] | None = None  # None: up to the last that has some
    consumers: Annotated[int, Field(ge=1, le=PARTITIONS_MAX)] | None = None  # to be kept busy; None: one a partition
    keys: Annotated[int, Field(ge=1, le=KEYS_SHOWN_MAX)] = 20  # shown, the busiest first
    alert_above: Annotated[float, Field(ge=1)] | None = None  # of the busiest partition's messages over the mean


@final
class SkewJob(JobFile):
    """The file of `skew`."""

    skew: SkewTable


@final
@dataclass(frozen=True)
class _Counted:
    """The counts, from a row for each key in each partition."""

    rows: DataFrame

    def totals(self) -> Any:
        """Return the totals in one row."""
        return self.rows.agg(
            fn.coalesce(fn.sum("messages"), fn.lit(0)).alias("messages"),
            fn.coalesce(fn.sum(fn.when(fn.col("key").isNull(), fn.col("messages"))), fn.lit(0)).alias("keyless"),
            fn.count_distinct("key").alias("keys"),
            fn.count_distinct("queue").alias("queues"),
        ).first()

    def partitions(self) -> list[PartitionShare]:
        """Return the share of each partition."""
        found = self.rows.groupBy("partition").agg(
            fn.sum("messages").alias("messages"), fn.sum("bytes").alias("bytes"), fn.count("key").alias("keys")
        )
        return [
            PartitionShare(row.partition, row.messages, row.bytes, row["keys"])
            for row in found.orderBy("partition").collect()
        ]

    def busiest_keys(self, most: int) -> list[KeyShare]:
        """Return the keys with the most messages."""
        found = self.rows.where("key is not null").groupBy("key").agg(
            fn.sum("messages").alias("messages"),
            fn.sum("bytes").alias("bytes"),
            fn.array_sort(fn.collect_set("partition")).alias("partitions"),
        )  # fmt: skip
        return [
            KeyShare(row.key, row.messages, row.bytes, tuple(row.partitions))
            for row in found.orderBy(fn.desc("messages"), "key").limit(most).collect()
        ]

    def by_hash(self) -> Mapping[int, int]:
        """Return the number of messages by hash of their key: at most 65,536 numbers for any number of keys."""
        keyed = self.rows.where("key is not null").select("key", "messages")
        hashed = keyed.mapInArrow(with_hashes, HASHED)
        found = hashed.groupBy("hash").agg(fn.sum("messages").alias("messages"))
        return {row.hash: row.messages for row in found.collect()}


def skew(spark: SparkSession, config: SkewJob) -> SkewResult:
    """Count, and write the page. Raises JobFailed if there is nothing to count, and Spark's errors."""
    table = config.skew
    where = f"{table.archive.path} where {table.archive.where}"
    rows = _counted(table.archive.rows(spark), table.key).persist()
    try:
        counted = _Counted(rows)
        totals = counted.totals()
        if totals.queues != 1:
            raise JobFailed(f"skew.archive: messages of {totals.queues} queues in {where}; one queue is looked at")
        partitions = with_empty(counted.partitions(), table.partitions)
        found = SkewResult(
            message_count=totals.messages,
            keyless_count=totals.keyless,
            key_count=totals["keys"],
            partitions=partitions,
            keys=tuple(counted.busiest_keys(table.keys)),
            tried=tuple(loads(counted.by_hash(), totals.keyless)),
            consumer_count=table.consumers or min(len(partitions), PARTITIONS_MAX),
            alert_above=table.alert_above,
        )
    finally:
        rows.unpersist()
    from sluicegate.pipeline.jobs.skew.page import page  # late: jobs begin without Matplotlib

    write_report(page(found, where), table.report)
    return found


def _counted(rows: DataFrame, key: str) -> DataFrame:
    key_and_size = (fn.expr(key).cast("string").alias("key"), fn.length("payload").alias("size"))
    keyed = rows.select("queue", "partition", *key_and_size)
    counts = (fn.count("*").alias("messages"), fn.sum("size").alias("bytes"))
    return keyed.groupBy("queue", "partition", "key").agg(*counts)
