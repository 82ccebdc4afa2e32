"""`sluicegate pipeline status`, `ack` and `plan`: no Spark runs, its checkpoint is written by hand."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pyspark_sluicegate.reading.offsets import Offset
from sluicegate import BlockingClient, Message
from sluicegate.pipeline.cli import FATAL, app
from support.processes.gateway import GatewayProcess

QUERY = "5b9c2a4e-0000-4000-8000-000000000000"


def run(*arguments: str) -> Any:
    return CliRunner(env={"COLUMNS": "300", "NO_COLOR": "1"}).invoke(app, arguments)


@pytest.fixture
def file(broker: GatewayProcess, tmp_path: Path) -> Path:
    """A job's file, of a queue with ten messages."""
    broker.create_queue(tmp_path.name)
    with BlockingClient(broker.flow_url) as client, client.publisher() as publisher:
        publisher.send_all(Message(b"m", queue=tmp_path.name) for _ in range(10))
    path = tmp_path / "job.toml"
    path.write_text(
        f'checkpoint = "{tmp_path}/checkpoint"\n[archive]\npath = "/srv/archive"\n'
        f'[source]\nurl = "{broker.flow_url}"\nqueue = "{tmp_path.name}"\ncursor = "a"\n'
        'columns = "queue,received,payload"\nmaxRowsPerTrigger = 3\n'
    )
    return path


def write_checkpoint(broker: GatewayProcess, folder: Path, *, read: int) -> None:
    """What Spark leaves when its first batch is through and nothing of it was acknowledged."""
    with BlockingClient(broker.flow_url) as client:
        cursor = client.bulk.bind_cursor(folder.name, "a", start="earliest")
        offset = Offset(
            queue=folder.name,
            cursor="a",
            mode="tap",
            incarnation=cursor.incarnation,
            epoch=cursor.epoch,
            next={0: read},
        )
    checkpoint = folder / "checkpoint"
    for name, text in {
        "metadata": json.dumps({"id": QUERY}),
        "offsets/0": f"v1\n{{}}\n{json.dumps(offset.to_json())}\n",
        "commits/0": "v1\n{}\n",
    }.items():
        (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
        (checkpoint / name).write_text(text)


def test_a_job_that_never_began_has_everything_before_it(file: Path) -> None:
    found = json.loads(run("status", "--config", str(file)).stdout)
    assert (found["batch"], found["acknowledged_batch"]) == (None, None)
    assert found["partitions"]["0"] == {"read": 1, "acknowledged": 1, "end": 11, "lag": 10, "unacknowledged": 0}


@pytest.mark.parametrize("command", [["plan", "archive"], ["status"], ["ack"]])
def test_a_command_whose_output_is_closed_ends_cleanly(file: Path, command: list[str]) -> None:
    """As with `sluicegate pipeline status ... | true`."""
    reading, writing = os.pipe()
    os.close(reading)
    line = [sys.executable, "-P", "-m", "sluicegate.pipeline", *command, "--config", str(file)]
    try:
        ended = subprocess.run(line, stdout=writing, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_unacknowledged_batches_of_a_crash_are_shown_and_acknowledged(broker: GatewayProcess, file: Path) -> None:
    write_checkpoint(broker, file.parent, read=5)
    found = json.loads(run("status", "--config", str(file)).stdout)
    assert (found["batch"], found["acknowledged_batch"]) == (f"{QUERY}/0", "")
    assert found["partitions"]["0"] == {"read": 5, "acknowledged": 1, "end": 11, "lag": 6, "unacknowledged": 4}
    assert run("ack", "--config", str(file)).stdout == "acknowledged\n"
    found = json.loads(run("status", "--config", str(file)).stdout)
    assert found["acknowledged_batch"] == f"{QUERY}/0"
    assert found["partitions"]["0"]["unacknowledged"] == 0
    assert run("ack", "--config", str(file)).stdout == "nothing is left to acknowledge\n"


def test_a_plan_has_the_defaults_the_columns_and_the_tasks_of_the_next_batch(
    broker: GatewayProcess, file: Path
) -> None:
    write_checkpoint(broker, file.parent, read=5)
    found = json.loads(run("plan", "archive", "--config", str(file)).stdout)
    assert found["configuration"]["archive"] == {"path": "/srv/archive", "format": "parquet"}
    assert found["schema"] == "queue string, received timestamp, payload binary"
    assert found["tasks"] == [[{"partition": 0, "first": 5, "end": 8}]]


def test_a_checkpoint_of_another_spool_is_reported_in_one_line(broker: GatewayProcess, file: Path) -> None:
    write_checkpoint(broker, file.parent, read=5)
    offsets = file.parent / "checkpoint" / "offsets" / "0"
    lines = offsets.read_text().splitlines()
    lines[2] = json.dumps({**json.loads(lines[2]), "incarnation": "00000000000000ff"})
    offsets.write_text("\n".join(lines))
    result = run("status", "--config", str(file))
    assert result.exit_code == FATAL
    assert "the checkpoint is of the spool 00000000000000ff" in result.stderr
