"""Failures of commands: an exit code, a message and advice on standard error, and no traceback.

The classes of commands and groups report them. They also end a command that loses the reader of its output, and write
the help of flags.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TextIO

import typer
from typer.core import TyperCommand, TyperGroup

from sluicegate.gateway.views.text import printable

OK: Final = 0
FAILED: Final = 1  # the gateway refused the request, or the command failed
USAGE: Final = 2  # the command line or the configuration is invalid
UNREACHABLE: Final = 3  # no gateway answers at the address


class CommandFailed(Exception):
    """A command ends with a message, advice and an exit code."""

    def __init__(self, text: str, *, exit_code: int = FAILED, advice: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.exit_code = exit_code
        self.advice = advice


def unreachable(where: str, problem: object, options: str) -> CommandFailed:
    """Return the failure for a gateway that cannot be reached, or whose certificate is not trusted.

    `options` are the options that name another address.
    """
    import ssl  # late: commands that connect have imported it already, the others do not need it

    advice = f"Is it running (`sluicegate serve`)? Give another address with {options}."
    reason = getattr(problem, "strerror", None) or problem
    if isinstance(problem, ssl.SSLCertVerificationError):
        reason = f"its certificate is not trusted: {problem.verify_message}"
        advice = "Trust your own CA with SSL_CERT_FILE=ca.pem in the environment."
    elif isinstance(problem, ssl.SSLError):
        reason = f"the TLS handshake failed: {problem.reason or problem}"
        advice = f"Does that port use TLS? Give another address with {options}."
    return CommandFailed(f"cannot reach a gateway at {where}: {reason}", exit_code=UNREACHABLE, advice=advice)


def report(failure: CommandFailed) -> None:
    """Print a failure on standard error. Texts are not markup: a queue may be named `[red]`."""
    from rich.console import Console  # late: most commands do not fail, and some need no rich

    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print("error:", style="bold red", end=" ")
    for text in (failure.text, failure.advice):
        if text:
            console.print("\n".join(map(printable, text.split("\n"))), markup=False)


# --- classes of commands and groups ---


VALUES: Final = {"int": "NUMBER", "int range": "NUMBER", "float": "NUMBER", "float range": "NUMBER", "str": "TEXT"}


class _ShowsValues:
    """Shows in the help what values options take. Typer prints Python's types: `<int range>`, and `<bool>` of flags."""

    def get_params(self, ctx: Any) -> Any:  # as in the base class
        """Return the options and arguments, with words for their values; arguments have their names."""
        found = super().get_params(ctx)  # type: ignore[misc]  # of the sibling base class
        for each in found:
            if getattr(each, "is_flag", False):
                each.metavar = ""
            elif each.param_type_name == "argument":
                each.display_type_rich = _nothing
            elif each.metavar is None:
                each.metavar = _value_word(str(each.display_type(ctx) or ""))
        return found


def _nothing(ctx: Any) -> None:
    return None


def _value_word(shown: str) -> str:
    """Return the word for the type that typer shows: `<list[str]>` is TEXT. Choices stay."""
    name = shown.strip("<>").removeprefix("list[").removesuffix("]")
    return VALUES.get(name, "FILE" if "path" in name.lower() else name)


class Command(_ShowsValues, TyperCommand):
    """A command."""


class Group(_ShowsValues, TyperGroup):
    """A command group."""


class ReadGroup(Group):
    """A command group that ends silently when the reader of its output is gone, as with `sluicegate sub | head`."""

    def make_context(self, *arguments: Any, **settings: Any) -> Any:  # as in the base class
        """Parse the arguments of the group itself, such as `--help`."""
        with _until_reader_gone():
            return super().make_context(*arguments, **settings)

    def invoke(self, ctx: Any) -> Any:  # as in the base class
        """Run the command."""
        with _until_reader_gone():
            return super().invoke(ctx)


@contextmanager
def _until_reader_gone() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        _close(sys.stdout)
        raise typer.Exit from None
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # rich exits the process itself, as a failure
            raise typer.Exit from None
        raise


def _close(stream: TextIO) -> None:
    """Close a stream, so that the interpreter does not flush it into the closed pipe at exit."""
    try:
        stream.close()
    except BrokenPipeError:
        return


class ReportingGroup(ReadGroup):
    """A command group that turns CommandFailed into an exit code and a message on standard error."""

    def invoke(self, ctx: Any) -> Any:  # as in the base class
        """Run the command."""
        try:
            return super().invoke(ctx)
        except CommandFailed as failure:
            report(failure)
            raise typer.Exit(failure.exit_code) from None


def show_flags(app: typer.Typer) -> None:
    """Make all commands of an application use these classes."""
    for command in app.registered_commands:
        command.cls = Command
    for group in app.registered_groups:
        group.cls = Group
        if group.typer_instance is not None:
            show_flags(group.typer_instance)
