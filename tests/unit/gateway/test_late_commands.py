"""Commands are imported when they are called: each is found, and one brings nothing along that only others need."""

import subprocess
import sys
from typing import Final

from typer.testing import CliRunner

from gateway.cli import app
from gateway.cli.late_commands import COMMANDS
from unit.storage.spool_file import same_imports

OF_THE_BROKER: Final = {"aiohttp", "asyncio", "joserfc", "lmdb", "prometheus_client", "pykka", "starlette", "uvicorn"}
ASKING_NOBODY: Final = """
import sys
from gateway.cli import main
try:
    main(["queue", "list", "--url", "http://127.0.0.1:1"])
finally:
    print(*sys.modules)
"""


def test_the_help_says_of_every_command_what_it_does() -> None:
    shown = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, ["--help"]).stdout
    lines = {words[1]: words[2:] for words in map(str.split, shown.splitlines()) if len(words) > 2}
    assert set(COMMANDS) <= {name for name, says in lines.items() if len(says) > 1}


def test_a_command_that_is_misspelt_is_suggested() -> None:
    told = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, ["chekc-config"]).stderr
    assert "'check-config'" in told


def test_a_command_for_the_admin_port_imports_nothing_of_the_broker() -> None:
    """A start costs what it imports: an operator's command is to answer at once."""
    command = [sys.executable, "-P", "-c", ASKING_NOBODY]
    imported = subprocess.run(command, capture_output=True, text=True, env=same_imports(), timeout=60).stdout.split()
    assert "gateway.cli.queues" in imported
    assert not OF_THE_BROKER.intersection(imported)
