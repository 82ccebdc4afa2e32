"""Commands are imported when they are called: each is found, and one brings nothing along that only others need."""

import gc
import re
import subprocess
import sys
from importlib import import_module
from typing import Any, Final

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from sluicegate.gateway.cli import app, late_commands
from sluicegate.gateway.cli.late_commands import COMMANDS
from support.storage.spool_file import same_imports

OF_THE_BROKER: Final = {"aiohttp", "asyncio", "joserfc", "lmdb", "prometheus_client", "pykka", "starlette", "uvicorn"}
ASKING_NOBODY: Final = """
import sys
from sluicegate.gateway.cli import main
try:
    main(["queue", "list", "--url", "http://127.0.0.1:1"])
finally:
    print(*sys.modules)
"""

ASKING_FOR_HELP: Final = """
import sys
from sluicegate.gateway.cli import main
try:
    main(["--help"])
finally:
    print(*sys.modules)
"""

SAYING_THE_RELEASE: Final = """
import sys
from sluicegate.gateway.cli import main
try:
    main(["version"])
finally:
    print(*sys.modules)
"""

WITHOUT_PLUGINS: Final = """
import importlib.metadata
def looked_for(**of):
    raise AssertionError(of)
importlib.metadata.entry_points = looked_for
import sluicegate.gateway.config.model
"""


def test_the_help_says_of_every_command_what_it_does() -> None:
    shown = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, ["--help"]).stdout
    lines = {words[1]: " ".join(words[2:-1]) for words in map(str.split, shown.splitlines()) if len(words) > 2}
    assert {name: lines.get(name) for name in COMMANDS} == {name: place.summary for name, place in COMMANDS.items()}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_of_a_command_is_the_first_sentence_of_its_own_help(name: str) -> None:
    group: Any = get_command(app)
    described = str(group.get_command(None, name).help)
    assert " ".join(described.split()).startswith(COMMANDS[name].summary)


COMPLETING: Final = {"_SLUICEGATE_COMPLETE": "complete_bash", "COMP_WORDS": "sluicegate back", "COMP_CWORD": "1"}


@pytest.mark.parametrize("variables", [{}, COMPLETING], ids=["help", "completion"])
def test_commands_are_listed_without_importing_them(variables: dict[str, str]) -> None:
    command = [sys.executable, "-P", "-c", ASKING_FOR_HELP]
    shown = subprocess.run(command, capture_output=True, text=True, env=same_imports() | variables, timeout=60)
    *lines, modules = shown.stdout.splitlines()
    imported = modules.split()
    assert "backup-status" in " ".join(lines).split()
    assert shown.stderr == ""
    assert "sluicegate.gateway.cli.late_commands" in imported
    assert not [name for name in imported if name.startswith("sluicegate.gateway.cli.commands")]


def test_the_help_of_every_command_shows_flags_as_flags() -> None:
    """A type behind one would say that a value follows, as one does behind other options."""
    places: list[tuple[list[str], Any]] = [([], get_command(app))]
    shown: list[list[str]] = []
    while places:
        place, command = places.pop()
        told = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, [*place, "--help"]).stdout
        assert "--help" in told, place
        assert re.search(r"<(bool|str|int|float|list|path|file)", told) is None, told
        shown.append(place)
        for name in getattr(command, "commands", ()):
            if place or not COMMANDS[name].is_program:
                places.append(([*place, name], command.get_command(None, name)))
    assert ["queue", "create"] in shown


def test_a_command_that_is_misspelt_is_suggested() -> None:
    told = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, ["chekc-config"]).stderr
    assert "'check-config'" in told


def test_a_command_for_the_admin_port_imports_nothing_of_the_broker() -> None:
    """A start costs what it imports: an operator's command is to answer at once."""
    command = [sys.executable, "-P", "-c", ASKING_NOBODY]
    imported = subprocess.run(command, capture_output=True, text=True, env=same_imports(), timeout=60).stdout.split()
    assert "sluicegate.gateway.cli.commands.queues.queues" in imported
    assert not OF_THE_BROKER.intersection(imported)


def test_a_command_that_asks_no_gateway_imports_no_tls() -> None:
    command = [sys.executable, "-P", "-c", SAYING_THE_RELEASE]
    imported = subprocess.run(command, capture_output=True, text=True, env=same_imports(), timeout=60).stdout.split()
    assert "sluicegate.gateway.cli.app" in imported
    assert "ssl" not in imported


def test_a_command_is_imported_without_the_garbage_collector_and_runs_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    collecting: list[bool] = []

    def import_noted(name: str) -> Any:
        collecting.append(gc.isenabled())
        return import_module(name)

    monkeypatch.setattr(late_commands, "import_module", import_noted)
    assert CliRunner().invoke(app, ["version"]).exit_code == 0
    assert collecting == [False]
    assert gc.isenabled()


def test_the_configuration_looks_for_no_plugins_of_pydantic() -> None:
    """It would read what is said of every installed package."""
    told = subprocess.run(
        [sys.executable, "-P", "-c", WITHOUT_PLUGINS], capture_output=True, env=same_imports(), timeout=60
    )
    assert (told.returncode, told.stderr) == (0, b"")
