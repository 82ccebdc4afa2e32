"""Commands as an operator types them, against the admin port of a test."""

from unittest.mock import patch

from typer.testing import CliRunner

from sluicegate.gateway.cli import app
from sluicegate.gateway.cli.terminal import confirmation
from sluicegate.gateway.cli.terminal.failures import FAILED, OK


class Shell:
    """Runs commands, with the admin port of the test's node in the environment."""

    def __init__(self, url: str, **environment: str) -> None:
        self.url = url
        nobodys = {"XDG_CONFIG_HOME": "/nonexistent"}  # contexts of whoever runs the tests do not count
        self._environment = {"SLUICEGATE_URL": url, "NO_COLOR": "1", "COLUMNS": "200", **nobodys, **environment}

    def run(self, *arguments: str, typed: str | None = None, answered: str | None = None, expect: int = OK) -> str:
        """Return standard output if the command succeeded, else standard error.

        `typed` is standard input of a script, `answered` of a person at a terminal.
        """
        with patch(f"{confirmation.__name__}.has_terminal", return_value=answered is not None):
            result = CliRunner(env=self._environment).invoke(app, list(arguments), input=answered or typed)
        assert result.exit_code == expect, (result.stdout, result.stderr, result.exception)
        assert "Traceback" not in result.stderr
        return result.stdout if expect == OK else result.stderr

    def told(self, *arguments: str, exit_code: int = FAILED) -> str:
        """Return standard output of a command that has found what is wrong, and ends with that exit code."""
        result = CliRunner(env=self._environment).invoke(app, list(arguments))
        assert result.exit_code == exit_code, (result.stdout, result.stderr, result.exception)
        return result.stdout
