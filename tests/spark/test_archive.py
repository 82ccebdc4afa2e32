"""The job `archive`, over a real gateway: in this session, and as the program that operators run."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluicegate import BlockingClient, Message
from sluicegate.pipeline.configuration import ArchiveJob, ArchiveTable
from sluicegate.pipeline.failures import JobFailed
from sluicegate.pipeline.jobs.archive import archive
from sluicegate.pipeline.run.attempt import Trigger
from sluicegate.pipeline.run.job import run_stream
from support.processes.gateway import GatewayProcess
from support.spark.unfinished_batch import forget_the_last_commit

pytestmark = pytest.mark.slow


def fill(broker: GatewayProcess, queue: str, first: int, end: int) -> None:
    with BlockingClient(broker.flow_url) as client, client.publisher() as publisher:
        publisher.send_all(Message(str(n).encode(), queue=queue, key=f"k{n % 7}") for n in range(first, end))


def job(broker: GatewayProcess, queue: str, folder: Path, **source: bool | int | str) -> ArchiveJob:
    return ArchiveJob(
        source={"url": broker.flow_url, "queue": queue, **source},
        checkpoint=str(folder / "checkpoint"),
        archive=ArchiveTable(path=str(folder / "archive")),
    )


def run(spark: SparkSession, config: ArchiveJob, write: Callable[[str], None] = print) -> None:
    """Archive what is there now. Raises JobFailed."""
    run_stream(spark, "archive", config, archive, trigger=Trigger(None), write=write, stopping=Event())


def archived(spark: SparkSession, folder: Path) -> list[int]:
    """What any reader of the files finds, which knows nothing of Spark's logs."""
    files = [str(each) for each in sorted((folder / "archive").rglob("*.parquet"))]
    return sorted(int(bytes(row.payload)) for row in spark.read.parquet(*files).select("payload").collect())


def test_everything_is_archived_acknowledged_and_reported_in_a_line_for_each_batch(
    spark: SparkSession, broker: GatewayProcess, tmp_path: Path
) -> None:
    broker.create_queue("kept", access_type="non-exclusive", partition_count=2)
    fill(broker, "kept", 0, 500)
    lines: list[str] = []
    run(spark, job(broker, "kept", tmp_path, mode="consume", maxRowsPerTrigger=200), lines.append)
    assert archived(spark, tmp_path) == list(range(500))
    assert broker.held_count("kept") == 0, "a consuming job takes what it has archived"
    told: list[dict[str, Any]] = [json.loads(each) for each in lines]
    batches = [each for each in told if each["rows"]]
    assert sum(each["rows"] for each in batches) == 500
    assert [each["batch"] for each in batches] == list(range(len(batches)))
    assert batches[-1]["lag"] == {"0": 0, "1": 0}
    rows = spark.read.parquet(str(tmp_path / "archive")).where("queue = 'kept' and dt = to_date(received)")
    assert rows.count() == 500
    assert {row.batch for row in rows.select("batch").distinct().collect()} == {
        f"{each['query'][:8]}_{each['batch']}" for each in batches
    }


def test_a_batch_that_is_written_again_after_a_crash_is_there_once(
    spark: SparkSession, broker: GatewayProcess, tmp_path: Path
) -> None:
    """The crash is between the files and Spark's commit. What an earlier one left half written is removed in time."""
    left, begun = (tmp_path / "archive" / f".spark-staging-{name}" / "part" for name in ("left", "begun"))
    for each in (left, begun):
        each.parent.mkdir(parents=True)
        each.touch()
    for each in (left, left.parent):
        os.utime(each, (0, 0))
    broker.create_queue("again")
    fill(broker, "again", 0, 300)
    config = job(broker, "again", tmp_path, maxRowsPerTrigger=100)
    run(spark, config)
    forget_the_last_commit(config)
    fill(broker, "again", 300, 350)
    run(spark, config)
    assert archived(spark, tmp_path) == list(range(350))
    assert (left.parent.exists(), begun.exists()) == (False, True)


def test_a_job_whose_queue_is_not_there_fails_in_one_line(
    spark: SparkSession, broker: GatewayProcess, tmp_path: Path
) -> None:
    config = job(broker, "no-such-queue", tmp_path)
    with pytest.raises(JobFailed, match=r"^RequestRefused: .*no-such-queue"):
        run(spark, config)
