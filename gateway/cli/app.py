"""The command and its subcommands, put together."""

import os
import signal
import sys
from collections.abc import Sequence
from typing import Final

import typer

from sluicegate.gateway.cli.admin.login import take_login
from sluicegate.gateway.cli.late_commands import LateCommands
from sluicegate.gateway.cli.terminal.failures import FAILED, CommandFailed, report

INTERRUPTED: Final = 130  # the shells' number for Ctrl-C
TERMINATED: Final = 143  # and for SIGTERM
TRACEBACK_VARIABLE: Final = "SLUICEGATE_TRACEBACK"

app = typer.Typer(
    name="sluicegate",
    cls=LateCommands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.callback()(take_login)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and end the process with its exit code."""
    # Process 1, which a command in a container is, hears no signal that it does not take. And what a command has begun
    # is brought to an end as by Ctrl-C: a terminal is as it was, what was made for a moment is gone.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(TERMINATED))
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
