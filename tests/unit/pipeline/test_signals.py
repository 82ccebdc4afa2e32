"""`sluicegate pipeline` is told to end."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest


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
