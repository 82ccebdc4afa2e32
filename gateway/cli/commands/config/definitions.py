"""`sluicegate config export|apply`: export what operators created on a running gateway, and apply such a document.

The gateway compares and applies. Here a document is read from YAML and written as YAML, and the changes are printed.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final

import orjson
import typer

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, UrlOption
from sluicegate.gateway.cli.admin.connection import RequestRefused
from sluicegate.gateway.cli.admin.objects import AdminObjects
from sluicegate.gateway.cli.terminal.failures import USAGE, CommandFailed
from sluicegate.gateway.cli.terminal.output import JsonOption, as_json_text, print_json
from sluicegate.gateway.config.document import ConfigError, Document, Place, Problem
from sluicegate.gateway.config.load import text_in, text_of
from sluicegate.gateway.config.yaml_document import read_yaml
from sluicegate.gateway.definitions.document import ADD, BYTES_MAX, REMOVE, SET, VALUES_MAX
from sluicegate.gateway.definitions.kinds import KIND_BY_NAME
from sluicegate.gateway.definitions.text import as_yaml
from sluicegate.gateway.views.definitions import DefinitionOutcome, DefinitionsView, DefinitionView
from sluicegate.gateway.views.text import counted, printable

DIFFERS: Final = 4  # exit code of a dry run that found changes
STANDARD_INPUT: Final = "-"
ACTIONS: Final = {
    DefinitionOutcome.CREATED: ADD,
    DefinitionOutcome.CHANGED: SET,
    DefinitionOutcome.DELETED: REMOVE,
}

app = typer.Typer(help="Export and apply what operators created, as one document.", no_args_is_help=True)

VpnsOption = Annotated[
    list[str] | None, typer.Option("--vpn", metavar="NAME", help="Message VPN to export; repeatable. Default: all.")
]


@app.command("export")
def export(
    vpns: VpnsOption = None,
    with_password_hashes: Annotated[
        bool,
        typer.Option(
            "--with-password-hashes",
            help="Include the hashes of users' passwords. Needs the access level admin; whoever has the document can "
            "try passwords against them.",
        ),
    ] = False,
    url: UrlOption = URL_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Print message VPNs, queues, templates, profiles, users, REST delivery points and bridges as YAML."""
    document = AdminObjects(url).export_definitions(vpns or [], with_password_hashes=with_password_hashes)
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
    document = _read(file)
    made_count = 0
    for view in _applications(AdminObjects(url), document, dry_run=dry_run, prune=prune):
        _print_changes(view, as_json)
        total_count = made_count + view.changes_count
        made_count += view.made_count
        _check_refusals(view, made_count, total_count)
    if not as_json:
        count = total_count if dry_run else made_count
        typer.echo(f"{counted(count, 'change')}{' to make' if dry_run else ''}", err=True)
    if dry_run and total_count:
        raise typer.Exit(DIFFERS)


def _read(file: str) -> Document:
    """Read a document. Raises CommandFailed."""
    try:
        text = (
            text_in(sys.stdin.buffer, Place(file), bytes_max=BYTES_MAX)
            if file == STANDARD_INPUT
            else text_of(Path(file), bytes_max=BYTES_MAX)
        )
        return read_yaml(text, file, nodes_max=VALUES_MAX)
    except ConfigError as error:
        raise CommandFailed(str(error), exit_code=USAGE) from None


def _applications(client: AdminObjects, document: Document, *, dry_run: bool, prune: bool) -> Iterator[DefinitionsView]:
    """Apply a document; yield what has become of its objects. One that takes long is applied by several requests."""
    while True:
        try:
            view = client.apply_definitions(document.root, dry_run=dry_run, prune=prune)
        except RequestRefused as refused:
            mistakes = refused.members.get("mistakes")
            if not isinstance(mistakes, list):
                raise
            problems = [_problem(document, each) for each in mistakes if isinstance(each, dict)]
            raise CommandFailed("\n".join(map(str, problems)), exit_code=USAGE) from None
        yield view
        if not view.time_is_up:
            return
        if not view.made_count:
            text = f"the gateway was too slow to begin any of {counted(view.changes_count, 'change')}"
            raise CommandFailed(text, advice="Run apply again when it has less to do, or with a smaller document.")


def _problem(document: Document, mistake: Mapping[str, object]) -> Problem:
    """Return a mistake that the gateway has found, with its place in the file."""
    path: list[str | int] = []
    here: object = document.root
    for part in str(mistake.get("path", "")).split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        step: str | int = int(key) if isinstance(here, list) and key.isdecimal() else key
        path.append(step)
        if isinstance(here, list):
            here = here[step] if isinstance(step, int) and step < len(here) else None
        else:
            here = here.get(step) if isinstance(here, dict) else None
    return Problem(document.place(tuple(path)), "", str(mistake.get("detail", "")))


def _print_changes(view: DefinitionsView, as_json: bool) -> None:
    for each in view.objects:
        if each.outcome in ACTIONS:
            _print_change(each, as_json)


def _check_refusals(view: DefinitionsView, made_count: int, total_count: int) -> None:
    """Raise CommandFailed if the gateway has refused objects."""
    refused = [each for each in view.objects if each.outcome is DefinitionOutcome.REFUSED]
    if not refused:
        return
    text = "\n".join(f"{each.vpn_name}: {KIND_BY_NAME[each.kind].label} {each.name}: {each.reason}" for each in refused)
    if not view.dry_run and made_count:
        advice = f"{made_count} of {total_count} changes were made. Run apply again to make the others."
    else:
        advice = "Nothing was changed."
    raise CommandFailed(text, advice=advice)


def _print_change(each: DefinitionView, as_json: bool) -> None:
    action, kind = ACTIONS[each.outcome], KIND_BY_NAME[each.kind]
    if as_json:
        change = {"kind": each.kind, "name": each.name, "fields": each.fields, "before": each.before}
        print_json({"vpn": each.vpn_name, "deed": action, "action": action, **change})
        return
    typer.echo(printable(f"{action} {each.vpn_name}: {kind.label} {each.name}"))
    if action == ADD:
        for key, value in kind.written(each.fields).items():
            if key != "name":
                typer.echo(printable(f"    {key}: {_one_line(value)}"))
    for key, value in each.before.items():
        typer.echo(printable(f"    {key}: {_one_line(value)} -> {_one_line(each.fields[key])}"))


def _one_line(value: object) -> str:
    """Return a value as the document writes it, on one line."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()
