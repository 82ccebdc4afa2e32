"""The command and its subcommands, put together."""

import os
import sys
from collections.abc import Sequence
from typing import Final

import typer

from gateway.cli import (
    actors,
    backup,
    bench,
    declarations,
    doctor,
    events,
    explain,
    node,
    pipeline,
    publish,
    queue_messages,
    queues,
    rest_delivery_points,
    selectors,
    show,
    subscribe,
    templates,
    top,
    users,
)
from gateway.cli.admin_login import take_login
from gateway.cli.failures import FAILED, CommandFailed, ReportingGroup, report
from gateway.cli.output import JsonOption, print_json
from gateway.version import VERSION

INTERRUPTED: Final = 130  # the shells' number for Ctrl-C
TRACEBACK_VARIABLE: Final = "SLUICEGATE_TRACEBACK"

app = typer.Typer(
    name="sluicegate",
    cls=ReportingGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.callback()(take_login)
app.command("serve")(node.serve)
app.command("check-config")(node.check_config)
app.command("doctor")(doctor.doctor)
app.command("hash-password")(node.hash_password)
app.command("pub")(publish.pub)
app.command("sub")(subscribe.sub)
app.add_typer(queues.app, name="queue")
app.add_typer(templates.app, name="template")
app.add_typer(selectors.app, name="selector")
app.add_typer(rest_delivery_points.app, name="rest-delivery-point")
app.add_typer(users.app, name="user")
app.add_typer(declarations.app, name="config")
app.command("reload")(selectors.reload)
queue_messages.add_to(queues.app)
app.add_typer(explain.app, name="explain")
app.add_typer(show.app, name="show")
app.command("backup")(backup.backup)
app.command("backup-status")(backup.backup_status)
app.command("backup-cancel")(backup.backup_cancel)
app.command("restore")(backup.restore)
app.command("bench")(bench.bench)
app.command("actors")(actors.actors)
app.command("events")(events.events)
app.command("top")(top.top)
app.command(
    "pipeline",
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)(pipeline.pipeline)


@app.command("version")
def version(as_json: JsonOption = False) -> None:
    """Print the release."""
    if as_json:
        print_json({"version": VERSION, "python": sys.version.split()[0]})
    else:
        typer.echo(f"sluicegate {VERSION}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and end the process with its exit code."""
    try:
        app(None if arguments is None else list(arguments))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as problem:
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        text = f"{type(problem).__name__}: {problem}"
        report(CommandFailed(f"this is a mistake of ours: {text}", advice=f"{TRACEBACK_VARIABLE}=1 shows where."))
        sys.exit(FAILED)
