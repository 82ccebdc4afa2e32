"""`sluicegate replication ...`: the two sites of a broker, and which of them serves."""

from typing import Annotated

import typer

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, UrlOption
from sluicegate.gateway.cli.admin.objects import AdminObjects
from sluicegate.gateway.cli.terminal.output import JsonOption, print_json
from sluicegate.gateway.config.sections.values import rounded_size

app = typer.Typer(help="A broker at two sites.", no_args_is_help=True)


@app.command("status")
def status(url: UrlOption = URL_DEFAULT, as_json: JsonOption = False) -> None:
    """Show which site is active, and what the other does not have yet. Any replica of either may be asked."""
    view = AdminObjects(url).replication()
    if as_json:
        print_json(view)
        return
    typer.echo(f"broker {view.broker}, asked at replica {view.replica} of site {view.site}")
    typer.echo(f"site {view.site}: {view.role}, epoch {view.epoch}" + (", receives here" if view.is_receiving else ""))
    mate = f"{view.mate_role}, epoch {view.mate_epoch}" if view.mate_role else "does not answer"
    typer.echo(f"site {view.mate}: {mate}")
    if view.lag_messages is None or view.lag_bytes is None or view.lag_seconds is None:
        typer.echo("lag: not known")
    else:
        size = rounded_size(view.lag_bytes)
        typer.echo(f"lag: {view.lag_messages} messages of the log, {size}, the oldest {view.lag_seconds:.1f} s old")
    if view.ends_with_handover:
        typer.echo(f"site {view.site} has all of the log, and may be promoted")
    for path in view.surplus:
        typer.echo(f"what site {view.site} alone had: {path}")
    if view.problem:
        typer.echo(f"problem: {view.problem}")


@app.command("demote")
def demote(url: UrlOption = URL_DEFAULT) -> None:
    """Have the active site stop serving, and give the broker up to the other one. Ask a replica of the active site."""
    AdminObjects(url).demote_site()
    typer.echo("the site is demoted: promote the other one when its status says that it has all of the log")


@app.command("promote")
def promote(
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Serve without what of the log is not here: clients lose it.")
    ] = False,
    url: UrlOption = URL_DEFAULT,
) -> None:
    """Have a site serve. Ask a replica of that site."""
    AdminObjects(url).promote_site(accept_loss=accept_loss)
    typer.echo("the site is promoted: one of its replicas takes over")
