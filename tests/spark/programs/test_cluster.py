"""A standalone cluster of Spark: jobs that `spark-submit` brings to it, and an executor that dies."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pyspark
import pytest

import pipeline
from copied_rows import everything_is_there_once, gateway_with_rows
from flow_line import FlowLine
from gateway_process import GatewayProcess
from protocols.flow import frames
from sluicegate import BlockingClient, Message
from spark_processes import (
    ENDS_S,
    SUBMITTED_WITH,
    Cluster,
    Copying,
    kill_executor_of,
    spark_environment,
    standalone_cluster,
)

SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
PROGRAM = Path(pipeline.__file__).with_name("__main__.py")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def test_a_job_runs_on_the_cluster_that_spark_submit_names(
    cluster: Cluster, broker: GatewayProcess, tmp_path: Path
) -> None:
    """As the Spark operator does it: the job runs where that was told, with what it was told."""
    broker.create_queue("submitted", access_type="non-exclusive", partition_count=2)
    with BlockingClient(broker.flow_url) as client, client.publisher() as publisher:
        publisher.send_all(Message(str(n).encode(), queue="submitted", key=f"k{n % 7}") for n in range(400))
    file = tmp_path / "job.toml"
    file.write_text(
        f'checkpoint = "{tmp_path}/checkpoint"\n'
        f'[source]\nurl = "{broker.flow_url}"\nqueue = "submitted"\nmode = "consume"\n'
        f'[archive]\npath = "{tmp_path}/archive"\n'
    )
    told = [part for name, value in SUBMITTED_WITH.items() for part in ("--conf", f"{name}={value}")]
    job = ["run", "archive", "--config", str(file), "--once"]
    done = subprocess.run(
        [SUBMIT, "--master", cluster.master, *told, PROGRAM, *job],
        env=spark_environment() | {"PYTHONSAFEPATH": "1"},  # as the image has it: the program lies in its package
        capture_output=True,
        text=True,
        timeout=ENDS_S,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    assert broker.held_count("submitted") == 0
    assert list(cluster.folder.glob("app-*")), "the worker had executors"
    tables = [pq.read_table(each, columns=["payload"]) for each in (tmp_path / "archive").rglob("*.parquet")]
    assert sorted(int(row) for each in tables for row in each.column("payload").to_pylist()) == list(range(400))


@pytest.mark.crash
def test_every_row_arrives_once_though_executors_are_killed(cluster: Cluster, tmp_path: Path) -> None:
    """In the middle of a range, and while it stages rows; the driver goes on."""
    with gateway_with_rows(tmp_path / "gateway") as broker, FlowLine(broker.ports["flow"]) as line:
        line.dies_at((frames.ROWS, 3), (frames.STAGE, 1))
        with Copying(line.url, tmp_path, master=cluster.master).to_the_end():
            kill_executor_of(line.dead_client())
            kill_executor_of(line.dead_client())
        everything_is_there_once(broker, tmp_path)
