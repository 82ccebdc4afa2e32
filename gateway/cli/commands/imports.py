"""`sluicegate import ...`: the configuration of another broker as one of this broker, with a report."""

import os
import re
import socket
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Annotated, Final, Protocol

import typer

from sluicegate.gateway.cli.terminal.failures import USAGE, CommandFailed
from sluicegate.gateway.cli.terminal.output import JsonOption, print_json
from sluicegate.gateway.config.document import ConfigError
from sluicegate.gateway.config.load import load
from sluicegate.gateway.importing.imported import PASSWORDS, Imported
from sluicegate.gateway.importing.report import ImportFailed
from sluicegate.gateway.importing.usable import switch_off_unusable
from sluicegate.storage.environment.file_kinds import is_there

CONFIGURATION: Final = "sluicegate.yaml"
REPORT: Final = "report.txt"
SOURCE_BYTES_MAX: Final = 64 << 20

app = typer.Typer(help="Take over the configuration of another broker, and report what differs.", no_args_is_help=True)

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The other broker's configuration.")]
IntoOption = Annotated[
    Path, typer.Option("--into", metavar="FOLDER", help=f"Folder for {CONFIGURATION}, {PASSWORDS}/ and {REPORT}.")
]
NodeOption = Annotated[
    str | None, typer.Option("--node", metavar="NAME", help="Name of the new broker. Default: that of this machine.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace the files of an earlier import.")]
VolumeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--volume",
        "-v",
        metavar="HERE:INSIDE",
        help="Where a folder of mosquitto's container is here, as docker takes it: ./config:/mosquitto/config. "
        "May be repeated.",
    ),
]
INTO_DEFAULT: Final = Path("imported")


class DiskFiles:
    """The files of the source, on this machine."""

    def text(self, path: str) -> str:
        """Return the text of a file. Raises OSError; ValueError if it is no text."""
        with open(path, "rb") as stream:
            raw = stream.read(SOURCE_BYTES_MAX + 1)
        if len(raw) > SOURCE_BYTES_MAX:
            raise ValueError(f"it has more than {SOURCE_BYTES_MAX} bytes")
        try:
            return raw.decode("utf-8-sig")
        except UnicodeDecodeError as problem:
            raise ValueError(f"byte {problem.start} is not UTF-8") from None

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder. Raises OSError."""
        return os.listdir(folder)


@app.command("mosquitto")
def mosquitto(
    file: FileArgument,
    into: IntoOption = INTO_DEFAULT,
    volume: VolumeOption = None,
    node: NodeOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Take over a mosquitto.conf, with its password file, ACL file and bridges."""
    from sluicegate.gateway.importing.mosquitto import import_mosquitto  # late: each command needs one of the importers
    from sluicegate.gateway.importing.mosquitto.volumes import parse_volume

    try:
        volumes = [parse_volume(text) for text in volume or ()]
    except ValueError as problem:
        raise CommandFailed(f"--volume: {problem}", exit_code=USAGE) from None
    volumes = [each._replace(here=PurePosixPath(Path(each.here).resolve())) for each in volumes]

    def translate(folder: str) -> Imported:
        return import_mosquitto(str(file), DiskFiles(), node=_name(node), folder=folder, volumes=volumes)

    _import(file, into, force, as_json, translate)


@app.command("rabbitmq")
def rabbitmq(
    file: FileArgument,
    into: IntoOption = INTO_DEFAULT,
    node: NodeOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Take over the definitions that `rabbitmqctl export_definitions FILE` has written."""
    from sluicegate.gateway.importing.rabbitmq import import_rabbitmq  # late, likewise

    _import_text(file, into, force, as_json, _name(node), import_rabbitmq)


@app.command("activemq")
def activemq(
    file: FileArgument,
    into: IntoOption = INTO_DEFAULT,
    node: NodeOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Take over an activemq.xml of ActiveMQ Classic."""
    from sluicegate.gateway.importing.activemq import import_activemq  # late, likewise

    _import_text(file, into, force, as_json, _name(node), import_activemq)


@app.command("solace")
def solace(
    file: FileArgument,
    into: IntoOption = INTO_DEFAULT,
    node: NodeOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Take over message VPNs of Solace PubSub+ from a dump of SEMP v2 (JSON)."""
    from sluicegate.gateway.importing.solace import import_solace  # late, likewise

    _import_text(file, into, force, as_json, _name(node), import_solace)


class _ImportsText(Protocol):
    """An importer of one text."""

    def __call__(self, path: str, text: str, *, node: str, folder: str) -> Imported:
        """Return what the text of a file becomes. Raises ImportFailed."""


def _import_text(file: Path, into: Path, force: bool, as_json: bool, node: str, translate: _ImportsText) -> None:
    try:
        text = DiskFiles().text(str(file))
    except OSError as problem:
        raise CommandFailed(f"{file}: the file cannot be read: {problem.strerror}", exit_code=USAGE) from None
    except ValueError as problem:
        raise CommandFailed(f"{file}: the file cannot be read: {problem}", exit_code=USAGE) from None
    _import(file, into, force, as_json, lambda folder: translate(str(file), text, node=node, folder=folder))


def _import(file: Path, into: Path, force: bool, as_json: bool, translate: Callable[[str], Imported]) -> None:
    """Translate, write, check what was written, and print the report."""
    folder = into.resolve()
    try:
        taken = [name for name in (CONFIGURATION, PASSWORDS, REPORT) if is_there(folder / name)]
    except OSError as problem:
        raise CommandFailed(f"{folder}: {problem.strerror}", exit_code=USAGE) from None
    if taken and not force:
        raise CommandFailed(
            f"{folder / taken[0]} exists",
            exit_code=USAGE,
            advice="Name another folder with --into, or replace it with --force.",
        )
    try:
        imported = translate(str(folder))
    except ImportFailed as problem:
        raise CommandFailed(str(problem), exit_code=USAGE) from None
    switch_off_unusable(imported)
    try:
        _write(folder, imported, str(file))
    except OSError as problem:
        raise CommandFailed(f"cannot write {problem.filename}: {problem.strerror}") from None
    try:
        load(folder / CONFIGURATION)
    except ConfigError as error:
        advice = f"Mend {folder / CONFIGURATION}; `sluicegate check-config` says when it is right."
        raise CommandFailed(f"what was written is not valid yet\n{error}", advice=advice) from None
    if as_json:
        print_json(imported.report.to_dict())
        return
    typer.echo("\n".join(imported.report.lines()))
    typer.echo(f"\nWritten to {folder}. Next: sluicegate serve --config {folder / CONFIGURATION}")


def _write(folder: Path, imported: Imported, source: str) -> None:
    secrets = folder / PASSWORDS
    secrets.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name, secret in imported.secrets.lines.items():
        _write_private(folder / name, f"{secret}\n")
    (folder / CONFIGURATION).write_text(imported.yaml_text(source), encoding="utf-8")
    _write_private(folder / REPORT, "\n".join(imported.report.lines()) + "\n")


def _write_private(file: Path, text: str) -> None:
    """Write a file that only its owner can read, from its first byte on."""
    file.unlink(missing_ok=True)
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
        stream.write(text)


def _name(given: str | None) -> str:
    """Return the name of the new broker."""
    if given is not None:
        return given
    return re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:64].lstrip("._-") or "broker"
