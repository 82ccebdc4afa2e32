"""`sluicegate config export|apply`: all that operators made while the gateway runs, written down and brought about."""

import sys
from collections.abc import Collection, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import orjson
import typer
import yaml

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, UrlOption
from sluicegate.gateway.cli.admin.objects import AdminObjects
from sluicegate.gateway.cli.commands.config.kinds import DECLARED
from sluicegate.gateway.cli.terminal.failures import USAGE, CommandFailed
from sluicegate.gateway.cli.terminal.output import JsonOption, as_json_text, print_json
from sluicegate.gateway.config.document import ConfigError, Place, Problem
from sluicegate.gateway.config.load import text_in, text_of
from sluicegate.gateway.config.yaml_document import read_yaml
from sluicegate.gateway.provisioning.declarations import (
    ADD,
    BYTES_MAX,
    REMOVE,
    SET,
    VALUES_MAX,
    VERSION,
    Change,
    DeclarationInvalid,
    Fields,
    Objects,
    differences,
    read_declaration,
)
from sluicegate.gateway.views.text import printable, printable_json

DIFFERS: Final = 4  # exit code of a dry run that found something to do
STANDARD_INPUT: Final = "-"

app = typer.Typer(help="All that was made while the gateway runs, as one document.", no_args_is_help=True)

KINDS: Final = {each.kind: each for each in DECLARED}

VpnsOption = Annotated[
    list[str] | None, typer.Option("--vpn", metavar="NAME", help="This message VPN; may be repeated. Else all.")
]


@app.command("export")
def export(
    vpns: VpnsOption = None,
    url: UrlOption = URL_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Print queues, templates, profiles, users without passwords, REST delivery points, as YAML that apply reads."""
    client = AdminObjects(url)
    names = vpns or [each.name for each in client.list_message_vpns().message_vpns]
    document = {"version": VERSION, "message_vpns": {name: _exported(client.in_vpn(name)) for name in names}}
    dumped = as_json_text(document) + "\n" if as_json else as_yaml(document)
    size = len(dumped.encode())
    if size > BYTES_MAX:
        advice = "One message VPN at a time: --vpn NAME."
        raise CommandFailed(f"the document would have {size} bytes, and apply reads {BYTES_MAX}", advice=advice)
    typer.echo(dumped, nl=False)


@app.command("apply")
def apply(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The document, as export prints it; - is standard input.")
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be done: exit code 4 if anything.")
    ] = False,
    prune: Annotated[
        bool,
        typer.Option(
            "--prune", help="Delete what the document does not have, of the kinds that it lists, with what it holds."
        ),
    ] = False,
    url: UrlOption = URL_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Make and change what differs from a document. What it does not list stays, but for --prune."""
    wanted = _wanted(file)
    client = AdminObjects(url)
    clients = {vpn: client.in_vpn(vpn) for vpn in wanted}
    planned = [
        (vpn, change, _secrets(change, by_kind))
        for vpn, by_kind in wanted.items()
        for change in _changes(clients[vpn], by_kind, prune=prune)
    ]
    missing = [each for vpn, by_kind in wanted.items() for each in _missing(vpn, clients[vpn], by_kind, planned)]
    if missing:
        raise CommandFailed("\n".join(missing), advice="Nothing was done.")
    count = len(planned)
    for done_count, (vpn, change, secrets) in enumerate(planned):
        if not dry_run:
            try:
                _do(clients[vpn], change, secrets)
            except CommandFailed as failed:
                which = f"{vpn}: {KINDS[change.kind].label} {change.name}"
                advice = f"{done_count} of {count} changes were made; the next apply goes on from there."
                raise CommandFailed(f"{which}: {failed.text}", exit_code=failed.exit_code, advice=advice) from None
        _tell(vpn, change, as_json)
    if not as_json:
        typer.echo(f"{count} {'change' if count == 1 else 'changes'}{' to be made' if dry_run else ''}", err=True)
    if dry_run and count:
        raise typer.Exit(DIFFERS)


def as_yaml(document: object) -> str:
    """Return a document as apply reads it, with what a terminal would obey escaped."""
    # YAML's writer leaves some of that as it is: bidirectional marks, for example.
    return printable_json(yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True))


