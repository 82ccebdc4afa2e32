"""The job `archive` with a decode stage, and into Delta tables, over a real gateway."""

import json
from collections.abc import Iterable
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from sluicegate import BlockingClient, ClientOptions, Message
from sluicegate.pipeline.archive.delta import TableMismatch
from sluicegate.pipeline.archive.reader import DELTA_LOG
from sluicegate.pipeline.configuration import DELTA, ArchiveJob, ArchiveTable, DecodeTable
from sluicegate.pipeline.decode.decoder import SchemaError
from sluicegate.pipeline.failures import JobFailed
from sluicegate.pipeline.jobs.archive import archive
from sluicegate.pipeline.run.attempt import Trigger
from sluicegate.pipeline.run.job import run_stream
from support.processes.gateway import GatewayProcess
from support.spark.unfinished_batch import forget_the_last_commit

pytestmark = pytest.mark.slow

COLUMNS = "device string, t double, at timestamp"


def fill(broker: GatewayProcess, queue: str, payloads: Iterable[bytes], *, vpn: str = "") -> None:
    with BlockingClient(broker.flow_url, ClientOptions(vpn=vpn)) as client, client.publisher() as publisher:
        publisher.send_all(Message(payload, queue=queue, key=f"k{at % 3}") for at, payload in enumerate(payloads))


def readings(first: int, end: int) -> list[bytes]:
    return [f'{{"device": "d{n % 5}", "t": {n}, "at": "2026-03-04T05:06:07Z"}}'.encode() for n in range(first, end)]


def job(
    broker: GatewayProcess, queue: str, folder: Path, decode: DecodeTable, *, vpn: str = "", **archived: Any
) -> ArchiveJob:
    return ArchiveJob(
        source={"url": broker.flow_url, "vpn": vpn, "queue": queue, "maxRowsPerTrigger": 100},
        checkpoint=str(folder / "checkpoint"),
        archive=ArchiveTable(path=str(folder / "archive"), **archived),
        decode=decode,
        admin_url=broker.admin_url,
    )


def run(spark: SparkSession, config: ArchiveJob) -> list[dict[str, Any]]:
    """Archive what is there now; return what is told of each batch."""
    lines: list[str] = []
    run_stream(spark, "archive", config, archive, trigger=Trigger(None), write=lines.append, stopping=Event())
    return [json.loads(each) for each in lines]


def test_payloads_become_columns_and_what_is_undecodable_is_kept_with_reason_and_offset(
    spark: SparkSession, broker: GatewayProcess, tmp_path: Path
) -> None:
    """Here in a message VPN of its own, whose figures the gateway has."""
    broker.create_queue("json", vpn="sales", access_type="non-exclusive", partition_count=2)
    fill(broker, "json", [*readings(0, 150), b"no json", b'{"t": "warm"}'], vpn="sales")
    decode = DecodeTable(format="json", columns=COLUMNS, undecodable=str(tmp_path / "undecodable"))
    told = run(spark, job(broker, "json", tmp_path, decode, vpn="sales"))
    rows = spark.read.parquet(str(tmp_path / "archive"))
    assert sorted(row.t for row in rows.select("value.t").collect()) == list(range(150))
    first: Any = rows.where("value.t = 0").select("value.device", "value.at", "payload").first()
    assert (first.device, bytes(first.payload)) == ("d0", readings(0, 1)[0])
    aside = {
        bytes(row.payload): (row.decode_error, row.partition, row.sequence)
        for row in spark.read.parquet(str(tmp_path / "undecodable")).collect()
    }
    assert aside.keys() == {b"no json", b'{"t": "warm"}'}
    assert aside[b'{"t": "warm"}'][0] == "t is 'warm', and a number is wanted"
    assert all(sequence > 0 for _reason, _partition, sequence in aside.values())
    assert sum(each.get("undecodable", 0) for each in told) == 2
    assert sum(each["rows"] for each in told) == 152
    assert broker.metric("sluicegate_reader_rows_total", vpn="sales", queue="json", job="archive") == 152
    assert broker.metric("sluicegate_reader_undecodable_rows_total", vpn="sales", queue="json", job="archive") == 2


def test_a_schema_that_is_none_ends_the_job_before_it_begins(
    spark: SparkSession, broker: GatewayProcess, tmp_path: Path
) -> None:
    broker.create_queue("none")
    for columns in ("device strin", "double", "a int, a string"):
        decode = DecodeTable(format="csv", columns=columns, undecodable=str(tmp_path / "undecodable"))
        with pytest.raises(SchemaError, match=columns):
            archive(spark, job(broker, "none", tmp_path, decode), Trigger(None))


def test_an_archive_is_not_continued_in_the_other_format(
    spark: SparkSession, broker: GatewayProcess, tmp_path: Path
) -> None:
    """Jobs read one of the two: what was there, or what came then, would be in no archive."""
    (tmp_path / "archive" / "queue=q" / "dt=2026-03-04" / "batch=1234abcd_0").mkdir(parents=True)
    with pytest.raises(JobFailed, match="archive is no Delta table, and format is delta"):
        archive(spark, job(broker, "q", tmp_path, DecodeTable(), format=DELTA), Trigger(None))
    assert [each.name for each in (tmp_path / "archive").iterdir()] == ["queue=q"]
    (tmp_path / "archive" / DELTA_LOG).mkdir()
    with pytest.raises(JobFailed, match="archive is a Delta table, and format is parquet"):
        archive(spark, job(broker, "q", tmp_path, DecodeTable()), Trigger(None))


def test_a_delta_table_has_each_message_once_though_a_batch_runs_again(
    spark: SparkSession, broker: GatewayProcess, tmp_path: Path
) -> None:
    """The name of the queue is one that directories and the table's log write differently."""
    queue = "plant/7 b"
    broker.create_queue(queue)
    fill(broker, queue, readings(0, 250))
    decode = DecodeTable(format="json", columns=COLUMNS, undecodable=str(tmp_path / "undecodable"))
    config = job(broker, queue, tmp_path, decode, format=DELTA)
    run(spark, config)
    forget_the_last_commit(config)
    fill(broker, queue, readings(250, 300))
    run(spark, config)
    table = DeltaTable(config.archive.path)
    rows = table.to_pyarrow_table().to_pylist()
    assert sorted(row["value"]["t"] for row in rows) == list(range(300))
    assert {row["queue"] for row in rows} == {queue}
    with pytest.raises(TableMismatch, match="Give it another path"):
        archive(spark, job(broker, queue, tmp_path, DecodeTable(), format=DELTA), Trigger(None))
