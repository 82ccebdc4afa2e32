"""What `sluicegate pipeline` says of itself looks as what the other commands do."""

import pytest
from typer.testing import CliRunner

from pipeline.cli import app


@pytest.mark.parametrize("command", [[], ["list"], ["run"], ["plan"], ["status"], ["ack"]])
def test_the_help_of_a_command_for_jobs_shows_flags_as_flags(command: list[str]) -> None:
    """A type behind one would say that a value follows, as one does behind other options."""
    told = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, [*command, "--help"]).stdout
    assert "--help" in told
    assert "<bool>" not in told
