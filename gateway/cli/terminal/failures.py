"""How a command ends when it does not succeed: an exit code, a sentence, and what to do. Never a traceback."""

from typing import Any, Final

import typer

from sluicegate.gateway.cli.terminal.closed_pipes import ReadGroup
from sluicegate.gateway.views.printable import printable

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
