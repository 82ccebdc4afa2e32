"""The command line of `sluicegate pipeline`: its help, its errors and SIGTERM."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError
from typer.testing import CliRunner

from sluicegate.pipeline import cli
from sluicegate.pipeline.cli import FATAL, INTERRUPTED, app
from sluicegate.pipeline.run.job import Invocation


@pytest.mark.parametrize("command", [[], ["list"], ["run"], ["plan"], ["status"], ["ack"]])
def test_the_help_of_a_command_for_jobs_shows_flags_as_flags(command: list[str]) -> None:
    """A type behind one would say that a value follows, as one does behind other options."""
    told = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, [*command, "--help"]).stdout
    assert "--help" in told
    assert "<bool>" not in told


class EndingJob:
    """A job that ends with what is raised."""

    does = ""

    def __init__(self, raised: BaseException) -> None:
        self._raised = raised

    def run(self, name: str, asked: Invocation) -> int:
        raise self._raised


@pytest.mark.parametrize(
    ("raised", "code"),
    [(Py4JNetworkError("Java has gone"), FATAL), (KeyError("ours"), FATAL), (KeyboardInterrupt(), INTERRUPTED)],
)
def test_a_job_that_ends_unexpectedly_is_not_taken_for_one_that_found_something(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, raised: BaseException, code: int
) -> None:
    """docs/data/pipeline.md: exit code 1 is about what a job looked at. The system may kill a JVM, for one."""
    monkeypatch.setattr(cli, "JOBS", {"audit": EndingJob(raised)})
    result = CliRunner().invoke(app, ["run", "audit", "--config", "any.toml"])
    assert result.exit_code == code
    assert str(raised) in caplog.text, "the reason is the last line on standard error"


@pytest.mark.slow
def test_sigterm_ends_a_command_of_the_pipeline_that_is_process_1_too(tmp_path: Path) -> None:
    """The kernel keeps from process 1 what it has not asked for; that it has asked is seen by the exit code."""
    fifo = tmp_path / "job.toml"
    os.mkfifo(fifo)
    command = [sys.executable, "-P", "-m", "sluicegate.pipeline", "run", "compact", "--config", str(fifo)]
    program = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    with fifo.open("w"):  # it reads its file, which does not come to its end
        program.send_signal(signal.SIGTERM)
        _, said = program.communicate()
    assert (program.returncode, said) == (143, "")
