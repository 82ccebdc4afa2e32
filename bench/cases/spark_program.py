"""The Spark side of the cases `spark-*`, in a separate process.

It takes a case, the gateway's URL, a folder and the number of rounds, and prints one line of JSON: the result of each
round. Spark finds the data source by its name, so this program does not import it. It runs like a job. The first round
of a case warms up the JVM, and is not reported.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from bench.cases.spark import SOURCE, TARGET

MASTER: Final = "local[2,4]"
COLUMNS: Final = "queue,partition,sequence,topic,partition_key,received,payload"
WARM_BATCHES: Final = 30
MEASURED_BATCHES: Final = 60
DONE_S: Final = 600


def main() -> None:
    """Run a case."""
    case, url, folder, rounds = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master(MASTER)
        .appName(case)
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    try:
        print(json.dumps(CASES[case](spark, url, folder, rounds)), flush=True)
    finally:
        spark.stop()


def to_parquet(spark: SparkSession, url: str, folder: Path, rounds: int) -> list[float]:
    """Write the messages of the queue to files; return the seconds of each round."""
    return [_timed(_rows(spark, url, COLUMNS), folder / f"parquet-{at}") for at in range(rounds + 1)][1:]


def _timed(rows: DataFrame, folder: Path) -> float:
    begun_s = time.monotonic()
    rows.write.parquet(str(folder))
    return time.monotonic() - begun_s


def to_queue(spark: SparkSession, url: str, folder: Path, rounds: int) -> list[float]:
    """Publish the messages of the queue to another, in one transaction; return the seconds of each round."""
    taken_s = []
    for at in range(rounds + 1):
        begun_s = time.monotonic()
        rows = _rows(spark, url, "partition_key,payload")
        rows.write.format("sluicegate").mode("append").options(url=url, queue=TARGET, txn=f"bench/{at}").save()
        taken_s.append(time.monotonic() - begun_s)
    return taken_s[1:]


def micro_batches(spark: SparkSession, url: str, folder: Path, rounds: int) -> list[float]:
    """Write batches to files; return the seconds of each batch with rows, after the warm-up."""

    def write(rows: DataFrame, batch: int) -> None:
        rows.write.mode("overwrite").parquet(str(folder / "batches" / str(batch)))

    rows = spark.readStream.format("sluicegate").options(url=url, queue=SOURCE, columns=COLUMNS).load()
    query = rows.writeStream.foreachBatch(write).option("checkpointLocation", str(folder / "checkpoint")).start()
    taken_s: dict[int, float] = {}
    deadline_s = time.monotonic() + DONE_S
    while len(taken_s) < WARM_BATCHES + MEASURED_BATCHES * rounds and time.monotonic() < deadline_s:
        query.awaitTermination(1)
        for progress in query.recentProgress:  # the last hundred
            if progress.numInputRows:
                taken_s[progress.batchId] = progress.durationMs["triggerExecution"] / 1000
    query.stop()
    return [taken_s[batch] for batch in sorted(taken_s)][WARM_BATCHES:]


def _rows(spark: SparkSession, url: str, columns: str) -> DataFrame:
    return spark.read.format("sluicegate").options(url=url, queue=SOURCE, columns=columns).load()


CASES: Final = {"spark-parquet": to_parquet, "spark-queue": to_queue, "spark-batches": micro_batches}

if __name__ == "__main__":
    main()
