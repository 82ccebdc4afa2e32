"""Credentials that commands take: the login at an admin port that has accounts, and new passwords.

They are never arguments, because every user of the machine can read the command line.
"""

import base64
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from sluicegate.gateway.cli.terminal.failures import USAGE, CommandFailed
from sluicegate.gateway.config.sections.security import secret_files

PASSWORD_VARIABLE: Final = "SLUICEGATE_ADMIN_PASSWORD"

PasswordFileOption = Annotated[
    Path | None,
    typer.Option(
        "--password-file", metavar="FILE", help="File with the password in its first line; - for standard input."
    ),
]


@dataclass(frozen=True, slots=True)
class AdminLogin:
    """The login options of the command line. Secrets are read when a command needs them."""

    username: str | None = None
    password_file: Path | None = None
    token_file: Path | None = None
    only_at: str | None = None  # it is a context's, and of this admin port; None: of whichever is asked

    @property
    def is_given(self) -> bool:
        """Whether there is a login."""
        return self.username is not None or self.token_file is not None

    def authorization(self, url: str) -> str | None:
        """Return the Authorization header for requests to a port, None without a login. Raises CommandFailed."""
        if self.only_at is not None and self.only_at.rstrip("/") != url.rstrip("/"):
            return None
        if self.token_file is not None:
            token = first_line(self.token_file)
            if not token or not token.isascii() or not token.isprintable():
                raise CommandFailed(f"the first line of {self.token_file} is not a bearer token", exit_code=USAGE)
            return f"Bearer {token}"
        if self.username is None:
            return None
        return "Basic " + base64.b64encode(f"{self.username}:{self._password(self.username)}".encode()).decode()

    def _password(self, username: str) -> str:
        if self.password_file is not None:
            return first_line(self.password_file)
        password = os.environ.get(PASSWORD_VARIABLE)
        if password is None and sys.stdin.isatty():
            password = str(typer.prompt(f"Password for {username}", hide_input=True, err=True))
        if not password:
            advice = f"Give --admin-password-file FILE, or set {PASSWORD_VARIABLE}."
            raise CommandFailed(f"no password is given for {username!r}", exit_code=USAGE, advice=advice)
        return password


# The login of the running command. Commands take an address and a message VPN; the login applies to all of them.
LOGIN: Final[ContextVar[AdminLogin]] = ContextVar("LOGIN")


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
