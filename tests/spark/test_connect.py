"""Spark Connect: the data source runs in the server, and the program needs no Java."""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from sluicegate import BlockingClient, Message
from support.processes.gateway import GatewayProcess
from support.processes.programs import running
from support.spark.processes import ENDS_S, spark_environment

PROGRAM = Path(__file__).with_name("connect_and_copy.py")
QUEUES = ("connect-from", "connect-batch", "connect-stream")


def test_a_queue_is_read_and_written_and_a_job_runs_over_connect(
    spark: SparkSession, broker: GatewayProcess, connect_url: str, checkpoint: str
) -> None:
    """The server is the session of all tests."""
    for name in QUEUES:
        broker.create_queue(name)
    with BlockingClient(broker.flow_url) as client, client.publisher() as publisher:
        publisher.send_all(Message(str(n).encode(), queue="connect-from") for n in range(300))
    command: list[str | Path] = [sys.executable, "-P", PROGRAM, connect_url, broker.flow_url, checkpoint]
    environment = spark_environment() | {"PATH": ""}
    environment.pop("JAVA_HOME", None)
    with running(command, environment=environment) as program:
        out, err = program.communicate(timeout=ENDS_S)
        assert program.returncode == 0, err[-6000:]
    copied, *batches = out.splitlines()
    assert copied == "rows 300"
    assert [json.loads(each)["rows"] for each in batches] == [300]
    assert spark.read.parquet(f"{checkpoint}/archive").count() == 300
    assert [broker.held_count(name) for name in QUEUES] == [300, 300, 300]
