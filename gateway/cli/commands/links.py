"""`sluicegate link ...`: create and change links to other brokers of the network.

`sluicegate show links` lists all of them, including those of the configuration.
"""

from collections.abc import Sequence
from typing import Annotated

import orjson
import typer

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, UrlOption
from sluicegate.gateway.cli.admin.objects import AdminObjects
from sluicegate.gateway.cli.terminal.failures import USAGE, CommandFailed
from sluicegate.gateway.cli.terminal.output import JsonOption, print_json, print_table
from sluicegate.gateway.config.allowed import shown
from sluicegate.gateway.config.document import Document
from sluicegate.gateway.config.sources import apply_settings
from sluicegate.gateway.views.links import LinkView

app = typer.Typer(help="Links to other brokers of the network.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="NEIGHBOR", help="Name of the neighbor broker.")]
ValuesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE",
        help="As in the configuration: url=flow://HOST:PORT, username=network, vpns.sales=sales, enabled=false.",
    ),
]


@app.command("create")
def create(
    name: NameArgument, values: ValuesArgument = None, url: UrlOption = URL_DEFAULT, as_json: JsonOption = False
) -> None:
    """Create a link and start it. It survives restarts of the gateway."""
    asked = _with_values(Document(), values or ())
    _done(AdminObjects(url).create_link({**asked, "name": name}), f"created the link to {name}", as_json)


@app.command("show")
def show(name: NameArgument, url: UrlOption = URL_DEFAULT, as_json: JsonOption = False) -> None:
    """Show one link: its state, what crosses it, and its definition."""
    view = AdminObjects(url).show_link(name)
    if as_json:
        print_json(view)
        return
    rows: list[tuple[str, object]] = [
        ("origin", view.origin),
        ("state", link_state(view)),
        ("reason", view.reason),
        ("remote address", view.remote_address),
        ("initiator", view.initiator),
        ("encrypted", shown(view.encrypted)),
        ("dials", view.dials),
        ("connects", view.connects),
        ("refusals", _counts(view.refusals)),
        ("messages sent", view.messages_sent),
        ("messages dropped", view.messages_dropped),
        ("bytes waiting", view.waiting_bytes),
    ]
    for vpn in view.message_vpns:
        state = "linked" if vpn.linked else "not linked"
        if vpn.linked and not vpn.complete:
            state = "synchronizing"
        rows.append(
            (
                f"vpn {vpn.vpn_name}",
                f"{state}; {vpn.neighbor_vpn_name} at the neighbor; exported {vpn.exported_count}, "
                f"imported {vpn.imported_count}; messages received {vpn.messages_received}",
            )
        )
        rows.append(
            (
                f"queue of vpn {vpn.vpn_name}",
                f"{vpn.queued_count} messages, {vpn.queued_bytes} of {vpn.queue_quota_bytes} bytes; "
                f"{vpn.in_flight_count} in flight; sent {vpn.guaranteed_sent}, received {vpn.guaranteed_received}, "
                f"repeated {vpn.guaranteed_repeated}, waiting for room {vpn.waiting_for_room}",
            )
        )
        rows.append(
            (
                f"retained of vpn {vpn.vpn_name}",
                f"sent {vpn.retained_sent}, received {vpn.retained_received}, rejected {vpn.retained_rejected}",
            )
        )
    for key, value in view.definition.to_dict().items():
        rows.append((key, orjson.dumps(value).decode() if isinstance(value, list | dict) else shown(value)))
    print_table(("field", "value"), rows)


@app.command("set")
def change(
    name: NameArgument, values: ValuesArgument = None, url: UrlOption = URL_DEFAULT, as_json: JsonOption = False
) -> None:
    """Change a link that `create` made. It begins anew."""
    client = AdminObjects(url)
    known = Document(client.show_link(name).definition.to_dict())
    _done(client.update_link(name, _with_values(known, values or ())), f"changed the link to {name}", as_json)


@app.command("delete")
def delete(name: NameArgument, url: UrlOption = URL_DEFAULT, as_json: JsonOption = False) -> None:
    """Delete a link that `create` made."""
    AdminObjects(url).delete_link(name)
    if as_json:
        print_json({"deleted": name})
    else:
        typer.echo(f"deleted the link to {name}")


@app.command("forget")
def forget(
    name: NameArgument,
    force: Annotated[bool, typer.Option("--force", help="Also if messages wait for it. Default: refuse.")] = False,
    vpn: Annotated[str, typer.Option("--vpn", help="In this message VPN only, which its link does not have.")] = "",
    url: UrlOption = URL_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Delete what is kept for a neighbor that has no link: queued messages, what it wants, what is stored of it."""
    AdminObjects(url).forget_neighbor(name, vpn=vpn, force=force)
    if as_json:
        print_json({"forgotten": name})
    else:
        typer.echo(f"forgot neighbor {name}")


def link_state(view: LinkView) -> str:
    """Return the state of a link in a word."""
    return "Up" if view.up else "Down" if view.enabled else "Disabled"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join([f"{name} {count}" for name, count in sorted(counts.items())])


def _with_values(document: Document, values: Sequence[str]) -> dict[str, object]:
    """Return a document with keys set. Raises CommandFailed."""
    problems = apply_settings(document, values)
    if problems:
        raise CommandFailed("; ".join(each.text for each in problems), exit_code=USAGE)
    return document.root


def _done(view: LinkView, text: str, as_json: bool) -> None:
    if as_json:
        print_json(view)
    else:
        typer.echo(text)
