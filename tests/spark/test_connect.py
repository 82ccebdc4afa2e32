"""Spark Connect: the data source runs in the server, and the program has no JVM of its own."""

import sys
from pathlib import Path

import pytest

from gateway_process import gateway
from processes import running
from sluicegate import BlockingClient, Message
from spark_processes import ENDS_S, small_spark_environment

PROGRAM = Path(__file__).with_name("connect_and_copy.py")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_queue_is_read_and_written_over_connect(tmp_path: Path) -> None:
    with gateway(tmp_path / "gateway") as broker:
        url = broker.flow_url
        for name in ("from", "batch", "stream"):
            broker.create_queue(name)
        with BlockingClient(url) as client, client.publisher() as publisher:
            publisher.send_all(Message(str(n).encode(), queue="from") for n in range(300))
        command: list[str | Path] = [sys.executable, "-P", PROGRAM, url, str(tmp_path / "checkpoint")]
        with running(command, environment=small_spark_environment()) as program:
            out, err = program.communicate(timeout=ENDS_S)
            assert program.returncode == 0, err[-6000:]
        assert out.splitlines() == ["rows 300"]
        assert [broker.held_count(name) for name in ("from", "batch", "stream")] == [300, 300, 300]
