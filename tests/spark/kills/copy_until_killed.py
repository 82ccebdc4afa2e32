"""A program for tests that kill it: copy the queue `from` to Parquet files, to a Delta table and to the queue `to`.

It takes the gateway's URL and a folder, and runs where jobs do: where `spark-submit` says, or else in itself. It ends
when everything is through; run again it goes on from the checkpoints in the folder. And it tries again what jobs try
again, for on a busy machine Spark may give up a Python that starts too slowly.
"""

import sys
from pathlib import Path
from threading import Event

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_sluicegate.options import SourceOptions
from pyspark_sluicegate.reading.acknowledging import Acknowledger, sweep
from sluicegate.pipeline.configuration import DELTA, PARQUET, ArchiveJob, ArchiveTable, SessionSettings
from sluicegate.pipeline.jobs.archive import archive
from sluicegate.pipeline.run.attempt import Trigger, supervise
from sluicegate.pipeline.spark.session import spark_session

ROWS_OF_A_BATCH = 500
CHUNK_BYTES = 5_000  # several of a range: so a test can say in which it is killed
RETRY_MS = 120_000  # the gateway is killed as well, on machines that are busy


def source(url: str, cursor: str, mode: str) -> dict[str, bool | int | str]:
    """Return the options of a reader of the queue."""
    return {
        "url": url,
        "queue": "from",
        "cursor": cursor,
        "mode": mode,
        "maxRowsPerTrigger": ROWS_OF_A_BATCH,
        "chunkBytes": CHUNK_BYTES,
        "retryMs": RETRY_MS,
    }


def to_files(spark: SparkSession, url: str, folder: Path, files_are: str) -> StreamingQuery:
    """Start the job that operators run."""
    table = {"path": str(folder / files_are), "format": files_are}
    config = ArchiveJob(
        source=source(url, files_are, "tap"),
        checkpoint=str(folder / f"{files_are}.checkpoint"),
        archive=ArchiveTable.model_validate(table),
    )
    return archive(spark, config, Trigger(None))


def to_queue(spark: SparkSession, url: str, folder: Path) -> StreamingQuery:
    """Start a query from the source to the sink."""
    given = {name: str(value) for name, value in source(url, "copy", "consume").items()}
    rows = spark.readStream.format("sluicegate").options(**given, columns="payload,partition_key").load()
    writer = rows.writeStream.format("sluicegate").options(
        url=url, queue="to", retryMs=str(RETRY_MS), checkpointLocation=str(folder / "queue.checkpoint")
    )
    return writer.trigger(availableNow=True).start()


def copy(spark: SparkSession, url: str, folder: Path) -> None:
    """Run all queries to their end, side by side."""
    queries: list[StreamingQuery] = []
    try:
        queries.append(to_queue(spark, url, folder))
        queries += [to_files(spark, url, folder, files_are) for files_are in (PARQUET, DELTA)]
        for query in queries:
            query.awaitTermination()
    finally:
        for query in queries:
            query.stop()


def main(url: str, folder: Path) -> None:
    """Copy what is there."""
    connect = SourceOptions.of({"url": url, "queue": "from", "retryMs": str(RETRY_MS)}).connect
    checkpoints = [str(folder / f"{to}.checkpoint") for to in ("queue", PARQUET, DELTA)]
    for each in checkpoints:
        sweep(connect, each)
    with spark_session("copy", SessionSettings(memory="512m")) as spark:
        spark.streams.addListener(Acknowledger(connect))
        supervise(lambda: copy(spark, url, folder), lambda: 0, Event())
    for each in checkpoints:
        sweep(connect, each)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
