"""The job `aggregate`: its file, the query, and the destinations of its results.

A batch is written under the names of its query and itself, and published as a transaction of that name; so a batch that
runs again after a crash writes and publishes nothing twice.
"""

from datetime import timedelta
from typing import Annotated, Any, Final, Self, final

from pydantic import Field, field_validator, model_validator
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_sluicegate.options import OptionError
from pyspark_sluicegate.reading.checkpoint import query_id
from sluicegate.pipeline.configuration import SchemaTable, Section, StreamJob, as_options, check_target
from sluicegate.pipeline.decode.stage import DECODE_ERROR, decoded, decoder_for
from sluicegate.pipeline.directories import DAY, as_it_is, batch_name, with_day, write_batch
from sluicegate.pipeline.jobs.aggregate.windows import END, START, WindowsTable, aggregated
from sluicegate.pipeline.report.page import write_report
from sluicegate.pipeline.run.attempt import Trigger
from sluicegate.pipeline.run.progress import UNDECODABLE

PUBLISHED: Final = ("payload", "partition_key", "timestamp", "content_type")
STATE_PARTITIONS_MAX: Final = 1_000
REPORT_DAYS_MAX: Final = 3_660


@final
class AggregateTable(Section):
    """`[aggregate]`: the measures and their destinations."""

    windows: WindowsTable
    path: Annotated[str, Field(min_length=1)] | None = None  # Parquet: PATH/dt=DAY/batch=NAME
    report: Annotated[str, Field(min_length=1)] | None = None  # a page of the data at path
    report_days: Annotated[int, Field(ge=1, le=REPORT_DAYS_MAX)] = 90  # of it, up to the newest
    target: dict[str, bool | int | str] | None = None  # options of the sink, with queue or topic
    state_partitions: Annotated[int, Field(ge=1, le=STATE_PARTITIONS_MAX)] = 8  # fixed at the first start

    @field_validator("target")
    @classmethod
    def _check_target(cls, target: dict[str, bool | int | str] | None) -> dict[str, bool | int | str] | None:
        if target is None:
            return None
        if not {"queue", "topic"} & {name.lower() for name in target}:
            raise OptionError("where to? Give queue or topic")
        check_target(target, PUBLISHED)
        return target

    @model_validator(mode="after")
    def _check_somewhere(self) -> Self:
        if self.path is None and self.target is None:
            raise ValueError("where to? Give path, target, or both")
        if self.report is not None and self.path is None:
            raise ValueError("report shows what is at path, which is missing")
        return self


@final
class AggregateJob(StreamJob):
    """The file of `aggregate`."""

    aggregate: AggregateTable
    decode: SchemaTable = SchemaTable()


def aggregate(spark: SparkSession, config: AggregateJob, trigger: Trigger) -> StreamingQuery:
    """Start the query. Raises SchemaError and Spark's errors."""
    table = config.aggregate
    # Spark's default of 200 is for clusters: each is a store of state that every batch opens.
    spark.conf.set("spark.sql.shuffle.partitions", table.state_partitions)

    def write(found: DataFrame, number: int) -> None:
        name = batch_name(query_id(config.checkpoint), number)
        found.persist()  # it is read more than once, and taken from the state once
        try:
            if not found.isEmpty():
                _keep(found, table, name)
        finally:
            found.unpersist()

    rows = spark.readStream.format("sluicegate").options(**config.source_options).load()
    decoder = decoder_for(config.decode)
    if decoder is not None:
        observed = decoded(rows, decoder).observe(UNDECODABLE, fn.count(DECODE_ERROR).alias(UNDECODABLE))
        rows = observed.where(fn.col(DECODE_ERROR).isNull())
    writer = aggregated(rows, table.windows).writeStream.outputMode("append").foreachBatch(write)
    return trigger.set_on(writer.option("checkpointLocation", config.checkpoint)).start()


def _keep(found: DataFrame, table: AggregateTable, name: str) -> None:
    if table.target is not None:
        messages = _messages(found, list(table.windows.by))
        options = {**as_options(table.target), "txn": f"aggregate/{name}"}
        messages.write.format("sluicegate").mode("append").options(**options).save()
    if table.path is not None:
        write_batch(with_day(found, START).coalesce(1), table.path, name, by=(DAY,))
    if table.report is not None and table.path is not None:
        kept = _latest_days(found, table.path, table.report_days)
        from sluicegate.pipeline.jobs.aggregate.page import page  # late: jobs begin without Matplotlib

        write_report(page(kept, table.windows, table.path), table.report)


def _latest_days(found: DataFrame, path: str, count: int) -> DataFrame:
    """Return the stored rows of the last `count` days up to the newest in a batch. Older ones are not read."""
    newest: Any = found.agg(fn.max(fn.to_date(START)).alias("day")).first()
    days = ",".join(str(newest.day - timedelta(days=each)) for each in range(count))
    # By the columns of now: earlier measures were others perhaps, and Spark would go by those of one file.
    read = found.sparkSession.read.schema(found.schema).option("basePath", path)
    return read.parquet(f"{as_it_is(path)}/{DAY}={{{days}}}")


def _messages(found: DataFrame, by: list[str]) -> DataFrame:
    """Return a message of JSON for each row, with the groups as its key and the window's end as its time."""
    return found.coalesce(1).sortWithinPartitions(END).select(
        fn.to_json(fn.struct("*")).cast("binary").alias("payload"),
        (fn.concat_ws("/", *by) if by else fn.lit(None).cast("string")).alias("partition_key"),
        fn.col(END).alias("timestamp"),
        fn.lit("application/json").alias("content_type"),
    )  # fmt: skip
