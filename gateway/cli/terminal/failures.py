"""Failures of commands: an exit code, a message and advice on standard error, and no traceback."""

from typing import Final

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
