"""`sluicegate version`: the release."""

import sys

import typer

from gateway.cli.output import JsonOption, print_json
from gateway.version import VERSION


def version(as_json: JsonOption = False) -> None:
    """Print the release."""
    if as_json:
        print_json({"version": VERSION, "python": sys.version.split()[0]})
    else:
        typer.echo(f"sluicegate {VERSION}")
