"""A program for test_connect: copy a queue over Spark Connect, as a batch and as a stream. It takes URL and folder."""

import sys

from pyspark.sql import SparkSession

ENDS_S = 240


def main(url: str, folder: str) -> None:
    """Copy the queue `from` to `batch`, and then to `stream`. Prints how many rows a batch has."""
    spark = SparkSession.builder.remote("local[2,4]").getOrCreate()  # which starts a server, and connects to it
    given = {"url": url, "queue": "from", "columns": "payload,partition_key"}
    rows = spark.read.format("sluicegate").options(**given).load()
    print("rows", rows.count(), flush=True)
    rows.write.format("sluicegate").mode("append").options(url=url, queue="batch", txn="connect/1").save()
    changes = spark.readStream.format("sluicegate").options(**given).load()
    query = (
        changes.writeStream.format("sluicegate")
        .options(url=url, queue="stream", checkpointLocation=folder)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(ENDS_S), "the query ends by itself"
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
