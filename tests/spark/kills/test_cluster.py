"""A standalone cluster of Spark: programs that `spark-submit` brings to it, and executors that die."""

import subprocess
from pathlib import Path

import pytest

import sluicegate.pipeline
from sluicegate.pipeline.cli import JOBS
from sluicegate.protocols.flow.codec import frame as frames
from support.flow.cutting_proxy import CuttingProxy
from support.spark.copied_rows import everything_is_there_once, gateway_with_rows
from support.spark.processes import (
    ENDS_S,
    SAFE_PATH,
    Copying,
    kill_executor_of,
    spark_environment,
    spark_submit,
    standalone_cluster,
)
from support.thorough import only_thorough

PROGRAM = Path(sluicegate.pipeline.__file__).with_name("__main__.py")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


def test_the_jobs_are_a_program_for_spark_submit() -> None:
    """As the Spark operator brings them; the program lies in its package, whose modules hide none of others."""
    command = [*spark_submit("local[1]"), PROGRAM, "list"]
    done = subprocess.run(command, env=spark_environment() | SAFE_PATH, capture_output=True, text=True, timeout=ENDS_S)
    assert done.returncode == 0, done.stderr[-6000:]
    assert [line.split()[0] for line in done.stdout.splitlines()] == sorted(JOBS)


@only_thorough
@pytest.mark.crash
def test_every_row_arrives_once_though_executors_are_killed(tmp_path: Path) -> None:
    """In the middle of a range, and while it stages rows; the driver goes on."""
    with (
        standalone_cluster(tmp_path / "cluster") as master,
        gateway_with_rows(tmp_path / "gateway") as broker,
        CuttingProxy(broker.ports["flow"]) as line,
    ):
        line.dies_at((frames.ROWS, 3), (frames.STAGE, 1))
        with Copying(line.url, tmp_path, by=spark_submit(master)).to_the_end():
            kill_executor_of(line.dead_client(), line.port)
            kill_executor_of(line.dead_client(), line.port)
        everything_is_there_once(broker, tmp_path)
