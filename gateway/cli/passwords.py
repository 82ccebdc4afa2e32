"""How commands get a password: never as a word of the command line, which everybody on the machine can read."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from gateway import password_files
from gateway.cli.failures import USAGE, CommandFailed
from gateway.password_files import PASSWORD_FILE_BYTES_MAX

PasswordFileOption = Annotated[
    Path | None,
    typer.Option("--password-file", metavar="FILE", help="The password is its first line; - is standard input."),
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
        password = sys.stdin.readline(PASSWORD_FILE_BYTES_MAX).rstrip("\n")
    if not password:
        raise CommandFailed("an empty password is none", exit_code=USAGE)
    return password


def first_line(file: Path) -> str:
    """Return the first line of a file with a secret. Raises CommandFailed."""
    try:
        return password_files.first_line(file)
    except OSError as error:
        raise CommandFailed(f"{file}: {error.strerror or error}", exit_code=USAGE) from None
    except UnicodeDecodeError:
        raise CommandFailed(f"{file} is no text in UTF-8", exit_code=USAGE) from None
