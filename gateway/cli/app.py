"""The `sluicegate` command: its entry point, its own options, and the commands that need no module of their own.

`late_commands` has the table of all commands.
"""

import importlib.util
import io
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from sluicegate.gateway.cli.late_commands import LateCommands
from sluicegate.gateway.cli.terminal.contexts import CONTEXT_VARIABLE, LOCAL, defaults_of, read_contexts
from sluicegate.gateway.cli.terminal.credentials import LOGIN, PASSWORD_VARIABLE, AdminLogin
from sluicegate.gateway.cli.terminal.failures import FAILED, CommandFailed, report
from sluicegate.gateway.cli.terminal.output import JsonOption, print_json

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


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and end the process with its exit code."""
    # Process 1, as in a container, ignores signals without a handler. With one, SIGTERM unwinds the command as Ctrl-C
    # does: the terminal is restored and temporary queues are deleted.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(TERMINATED))
    # A locale may lack characters of a name: they are written as \uXXXX, as Python does in standard error.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
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


def version(as_json: JsonOption = False) -> None:
    """Print the release, and whether its modules are compiled."""
    from sluicegate.gateway.build import VERSION, compiled, release  # late: every command imports this module

    if as_json:
        print_json({"version": VERSION, "compiled": compiled(), "python": sys.version.split()[0]})
    else:
        typer.echo(f"sluicegate {release()}")


def pipeline(ctx: typer.Context) -> None:
    """Run Spark jobs on queues. See `sluicegate pipeline --help`."""
    # The program for Spark jobs takes the place of this process. It needs a JVM, so nothing of it is imported here. It
    # handles signals itself and has its own exit codes (`docs/data/pipeline.md`).
    if importlib.util.find_spec("pyspark") is None:
        raise CommandFailed("PySpark is not installed", advice="Install it with pip install 'sluicegate[spark]'.")
    # -P: do not import from the current directory.
    os.execv(sys.executable, [sys.executable, "-P", "-m", "sluicegate.pipeline", *ctx.args])


# --- the options before a command ---


def _print_and_end(is_asked: bool) -> None:
    if is_asked:
        version()
        raise typer.Exit


ReleaseOption = Annotated[
    bool, typer.Option("--version", is_eager=True, callback=_print_and_end, help="Print the release and exit.")
]
AdminUsernameOption = Annotated[
    str | None,
    typer.Option(
        "--admin-username",
        "--admin-user",  # former name, as that of the variable
        envvar=["SLUICEGATE_ADMIN_USERNAME", "SLUICEGATE_ADMIN_USER"],
        metavar="NAME",
        help="Account for the admin port.",
    ),
]
AdminPasswordFileOption = Annotated[
    Path | None,
    typer.Option(
        "--admin-password-file",
        envvar="SLUICEGATE_ADMIN_PASSWORD_FILE",
        metavar="FILE",
        help=f"File with the password in its first line. Default: {PASSWORD_VARIABLE}, or a prompt.",
    ),
]
AdminTokenFileOption = Annotated[
    Path | None,
    typer.Option(
        "--admin-token-file",
        envvar="SLUICEGATE_ADMIN_TOKEN_FILE",
        metavar="FILE",
        help="File with a bearer token in its first line, instead of name and password.",
    ),
]
ContextOption = Annotated[
    str | None,
    typer.Option(
        "--context",
        envvar=CONTEXT_VARIABLE,
        metavar="NAME",
        help="Gateway that `sluicegate context add` has named. Default: the selected one.",
    ),
]


@app.callback()
def sluicegate(
    context: typer.Context,
    admin_username: AdminUsernameOption = None,
    admin_password_file: AdminPasswordFileOption = None,
    admin_token_file: AdminTokenFileOption = None,
    gateway: ContextOption = None,
    is_version_asked: ReleaseOption = False,  # the option's callback has ended the command
) -> None:
    """A message gateway: per-key ordered, elastic, durable work queues for any protocol."""
    login = AdminLogin(admin_username, admin_password_file, admin_token_file)
    if context.invoked_subcommand not in LOCAL:
        login = _in_context(context, gateway, login)
    before = LOGIN.set(login)
    context.call_on_close(lambda: LOGIN.reset(before))


def _in_context(context: typer.Context, name: str | None, login: AdminLogin) -> AdminLogin:
    """Give commands the defaults of a context of the user; return the login that counts. Raises CommandFailed.

    Options count more than the environment, and that more than a context. If the command line names the context, the
    environment counts for passwords only.
    """
    contexts = read_contexts()
    chosen = name or contexts.selected
    if chosen is None:
        return login
    found = contexts.named(chosen)
    command = context.invoked_subcommand or ""
    assert isinstance(context.command, LateCommands)
    context.default_map = {command: defaults_of(found, command, context.command.get_command(context, command))}
    if not _is_on_command_line(context, "gateway"):
        return login if login.is_given else found.login()
    hidden = {each: os.environ.pop(each) for each in found.variables() if each in os.environ}
    context.call_on_close(lambda: os.environ.update(hidden))
    options = ("admin_username", "admin_password_file", "admin_token_file")
    return login if any(_is_on_command_line(context, each) for each in options) else found.login()


def _is_on_command_line(context: typer.Context, option: str) -> bool:
    source = context.get_parameter_source(option)
    return source is not None and source.name == "COMMANDLINE"
