"""A program for test_connect: copy a queue over Spark Connect, as a batch and as a stream.

It takes the URLs of the server and of the gateway, and a folder.

It tries again itself what jobs try again, for on a busy machine Spark may give up a Python that starts too slowly.
"""

import sys
from threading import Event

from pyspark.sql import SparkSession

from pipeline.supervision import supervise

ENDS_S = 240


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


def main(server: str, url: str, folder: str) -> None:
    """Copy, and print the count."""
    spark = SparkSession.builder.remote(server).getOrCreate()
    print("rows", supervise(lambda: copy(spark, url, folder), lambda: 0, Event()), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3])
