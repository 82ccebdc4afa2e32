"""`archive`: what comes into a queue, as Parquet files.

A batch has directories of its own, and writing it again replaces them; so each message is there once for any reader of
the files, whatever crashed. Spark's own file sink keeps that promise to Spark alone, through a log beside the files.
The directories are named after the query as well as the batch: a lost checkpoint counts from 0 again. Between them is
an underscore, with which no name is taken for a number: `1234567e-5` would be.
"""

from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.query import StreamingQuery

from pipeline.configuration import ArchiveJob
from pipeline.trigger import Trigger
from pyspark_sluicegate.checkpoint import query_id

LINEAGE_CHARACTERS: Final = 8  # of the query's id: 32 bits, for the few queries that ever write to one archive


def archive(spark: SparkSession, config: ArchiveJob, trigger: Trigger) -> StreamingQuery:
    """Start the query: `PATH/queue=Q/dt=DAY/batch=LINEAGE_N/*.parquet`, with the day in UTC of `received`."""

    def write(rows: DataFrame, batch: int) -> None:
        lineage = query_id(config.checkpoint)[:LINEAGE_CHARACTERS]
        placed = rows.withColumns({"dt": fn.to_date("received"), "batch": fn.lit(f"{lineage}_{batch}")})
        (
            placed.write.mode("overwrite")
            .option("partitionOverwriteMode", "dynamic")
            .partitionBy("queue", "dt", "batch")
            .parquet(config.archive.path)
        )

    rows = spark.readStream.format("sluicegate").options(**config.source_options).load()
    writer = rows.writeStream.foreachBatch(write).option("checkpointLocation", config.checkpoint)
    return trigger.set_on(writer).start()
