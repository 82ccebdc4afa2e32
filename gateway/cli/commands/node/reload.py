"""`sluicegate reload`: have a running node reload its configuration."""

import sys

import typer

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, AdminClient, UrlOption
from sluicegate.gateway.cli.terminal.output import JsonOption, print_json


def reload(url: UrlOption = URL_DEFAULT, as_json: JsonOption = False) -> None:
    """Reload the node's configuration, as SIGHUP does. Clients that may no longer connect are disconnected."""
    view = AdminClient(url).reload()
    if as_json:
        print_json(view)
        return
    for text in view.warnings:
        typer.echo(f"warning: {text}", err=True)
    for text in view.restart_needed:
        typer.echo(f"restart needed: {text}", err=True)
    no_changes = "no change was applied\n" if view.restart_needed else "nothing changed\n"
    sys.stdout.write("".join(f"{text}\n" for text in view.taken_over) or no_changes)
