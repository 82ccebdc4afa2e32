"""`sluicegate config export|apply`: export what operators created on a running gateway, and apply such a document."""

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
    SETTINGS,
    VALUES_MAX,
    VERSION,
    Change,
    DeclarationInvalid,
    Fields,
    Objects,
    differences,
    read_declaration,
)
from sluicegate.gateway.provisioning.store import OPERATOR
from sluicegate.gateway.views.clients.message_vpns import MessageVpnView
from sluicegate.gateway.views.text import counted, printable, printable_json
from sluicegate.messaging.clients.roster import DEFAULT

DIFFERS: Final = 4  # exit code of a dry run that found changes
STANDARD_INPUT: Final = "-"

app = typer.Typer(
    help="Export and apply what operators created on a running gateway, as one document.", no_args_is_help=True
)

KINDS: Final = {each.kind: each for each in DECLARED}

VpnsOption = Annotated[
    list[str] | None, typer.Option("--vpn", metavar="NAME", help="Message VPN to export; repeatable. Default: all.")
]


@app.command("export")
def export(
    vpns: VpnsOption = None,
    url: UrlOption = URL_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Print message VPNs, queues, templates, profiles, users (without passwords) and REST delivery points as YAML."""
    client = AdminObjects(url)
    known = _known_vpns(client, vpns or [])
    exported = {name: _exported(client.in_vpn(name), known.get(name)) for name in vpns or known}
    document = {"version": VERSION, "message_vpns": exported}
    dumped = as_json_text(document) + "\n" if as_json else as_yaml(document)
    size = len(dumped.encode())
    if size > BYTES_MAX:
        advice = "Export one message VPN at a time with --vpn NAME."
        raise CommandFailed(f"the document has {size} bytes, and apply reads at most {BYTES_MAX}", advice=advice)
    typer.echo(dumped, nl=False)


@app.command("apply")
def apply(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Document in the form of `export`; - for standard input.")
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the changes without making them. Exit code 4: there are changes.")
    ] = False,
    prune: Annotated[
        bool,
        typer.Option(
            "--prune",
            help="Delete objects that the document does not list, of the kinds that it does, with their messages.",
        ),
    ] = False,
    url: UrlOption = URL_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Create and change objects to match a document. Objects that it does not list stay, unless --prune is given."""
    wanted = _wanted(file)
    client = AdminObjects(url)
    clients = {vpn: client.in_vpn(vpn) for vpn in wanted}
    new = _new_vpns(client, wanted)
    planned = [
        (vpn, change, _secrets(change, by_kind))
        for vpn, by_kind in wanted.items()
        for change in _changes(clients[vpn], by_kind, prune=prune, is_new=vpn in new)
    ]
    missing = [
        each for vpn, by_kind in wanted.items() for each in _missing(clients[vpn], by_kind, planned, is_new=vpn in new)
    ]
    if missing:
        raise CommandFailed("\n".join(missing), advice="Nothing was changed.")
    count = len(planned)
    for done_count, (vpn, change, secrets) in enumerate(planned):
        if not dry_run:
            try:
                _make(clients[vpn], change, secrets)
            except CommandFailed as failed:
                which = f"{vpn}: {KINDS[change.kind].label} {change.name}"
                advice = f"{done_count} of {count} changes were made. Run apply again to make the others."
                raise CommandFailed(f"{which}: {failed.text}", exit_code=failed.exit_code, advice=advice) from None
        _print_change(vpn, change, as_json)
    if not as_json:
        typer.echo(f"{counted(count, 'change')}{' to make' if dry_run else ''}", err=True)
    if dry_run and count:
        raise typer.Exit(DIFFERS)


def as_yaml(document: object) -> str:
    """Return a document as YAML for `apply`, with control characters escaped."""
    # The YAML writer does not escape all of them: bidirectional marks, for example.
    return printable_json(yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True))


class _Dumper(yaml.SafeDumper):
    """Writes texts with unprintable characters in double quotes, the only style in which YAML can escape them."""


def _write_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if text.isprintable() else '"')


_Dumper.add_representer(str, _write_text)


