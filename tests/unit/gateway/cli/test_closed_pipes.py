"""Commands end quietly when whoever reads what they print has gone, as with `sluicegate --help | head -1`."""

import os
import subprocess
import sys

import pytest

COMMAND = "from sluicegate.gateway.cli import main; main()"


@pytest.fixture
def closed_pipe() -> int:
    """An end to write to, with nobody at the other one."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.mark.parametrize(
    "arguments", [[], ["--help"], ["show"], ["show", "queue", "--help"], ["version"], ["pipeline", "--help"]]
)
def test_a_command_ends_quietly_when_its_output_is_closed(closed_pipe: int, arguments: list[str]) -> None:
    """So a shell with `pipefail` goes on."""
    ended = ended_into(closed_pipe, arguments)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_a_command_that_fails_has_its_exit_code_though_its_output_is_closed(closed_pipe: int) -> None:
    """What it has to say goes the same way with `2>&1 | head -1`."""
    url = ["--url", "http://127.0.0.1:1"]
    assert ended_into(closed_pipe, ["show", "queue", *url], errors=closed_pipe).returncode != 0


def ended_into(output: int, arguments: list[str], errors: int = subprocess.PIPE) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run([sys.executable, "-c", COMMAND, *arguments], stdout=output, stderr=errors, check=False)
    finally:
        os.close(output)