class _Dumper(yaml.SafeDumper):
    """Has texts between double quotes that hold what cannot be seen: only there can it be escaped."""


def _write_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if text.isprintable() else '"')


_Dumper.add_representer(str, _write_text)


def _exported(client: AdminObjects) -> dict[str, list[Fields]]:
    """Return what a document says of a message VPN; a kind of which there is nothing is an empty list."""
    return {
        each.kind: [each.written(fields) for _, fields in sorted(each.present(client).items())] for each in DECLARED
    }


def _wanted(file: str) -> dict[str, dict[str, Objects]]:
    """Return the objects of a document as they stand there, after all were checked. Raises CommandFailed."""
    try:
        text = (
            text_in(sys.stdin.buffer, Place(file), bytes_max=BYTES_MAX)
            if file == STANDARD_INPUT
            else text_of(Path(file), bytes_max=BYTES_MAX)
        )
        document = read_yaml(text, file, nodes_max=VALUES_MAX)
    except ConfigError as error:
        raise CommandFailed(str(error), exit_code=USAGE) from None
    try:
        return read_declaration(document.root, {each.kind: each.complete for each in DECLARED})
    except DeclarationInvalid as error:
        problems = [Problem(document.place(each.path), "", each.text) for each in error.mistakes]
        raise CommandFailed("\n".join(map(str, problems)), exit_code=USAGE) from None


def _changes(client: AdminObjects, wanted: dict[str, Objects], *, prune: bool) -> Iterator[Change]:
    """Yield what has to be done in a message VPN, in an order in which it can be."""
    removals: list[Change] = []
    for kind in DECLARED:
        if kind.kind in wanted:
            complete = {name: kind.complete(given) for name, given in wanted[kind.kind].items()}
            for change in differences(kind.kind, complete, kind.present(client), prune=prune):
                if change.action == REMOVE:
                    removals.append(change)
                else:
                    yield change
    yield from reversed(removals)


def _secrets(change: Change, wanted: dict[str, Objects]) -> Fields:
    """Return what the document says that is not compared. Raises CommandFailed where it has to be there."""
    return KINDS[change.kind].secrets(wanted[change.kind][change.name]) if change.action == ADD else {}


def _missing(
    vpn: str, client: AdminObjects, wanted: dict[str, Objects], planned: list[tuple[str, Change, Fields]]
) -> Iterator[str]:
    """Say what objects of a message VPN name, and that will not be there when they are made or changed."""
    changes = [change for its_vpn, change, _ in planned if its_vpn == vpn]
    removed = {(change.kind, change.name) for change in changes if change.action == REMOVE}
    known: dict[str, Collection[str]] = {}
    for change in changes:
        of = KINDS[change.kind]
        for kind, name in of.needs(change.fields).items():
            if name in wanted.get(kind, ()):
                continue
            if kind not in known:
                known[kind] = KINDS[kind].names(client)
            if name not in known[kind] or (kind, name) in removed:
                label = KINDS[kind].label
                yield f"{vpn}: {of.label} {change.name!r} needs the {label} {name!r}, which is nowhere"


def _do(client: AdminObjects, change: Change, secrets: Fields) -> None:
    kind = KINDS[change.kind]
    if change.action == ADD:
        kind.add(client, {**change.fields, **secrets})
    elif change.action == SET:
        kind.change(client, change.name, change.fields)
    else:
        kind.remove(client, change.name)


def _tell(vpn: str, change: Change, as_json: bool) -> None:
    if as_json:
        print_json({"vpn": vpn, "deed": change.action, **asdict(change)})
        return
    typer.echo(printable(f"{change.action} {vpn}: {KINDS[change.kind].label} {change.name}"))
    if change.action == ADD:
        for key, value in KINDS[change.kind].written(change.fields).items():
            if key != "name":
                typer.echo(printable(f"    {key}: {_said(value)}"))
    for key, value in change.before.items():
        typer.echo(printable(f"    {key}: {_said(value)} -> {_said(change.fields[key])}"))


def _said(value: object) -> str:
    """Return a value as a document has it, in one line."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()