def _exported(client: AdminObjects, vpn: MessageVpnView | None) -> dict[str, object]:
    """Return the objects of a message VPN by kind, and its settings if an operator made it.

    A kind without objects is an empty list.
    """
    exported: dict[str, object] = {}
    if vpn is not None and vpn.origin == OPERATOR:
        settings = KINDS[SETTINGS].written({"name": vpn.name, **vpn.settings})
        exported[SETTINGS] = {key: value for key, value in settings.items() if key != "name"}
    for each in DECLARED:
        if each.kind != SETTINGS:
            exported[each.kind] = [each.written(fields) for _, fields in sorted(each.present(client).items())]
    return exported


def _known_vpns(client: AdminObjects, named: Collection[str]) -> dict[str, MessageVpnView]:
    """Return the message VPNs by name; none if the account may see the `named` ones only from inside."""
    try:
        return {each.name: each for each in client.list_message_vpns().message_vpns}
    except CommandFailed:
        if named:
            return {}
        raise


def _new_vpns(client: AdminObjects, wanted: dict[str, dict[str, Objects]]) -> set[str]:
    """Return the message VPNs that a document creates: it has settings for them, and they do not exist."""
    with_settings = {vpn for vpn, by_kind in wanted.items() if SETTINGS in by_kind}
    if not with_settings:
        return set()
    return with_settings - {each.name for each in client.list_message_vpns().message_vpns}


def _wanted(file: str) -> dict[str, dict[str, Objects]]:
    """Read a document and check every object; return the objects as written. Raises CommandFailed."""
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


def _changes(client: AdminObjects, wanted: dict[str, Objects], *, prune: bool, is_new: bool) -> Iterator[Change]:
    """Yield the changes for a message VPN, ordered so that each object exists before another one names it."""
    removals: list[Change] = []
    for kind in DECLARED:
        if kind.kind in wanted:
            complete = {name: kind.complete(given) for name, given in wanted[kind.kind].items()}
            present = {} if is_new else kind.present(client)
            for change in differences(kind.kind, complete, present, prune=prune):
                if change.action == REMOVE:
                    removals.append(change)
                else:
                    yield change
    yield from reversed(removals)


def _secrets(change: Change, wanted: dict[str, Objects]) -> Fields:
    """Return the secrets of an object that is to be created. Raises CommandFailed where one is required but missing."""
    return KINDS[change.kind].secrets(wanted[change.kind][change.name]) if change.action == ADD else {}


def _missing(
    client: AdminObjects, wanted: dict[str, Objects], planned: list[tuple[str, Change, Fields]], *, is_new: bool
) -> Iterator[str]:
    """Yield an error for each object that a change names and that will not exist when the change is made."""
    vpn = client.vpn
    changes = [change for its_vpn, change, _ in planned if its_vpn == vpn]
    removed = {(change.kind, change.name) for change in changes if change.action == REMOVE}
    known: dict[str, Collection[str]] = {}
    for change in changes:
        of = KINDS[change.kind]
        for kind, name in of.needs(change.fields).items():
            if name in wanted.get(kind, ()):
                continue
            if kind not in known:
                known[kind] = {DEFAULT} if is_new else KINDS[kind].names(client)
            if name not in known[kind] or (kind, name) in removed:
                label = KINDS[kind].label
                yield f"{vpn}: {of.label} {change.name!r} needs the {label} {name!r}, which does not exist"


def _make(client: AdminObjects, change: Change, secrets: Fields) -> None:
    kind = KINDS[change.kind]
    if change.action == ADD:
        kind.add(client, {**change.fields, **secrets})
    elif change.action == SET:
        kind.change(client, change.name, change.fields)
    else:
        kind.remove(client, change.name)


def _print_change(vpn: str, change: Change, as_json: bool) -> None:
    if as_json:
        print_json({"vpn": vpn, "deed": change.action, **asdict(change)})
        return
    typer.echo(printable(f"{change.action} {vpn}: {KINDS[change.kind].label} {change.name}"))
    if change.action == ADD:
        for key, value in KINDS[change.kind].written(change.fields).items():
            if key != "name":
                typer.echo(printable(f"    {key}: {_one_line(value)}"))
    for key, value in change.before.items():
        typer.echo(printable(f"    {key}: {_one_line(value)} -> {_one_line(change.fields[key])}"))


def _one_line(value: object) -> str:
    """Return a value as the document writes it, on one line."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()
