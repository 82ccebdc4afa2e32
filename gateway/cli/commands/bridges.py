"""`sluicegate bridge ...`: create, change, pause and resume bridges to foreign brokers.

`sluicegate show bridge` lists all of them, including those of the configuration.
"""

from pathlib import Path
from typing import Annotated

import orjson
import typer

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, UrlOption, VpnOption
from sluicegate.gateway.cli.admin.definitions import document_of, with_values
from sluicegate.gateway.cli.admin.objects import AdminObjects
from sluicegate.gateway.cli.terminal.output import JsonOption, print_json, print_table
from sluicegate.gateway.config.allowed import shown
from sluicegate.gateway.config.document import Document
from sluicegate.gateway.views.bridges import BridgeView
from sluicegate.messaging.message.vpn import DEFAULT_VPN

app = typer.Typer(help="Bridges to foreign brokers.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the bridge.")]
ValuesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE",
        help="As in the configuration: enabled=false, remote_url=mqtt://HOST, 'outgoing=[{...}]'.",
    ),
]
FileOption = Annotated[
    Path | None, typer.Option("--file", metavar="FILE", help="YAML file with the settings of a bridge.")
]


@app.command("create")
def create(
    name: NameArgument,
    values: ValuesArgument = None,
    file: FileOption = None,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Create a bridge and start it. It survives restarts of the gateway."""
    asked = with_values(document_of(file), values or ())
    view = AdminObjects(url, vpn).create_bridge({**asked, "name": name})
    _done(view, f"created bridge {name}", as_json)


@app.command("show")
def show(
    name: NameArgument, url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN, as_json: JsonOption = False
) -> None:
    """Show one bridge: its state and its definition."""
    view = AdminObjects(url, vpn).show_bridge(name)
    if as_json:
        print_json(view)
        return
    state = f"{view.state}{f': {view.reason}' if view.reason else ''}"
    rows: list[tuple[str, object]] = [("origin", view.origin), ("state", state)]
    for key, value in view.definition.to_dict().items():
        rows.append((key, orjson.dumps(value).decode() if isinstance(value, list) else shown(value)))
    print_table(("field", "value"), rows)


@app.command("set")
def change(
    name: NameArgument,
    values: ValuesArgument = None,
    file: FileOption = None,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Change a bridge that `create` made. It restarts."""
    client = AdminObjects(url, vpn)
    document = document_of(file)
    known = Document(client.show_bridge(name).definition.to_dict() | document.root)
    view = client.update_bridge(name, with_values(known, values or ()))
    _done(view, f"changed bridge {name}", as_json)


@app.command("delete")
def delete(
    name: NameArgument, url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN, as_json: JsonOption = False
) -> None:
    """Delete a bridge. Messages that it has not settled go back to their queues."""
    AdminObjects(url, vpn).delete_bridge(name)
    if as_json:
        print_json({"deleted": name})
    else:
        typer.echo(f"deleted bridge {name}")


@app.command("pause")
def pause(
    name: NameArgument, url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN, as_json: JsonOption = False
) -> None:
    """Disconnect a bridge, configured or not, until `resume` or a restart of the gateway."""
    _done(AdminObjects(url, vpn).pause_bridge(name), f"paused bridge {name}", as_json)


@app.command("resume")
def resume(
    name: NameArgument, url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN, as_json: JsonOption = False
) -> None:
    """Connect a bridge that is paused, waits to connect again, or has given up."""
    _done(AdminObjects(url, vpn).resume_bridge(name), f"resumed bridge {name}", as_json)


def _done(view: BridgeView, text: str, as_json: bool) -> None:
    if as_json:
        print_json(view)
    else:
        typer.echo(text)
