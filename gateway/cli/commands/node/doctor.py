"""`sluicegate doctor`: check the configuration, data folder and spool of a stopped node, or a backup."""

import secrets
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn

from sluicegate.actors.runtime.clock import SystemClock
from sluicegate.gateway.cli.commands.node.node import ConfigOption, DataOption, SetOption, loaded_config
from sluicegate.gateway.cli.terminal.failures import FAILED
from sluicegate.gateway.cli.terminal.output import JsonOption, print_json, print_table
from sluicegate.gateway.process.doctor import Examination, examine_backup, examine_node
from sluicegate.gateway.process.salvage import salvage_node


def doctor(
    config: ConfigOption = None,
    data: DataOption = None,
    settings: SetOption = None,
    backup: Annotated[
        Path | None, typer.Option("--backup", metavar="FOLDER", help="Check this backup instead of a node.")
    ] = None,
    salvage: Annotated[
        Path | None,
        typer.Option(
            "--salvage", metavar="FOLDER", help="Copy everything readable in the spool into a new spool in this folder."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check a stopped node or a backup, without changing it. Exit code 1: there are errors."""
    if backup is not None and salvage is not None:
        raise typer.BadParameter("it works on the spool of a node, and not on a backup", param_hint="--salvage")
    console = Console(stderr=True)
    columns = (SpinnerColumn(), "{task.completed:.0f} pages")
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("pages", total=None)

        def page_checked() -> None:
            progress.advance(task)

        if backup is not None:
            examination = examine_backup(backup, looked=page_checked)
        elif salvage is not None:
            loaded = loaded_config(config, data, settings)
            examination = salvage_node(loaded, salvage, incarnation=lambda: secrets.randbits(64), looked=page_checked)
        else:
            loaded = loaded_config(config, data, settings)
            examination = examine_node(loaded, now_s=SystemClock().wall_ms() / 1000, looked=page_checked)
    _show(examination, as_json)
    if not examination.is_healthy():
        raise typer.Exit(FAILED)


def _show(examination: Examination, as_json: bool) -> None:
    names = ("severity", "subject", "text")
    rows = [(each.severity, each.subject, each.text) for each in examination.findings]
    if as_json:
        findings = [dict(zip(names, row, strict=True)) for row in rows]
        print_json({"healthy": examination.is_healthy(), "looked_at": examination.looked_at, "findings": findings})
        return
    print_table(("checked", ""), list(examination.looked_at.items()))
    typer.echo("")
    if not rows:
        typer.echo("no problems found")
        return
    print_table(("severity", "subject", "problem"), rows)
