"""`sluicegate listener list`: the open ports for clients."""

import typer

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, AdminClient, UrlOption
from sluicegate.gateway.cli.terminal.output import JsonOption, print_json, print_table
from sluicegate.gateway.views.node.listeners import ListenerView

app = typer.Typer(help="Open ports for clients.", no_args_is_help=True)


@app.callback()
def listener() -> None:
    """Open ports for clients."""


@app.command("list")
def list_listeners(url: UrlOption = URL_DEFAULT, as_json: JsonOption = False) -> None:
    """List the open ports for clients with their connections. Those of the configuration that are off are left out."""
    view = AdminClient(url).list_listeners()
    if as_json:
        print_json(view)
        return
    columns = ("listener", "address", "security", "message VPN", "connections", "limit", "accepted", "refused")
    print_table(columns, [_row(each) for each in view.listeners])


def _row(view: ListenerView) -> tuple[object, ...]:
    security = ("TLS, client certificates" if view.client_certificates else "TLS") if view.tls else "none"
    return (
        view.name,
        view.url,
        security,
        view.vpn_name,
        view.connections_count,
        view.max_connections,
        view.accepted_total,
        view.refused_total + view.beyond_files_total + view.failed_handshakes_total,
    )
