"""Input of passwords. They are never arguments, because every user of the machine can read the command line."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from sluicegate.gateway.cli.terminal.failures import USAGE, CommandFailed
from sluicegate.gateway.config.sections.security import secret_files

PasswordFileOption = Annotated[
    Path | None,
    typer.Option(
        "--password-file", metavar="FILE", help="File with the password in its first line; - for standard input."
    ),
]


def new_password(file: Path | None) -> str:
    """Return a password from a file's first line, the terminal without echo, or a line of standard input.

    Raises CommandFailed.
    """
    if file is not None and str(file) != "-":
        password = first_line(file)
    elif file is None and sys.stdin.isatty():
        password = str(typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    else:
        with _errors_reported():
            password = secret_files.read_line(sys.stdin.buffer, "standard input")
    if not password:
        raise CommandFailed("the password is empty", exit_code=USAGE)
    return password


def first_line(file: Path) -> str:
    """Return the first line of a file with a secret. Raises CommandFailed."""
    with _errors_reported():
        return secret_files.first_line(file)


@contextmanager
def _errors_reported() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CommandFailed(f"{error.filename}: {error.strerror or error}", exit_code=USAGE) from None
    except ValueError as error:
        raise CommandFailed(str(error), exit_code=USAGE) from None
