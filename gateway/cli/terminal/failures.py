"""How a command ends when it does not succeed: an exit code, a sentence, and what to do. Never a traceback."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TextIO

import typer

from sluicegate.gateway.cli.terminal.flags import Group
from sluicegate.gateway.views.text import printable

# Commands whose reader has gone, as with `sluicegate sub | head`: they end without a word, in good order.


class ReadGroup(Group):
    """A group of commands that somebody reads, for as long as somebody does."""

    def make_context(self, *arguments: Any, **settings: Any) -> Any:  # as in the base class
        """Read the arguments of the group itself, of which `--help` is one."""
        with _while_anybody_reads():
            return super().make_context(*arguments, **settings)

    def invoke(self, ctx: Any) -> Any:  # as in the base class
        """Run the command."""
        with _while_anybody_reads():
            return super().invoke(ctx)


@contextmanager
def _while_anybody_reads() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        _forget(sys.stdout)
        raise typer.Exit from None
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # rich ends the process itself, as a failure
            raise typer.Exit from None
        raise


def _forget(stream: TextIO) -> None:
    """Keep the interpreter from flushing into the closed pipe when it ends."""
    try:
        stream.close()
    except BrokenPipeError:
        return


OK: Final = 0
FAILED: Final = 1  # the gateway refused, or something went wrong
USAGE: Final = 2  # the command line or the configuration is wrong
UNREACHABLE: Final = 3  # no gateway answers there


class CommandFailed(Exception):
    """A command cannot go on."""

    def __init__(self, text: str, *, exit_code: int = FAILED, advice: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.exit_code = exit_code
        self.advice = advice


def unreachable(where: str, problem: object, options: str) -> CommandFailed:
    """Return what to say when nobody answers, or somebody whose certificate is not believed.

    `options` are those that name another address.
    """
    import ssl  # late: whoever has asked a gateway has it already, and all other commands do without

    advice = f"Is it running (`sluicegate serve`)? Another address: {options}."
    reason = getattr(problem, "strerror", None) or problem
    if isinstance(problem, ssl.SSLCertVerificationError):
        reason = f"its certificate is not believed: {problem.verify_message}"
        advice = "An authority of your own: SSL_CERT_FILE=ca.pem in the environment."
    elif isinstance(problem, ssl.SSLError):
        reason = f"TLS fails: {problem.reason or problem}"
        advice = f"Does that port speak TLS? Another address: {options}."
    return CommandFailed(f"no gateway answers at {where}: {reason}", exit_code=UNREACHABLE, advice=advice)


class ReportingGroup(ReadGroup):
    """Turns CommandFailed into an exit code and a message on standard error."""

    def invoke(self, ctx: Any) -> Any:  # as in the base class
        """Run the command."""
        try:
            return super().invoke(ctx)
        except CommandFailed as failure:
            report(failure)
            raise typer.Exit(failure.exit_code) from None


def report(failure: CommandFailed) -> None:
    """Print a failure for people. Text is not markup: a queue may be called `[red]`."""
    from rich.console import Console  # late: most commands do not fail, and some print nothing that it is for

    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print("error:", style="bold red", end=" ")
    for text in (failure.text, failure.advice):
        if text:
            console.print("\n".join(map(printable, text.split("\n"))), markup=False)
