"""`sluicegate rest-delivery-point ...`: create and change REST delivery points, which push queues to web servers.

`sluicegate show rest-delivery-point` lists all of them, including those of the configuration.
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
from sluicegate.gateway.views.rest import RestDeliveryPointView
from sluicegate.messaging.message.vpn import DEFAULT_VPN

app = typer.Typer(help="REST delivery points, which push queues to web servers.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the delivery point.")]
ValuesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE",
        help="As in the configuration: enabled=false, rest_consumers.0.remote_port=8443, 'queue_bindings=[{...}]'.",
    ),
]
FileOption = Annotated[
    Path | None, typer.Option("--file", metavar="FILE", help="YAML file with the settings of a delivery point.")
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
    """Create a delivery point and start it. It survives restarts of the gateway."""
    asked = with_values(document_of(file), values or ())
    view = AdminObjects(url, vpn).create_rest_delivery_point({**asked, "name": name})
    _done(view, f"created REST delivery point {name}", as_json)


@app.command("show")
def show(
    name: NameArgument, url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN, as_json: JsonOption = False
) -> None:
    """Show one delivery point: its state and its definition."""
    view = AdminObjects(url, vpn).show_rest_delivery_point(name)
    if as_json:
        print_json(view)
        return
    state = "up" if view.up else f"down{f': {view.reason}' if view.reason else ''}"
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
    """Change a delivery point that `create` made. It restarts."""
    client = AdminObjects(url, vpn)
    document = document_of(file)
    known = Document(client.show_rest_delivery_point(name).definition.to_dict() | document.root)
    view = client.update_rest_delivery_point(name, with_values(known, values or ()))
    _done(view, f"changed REST delivery point {name}", as_json)


@app.command("delete")
def delete(
    name: NameArgument, url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN, as_json: JsonOption = False
) -> None:
    """Delete a delivery point. Messages that it has not settled go back to their queues."""
    AdminObjects(url, vpn).delete_rest_delivery_point(name)
    if as_json:
        print_json({"deleted": name})
    else:
        typer.echo(f"deleted REST delivery point {name}")


def _done(view: RestDeliveryPointView, text: str, as_json: bool) -> None:
    if as_json:
        print_json(view)
    else:
        typer.echo(text)
