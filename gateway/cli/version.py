"""`sluicegate --version` and `sluicegate version`: the release, and whether its modules are compiled."""

import sys
from typing import Annotated

import typer

from sluicegate.gateway.cli.terminal.output import JsonOption, print_json


def version(as_json: JsonOption = False) -> None:
    """Print the release, and whether its modules are compiled."""
    from sluicegate.gateway.build import (  # late: every command imports this module for the option below
        VERSION,
        compiled,
        release,
    )

    if as_json:
        print_json({"version": VERSION, "compiled": compiled(), "python": sys.version.split()[0]})
    else:
        typer.echo(f"sluicegate {release()}")


def _print_and_end(is_asked: bool) -> None:
    if is_asked:
        version()
        raise typer.Exit


ReleaseOption = Annotated[
    bool, typer.Option("--version", is_eager=True, callback=_print_and_end, help="Print the release and exit.")
]
