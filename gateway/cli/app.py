"""The `sluicegate` command: the typer application and the entry point."""

import os
import signal
import sys
from collections.abc import Sequence
from typing import Final

import typer

from sluicegate.gateway.cli.admin.login import take_login
from sluicegate.gateway.cli.late_commands import LateCommands
from sluicegate.gateway.cli.terminal.failures import FAILED, CommandFailed, report

INTERRUPTED: Final = 130  # as shells report Ctrl-C
TERMINATED: Final = 143  # as shells report SIGTERM
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
    # Process 1, as in a container, ignores signals without a handler. With one, SIGTERM unwinds the command as Ctrl-C
    # does: the terminal is restored and temporary queues are deleted.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(TERMINATED))
    try:
        app(None if arguments is None else list(arguments))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as problem:
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        text = f"{type(problem).__name__}: {problem}"
        report(CommandFailed(f"internal error: {text}", advice=f"Set {TRACEBACK_VARIABLE}=1 for a traceback."))
        sys.exit(FAILED)
