"""The login of commands at an admin port that has accounts. Passwords never appear on the command line."""

import base64
import os
import sys
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from sluicegate.gateway.cli.terminal.failures import USAGE, CommandFailed
from sluicegate.gateway.cli.terminal.passwords import first_line
from sluicegate.gateway.cli.version import ReleaseOption

PASSWORD_VARIABLE: Final = "SLUICEGATE_ADMIN_PASSWORD"

UserOption = Annotated[
    str | None,
    typer.Option("--admin-user", envvar="SLUICEGATE_ADMIN_USER", metavar="NAME", help="Account for the admin port."),
]
PasswordFileOption = Annotated[
    Path | None,
    typer.Option(
        "--admin-password-file",
        envvar="SLUICEGATE_ADMIN_PASSWORD_FILE",
        metavar="FILE",
        help=f"File with the password in its first line. Default: {PASSWORD_VARIABLE}, or a prompt.",
    ),
]
TokenFileOption = Annotated[
    Path | None,
    typer.Option(
        "--admin-token-file",
        envvar="SLUICEGATE_ADMIN_TOKEN_FILE",
        metavar="FILE",
        help="File with a bearer token in its first line, instead of name and password.",
    ),
]


@dataclass(frozen=True, slots=True)
class AdminLogin:
    """The login options of the command line. Secrets are read when a command needs them."""

    user: str | None = None
    password_file: Path | None = None
    token_file: Path | None = None

    def authorization(self) -> str | None:
        """Return the Authorization header for requests, None without a login. Raises CommandFailed."""
        if self.token_file is not None:
            token = first_line(self.token_file)
            if not token or not token.isascii() or not token.isprintable():
                raise CommandFailed(f"the first line of {self.token_file} is not a bearer token", exit_code=USAGE)
            return f"Bearer {token}"
        if self.user is None:
            return None
        return "Basic " + base64.b64encode(f"{self.user}:{self._password(self.user)}".encode()).decode()

    def _password(self, user: str) -> str:
        if self.password_file is not None:
            return first_line(self.password_file)
        password = os.environ.get(PASSWORD_VARIABLE)
        if password is None and sys.stdin.isatty():
            password = str(typer.prompt(f"Password for {user}", hide_input=True, err=True))
        if not password:
            advice = f"Give --admin-password-file FILE, or set {PASSWORD_VARIABLE}."
            raise CommandFailed(f"no password is given for {user!r}", exit_code=USAGE, advice=advice)
        return password


# The login of the running command. Commands take an address and a message VPN; the login applies to all of them.
LOGIN: Final[ContextVar[AdminLogin]] = ContextVar("LOGIN")


def take_login(
    context: typer.Context,
    admin_user: UserOption = None,
    admin_password_file: PasswordFileOption = None,
    admin_token_file: TokenFileOption = None,
    is_version_asked: ReleaseOption = False,  # the option's callback has ended the command
) -> None:
    """A message gateway: per-key ordered, elastic, durable work queues for any protocol."""
    before = LOGIN.set(AdminLogin(admin_user, admin_password_file, admin_token_file))
    context.call_on_close(lambda: LOGIN.reset(before))
