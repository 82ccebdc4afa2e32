"""Contexts: gateways under names, in a file of the user, and how a command takes its defaults from one.

A context has no secret in it, but the names of files that have them. The file is
`$XDG_CONFIG_HOME/sluicegate/contexts.json`, which only its owner may read.
"""

import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

import typer

from sluicegate.gateway.cli.terminal.credentials import AdminLogin, first_line
from sluicegate.gateway.cli.terminal.failures import USAGE, CommandFailed

CONTEXT_VARIABLE: Final = "SLUICEGATE_CONTEXT"
FILE: Final = Path("sluicegate", "contexts.json")
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# Commands that connect to the ports for clients, and what each takes from a context.
OF_CLIENTS: Final = {
    "pub": ("host", "port", "tls", "username", "password"),
    "sub": ("host", "port", "tls", "username", "password"),
    "bench": ("flow_url", "username", "password", "url", "vpn"),
}
OF_OPERATORS: Final = ("url", "vpn")  # all others take these
# Commands that connect to no gateway: whatever the file has, they work.
LOCAL: Final = frozenset(
    {"check-config", "context", "doctor", "hash-password", "import", "pipeline", "restore", "serve", "version"}
)
VARIABLES: Final = ("SLUICEGATE_URL", "SLUICEGATE_VPN", "SLUICEGATE_HOST", "SLUICEGATE_USERNAME")


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One gateway, and who asks it. A field that is None has the default of the command."""

    url: str | None = None  # admin port
    vpn: str | None = None
    admin_username: str | None = None
    admin_password_file: str | None = None  # absolute, as other files are
    admin_token_file: str | None = None
    host: str | None = None  # of the MQTT port
    port: int | None = None
    tls: bool | None = None
    flow_url: str | None = None
    username: str | None = None  # of clients: pub, sub, bench
    password_file: str | None = None
    description: str | None = None

    @classmethod
    def of(cls, value: object) -> Self:
        """Return the context in a document. Raises ValueError."""
        if not isinstance(value, dict):
            raise ValueError("a context is not a JSON object")
        kinds: dict[str, tuple[type, ...]] = {"port": (int,), "tls": (bool,)}
        for name, given in value.items():
            if name not in cls.__dataclass_fields__ or not isinstance(given, kinds.get(name, (str,))):
                raise ValueError(f"{name!r} is no field of a context, or has a value of the wrong type")
        return cls(**value)

    def given(self) -> dict[str, Any]:
        """Return the fields that are set."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def variables(self) -> tuple[str, ...]:
        """Return the variables of the environment that this context takes the place of, if it is named expressly."""
        return VARIABLES if self.password_file is None else (*VARIABLES, "SLUICEGATE_PASSWORD")

    def login(self) -> AdminLogin:
        """Return the login at its admin port, and nowhere else: it is of no use to another host but a thief."""
        password, token = self.admin_password_file, self.admin_token_file
        return AdminLogin(
            self.admin_username,
            None if password is None else Path(password),
            None if token is None else Path(token),
            only_at=self.url or "",
        )


@dataclass(slots=True)
class Contexts:
    """The contexts of a user, and the selected one."""

    by_name: dict[str, Context] = field(default_factory=dict)
    selected: str | None = None

    def named(self, name: str) -> Context:
        """Return a context. Raises CommandFailed."""
        found = self.by_name.get(name)
        if found is None:
            known = ", ".join(sorted(self.by_name)) or "none"
            text = f"there is no context {name!r}"
            raise CommandFailed(text, exit_code=USAGE, advice=f"Known: {known}. `sluicegate context add` makes one.")
        return found


def contexts_file() -> Path:
    """Return the file, which need not exist [XDG Base Directory Specification]. Raises CommandFailed."""
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    if os.path.isabs(folder):
        return Path(folder) / FILE
    try:
        return Path.home() / ".config" / FILE
    except RuntimeError:
        text = "this user has no home folder, where contexts would be"
        raise CommandFailed(text, exit_code=USAGE, advice="XDG_CONFIG_HOME names another folder.") from None


def read_contexts() -> Contexts:
    """Return what the file has; nothing if there is none. Raises CommandFailed."""
    try:
        file = contexts_file()
    except CommandFailed:  # of a user without a home
        return Contexts()
    try:
        document = json.loads(file.read_bytes())
        if not isinstance(document, dict) or not isinstance(document.get("contexts"), dict):
            raise ValueError("it is not a file of contexts")
        selected = document.get("selected")
        by_name = {str(name): Context.of(value) for name, value in document["contexts"].items()}
        return Contexts(by_name, selected if isinstance(selected, str) and selected in by_name else None)
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise CommandFailed(f"{file}: {error.strerror or error}", exit_code=USAGE) from None
    except ValueError as error:
        advice = "Mend it, or remove it and add the contexts again."
        raise CommandFailed(f"{file} cannot be read: {error}", exit_code=USAGE, advice=advice) from None


def write_contexts(contexts: Contexts) -> None:
    """Replace the file in one step. Raises CommandFailed."""
    file = contexts_file()
    document = {
        "selected": contexts.selected,
        "contexts": {name: contexts.by_name[name].given() for name in sorted(contexts.by_name)},
    }
    try:
        file.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
        number, made = tempfile.mkstemp(dir=file.parent, prefix=".contexts-")  # with mode 0600
        try:
            with os.fdopen(number, "w", encoding="utf-8") as target:
                target.write(json.dumps(document, indent=2) + "\n")
            os.replace(made, file)
        except OSError:
            os.unlink(made)
            raise
    except OSError as error:
        raise CommandFailed(f"{file}: {error.strerror or error}", exit_code=USAGE) from None


def defaults_of(context: Context, name: str, command: Any) -> dict[str, Any]:
    """Return the defaults that a context gives the options of a command, as click takes them (`default_map`).

    Those of a command group are by the names of its commands. Click asks for an option that is neither on the command
    line nor in the environment.
    """
    within: Mapping[str, Any] | None = getattr(command, "commands", None)
    if within is not None:
        return {each: defaults_of(context, name, found) for each, found in within.items()}
    given: dict[str, Any] = context.given()
    if context.password_file is not None:
        given["password"] = partial(first_line, Path(context.password_file))  # read when it is asked for
    return {each: given[each] for each in OF_CLIENTS.get(name, OF_OPERATORS) if each in given}


def login_stays(address: str) -> Callable[[typer.Context, str], str]:
    """Return the callback of the option for an address: a context's login is of use to no other host but a thief.

    Commands declare the option before those of the login, whose defaults it takes away.
    """

    def given(context: typer.Context, value: str) -> str:
        source = context.get_parameter_source(address)
        defaults = context.default_map
        is_given = source is not None and source.name in ("COMMANDLINE", "ENVIRONMENT")
        if defaults is not None and is_given and value != defaults.get(address):
            for each in ("username", "password"):
                defaults.pop(each, None)
        return value

    return given
