"""`sluicegate vpn ...`: create, change and delete message VPNs of a running gateway.

`sluicegate show message-vpn` shows their state and usage in a table.
"""

from collections.abc import Sequence
from typing import Annotated, Final

import typer

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, AdminClient, UrlOption
from sluicegate.gateway.cli.terminal.confirmation import confirm
from sluicegate.gateway.cli.terminal.failures import USAGE, CommandFailed
from sluicegate.gateway.cli.terminal.output import JsonOption, print_json, print_table
from sluicegate.gateway.config.allowed import shown
from sluicegate.gateway.config.document import Document
from sluicegate.gateway.config.sources import apply_settings
from sluicegate.gateway.views.clients.message_vpns import MessageVpnView
from sluicegate.gateway.views.text import counted

app = typer.Typer(help="Message VPNs: separate messaging domains of one gateway.", no_args_is_help=True)

COLUMNS: Final = ("message VPN", "origin", "state", "clients", "queues", "messages")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the message VPN.")]
ValuesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SETTING=VALUE",
        help="As in the configuration: usage_bytes_max='1 GiB', max_connection_count=100, allow_anonymous=false.",
    ),
]
ChangesArgument = Annotated[
    list[str], typer.Argument(metavar="SETTING=VALUE", help="New values. Other settings stay as they are.")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
ForceOption = Annotated[
    bool,
    typer.Option(
        "--force", help="Disconnect its clients, and delete all its queues, sessions and messages. Default: refuse."
    ),
]


@app.command("list")
def list_all(url: UrlOption = URL_DEFAULT, as_json: JsonOption = False) -> None:
    """List all message VPNs, including those of the configuration."""
    views = AdminClient(url).list_message_vpns().message_vpns
    if as_json:
        print_json(views)
        return
    print_table(COLUMNS, [_row(each) for each in views])


@app.command("create")
def create(
    name: NameArgument, values: ValuesArgument = None, url: UrlOption = URL_DEFAULT, as_json: JsonOption = False
) -> None:
    """Create a message VPN. It survives restarts of the gateway. `sluicegate user add --vpn NAME` adds users."""
    view = AdminClient(url).create_message_vpn({**_settings(values or ()), "name": name})
    _done(view, f"created message VPN {name}", as_json)


@app.command("show")
def show(name: NameArgument, url: UrlOption = URL_DEFAULT, as_json: JsonOption = False) -> None:
    """Show one message VPN: its origin, state and settings."""
    view = AdminClient(url).show_message_vpn(name)
    if as_json:
        print_json(view)
        return
    rows = [("origin", view.origin), ("state", _state(view)), *[(key, shown(value)) for key, value in _said(view)]]
    print_table(("setting", "value"), rows)


@app.command("set")
def change(
    name: NameArgument, changes: ChangesArgument, url: UrlOption = URL_DEFAULT, as_json: JsonOption = False
) -> None:
    """Change settings of a message VPN that is not configured. `enabled=false` disconnects its clients."""
    view = AdminClient(url).update_message_vpn(name, _settings(changes))
    _done(view, f"changed message VPN {name}", as_json)


@app.command("delete")
def delete(
    name: NameArgument,
    force: ForceOption = False,
    yes: YesOption = False,
    url: UrlOption = URL_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Delete a message VPN that is not configured, with its users, profiles and templates."""
    client = AdminClient(url)
    if not yes:
        view = client.show_message_vpn(name)
        has = [
            counted(view.connection_count, "client"),
            counted(view.endpoint_count, "queue"),
            counted(view.spooled_msg_count, "message"),
        ]
        confirm(f"Delete message VPN {name} with {', '.join(has)}?" if force else f"Delete message VPN {name}?")
    client.delete_message_vpn(name, force=force)
    if as_json:
        print_json({"deleted": name})
    else:
        typer.echo(f"deleted message VPN {name}")


def _settings(values: Sequence[str]) -> dict[str, object]:
    """Return settings from their texts. Raises CommandFailed."""
    document = Document()
    problems = apply_settings(document, values)
    if problems:
        raise CommandFailed("; ".join(each.text for each in problems), exit_code=USAGE)
    return document.root


def _said(view: MessageVpnView) -> list[tuple[str, object]]:
    return [(key, "as the node" if value is None else value) for key, value in view.settings.items()]


def _row(view: MessageVpnView) -> tuple[object, ...]:
    counts = (view.connection_count, view.endpoint_count, view.spooled_msg_count)
    return (view.name, view.origin, _state(view), *counts)


def _state(view: MessageVpnView) -> str:
    if view.up:
        return "up"
    return "down: it does not start; see the log" if view.enabled else "shut down"


def _done(view: MessageVpnView, text: str, as_json: bool) -> None:
    if as_json:
        print_json(view)
    else:
        typer.echo(text)
