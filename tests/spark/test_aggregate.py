"""The job `aggregate`: windows over a queue of a real gateway, to Parquet, to a queue, and on a page."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from sluicegate import BlockingClient, Message
from sluicegate.pipeline.configuration import SchemaTable
from sluicegate.pipeline.directories import as_it_is
from sluicegate.pipeline.jobs.aggregate.job import AggregateJob, AggregateTable, aggregate
from sluicegate.pipeline.jobs.aggregate.page import page
from sluicegate.pipeline.jobs.aggregate.windows import WindowsTable
from sluicegate.pipeline.report.page import Table
from sluicegate.pipeline.run.attempt import Trigger
from sluicegate.pipeline.run.job import run_stream
from support.processes.gateway import GatewayProcess

BEGAN = datetime(2026, 3, 4, 8, tzinfo=UTC)


def publish(broker: GatewayProcess, payloads: list[bytes]) -> None:
    """Send each payload for each of two devices in turn."""
    with BlockingClient(broker.flow_url) as client, client.publisher() as publisher:
        publisher.send_all(Message(each, queue="readings", key="ab"[at % 2]) for at, each in enumerate(payloads))


def measure(broker: GatewayProcess, minutes: range) -> None:
    """A reading of each of two devices every minute; its value is the minute."""
    times = [(BEGAN + timedelta(minutes=minute)).isoformat() for minute in minutes for _ in "ab"]
    values = [minute for minute in minutes for _ in "ab"]
    readings = zip(times, values, strict=True)
    publish(broker, [json.dumps({"at": at, "value": value}).encode() for at, value in readings])


def run(spark: SparkSession, config: AggregateJob) -> list[dict[str, Any]]:
    lines: list[str] = []
    run_stream(spark, "aggregate", config, aggregate, trigger=Trigger(None), write=lines.append, stopping=Event())
    return [json.loads(line) for line in lines]


@pytest.fixture
def shuffle_partitions(spark: SparkSession) -> Any:
    """Keep the session of all tests as it is: the job sets how many partitions its state has."""
    before = spark.conf.get("spark.sql.shuffle.partitions", "2") or "2"
    yield
    spark.conf.set("spark.sql.shuffle.partitions", before)


@pytest.mark.usefixtures("shuffle_partitions")
def test_a_window_is_written_and_published_once_when_it_is_over_and_what_comes_later_is_counted(
    spark: SparkSession, broker: GatewayProcess, tmp_path: Path
) -> None:
    """Here in a folder whose name would be a pattern, where other measures were kept before."""
    broker.create_queue("readings")
    broker.create_queue("hourly")
    hourly = tmp_path / "[hourly] {1}"
    config = AggregateJob(
        source={"url": broker.flow_url, "queue": "readings"},
        checkpoint=str(tmp_path / "checkpoint"),
        decode=SchemaTable(format="json", columns="at timestamp, value double"),
        aggregate=AggregateTable(
            windows=WindowsTable(
                event_time="value.at",
                watermark="10 minutes",
                window="1 hour",
                by={"device": "partition_key"},
                measures={"mean": "avg(value.value)", "count": "count(*)", "window": "max(value.value)"},
            ),
            path=str(hourly),
            report=str(tmp_path / "hourly.html"),
            target={"url": broker.flow_url, "queue": "hourly"},
            state_partitions=2,
        ),
    )
    long_ago = hourly / "dt=2020-01-01" / "batch=x_0" / "damaged.parquet"
    long_ago.parent.mkdir(parents=True)
    long_ago.write_bytes(b"no Parquet: it is older than what the report shows")
    before = hourly / "dt=2026-03-03" / "batch=x_1" / "0.parquet"
    before.parent.mkdir(parents=True)
    ended = [BEGAN - timedelta(days=1)]
    pq.write_table(pa.table({"window_start": ended, "window_end": ended, "device": ["a"], "sum": [1.5]}), before)
    publish(broker, [b"no JSON", b"{}"])
    measure(broker, range(75))  # the first hour is over for a watermark of 8:64, the second is not
    first = run(spark, config)
    assert [sum(line[each] for line in first) for each in ("undecodable", "untimed", "late")] == [1, 1, 0]
    measure(broker, range(30, 33))
    lines = run(spark, config)
    assert sum(line["late"] for line in lines) == 2, "rows of a window and group are late as one"
    rows = spark.read.parquet(as_it_is(hourly / "dt=2026-03-04")).orderBy("device").collect()
    assert [(row.device, row.mean, row["count"], row.window) for row in rows] == [
        ("a", 29.5, 60, 59),
        ("b", 29.5, 60, 59),
    ]
    given = {"url": broker.flow_url, "queue": "hourly"}
    published = spark.read.format("sluicegate").options(**given).load().orderBy("partition_key").collect()
    assert [(row.partition_key, row.content_type) for row in published] == [
        ("a", "application/json"), ("b", "application/json"),
    ]  # fmt: skip
    told = json.loads(bytes(published[0].payload))
    assert (told["device"], told["mean"], told["count"]) == ("a", 29.5, 60)
    report = (tmp_path / "hourly.html").read_text()
    assert "3 windows of 2 groups" in report, "one of them was measured otherwise"
    assert report.count("<svg") == 3


def test_groups_that_read_alike_are_two_lines_and_names_of_users_are_not_those_of_the_page(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = WindowsTable(
        event_time="received",
        watermark="1 hour",
        window="1 hour",
        by={"plant": "p", "unit": "u"},
        measures={"rank": "count(*)", "start_ms": "sum(1)", "group_name": "avg(1)"},
    )
    found = [
        (BEGAN, BEGAN + timedelta(hours=1), plant, unit, 1, 2, value)
        for plant, unit, value in (("a / b", "c", 3.0), ("a", "b / c", 4.0), (None, "a", 5.0), ("a", None, 6.0))
    ]
    schema = (
        "window_start timestamp, window_end timestamp, plant string, unit string, rank long, start_ms long,"
        " group_name double"
    )
    shown = page(spark.createDataFrame(found, schema), table, str(tmp_path))
    assert shown.verdict == "4 windows of 4 groups"
    (latest,) = [each for each in shown.parts if isinstance(each, Table)]
    at = "2026-03-04 08:00:00"
    assert sorted(tuple(each) for each in latest.rows) == [
        (at, "a / b / c", "1", "2", "3"),
        (at, "a / b / c", "1", "2", "4"),
        (at, "a / none", "1", "2", "6"),
        (at, "none / a", "1", "2", "5"),
    ]
