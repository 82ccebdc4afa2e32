"""`sluicegate session ...`: MQTT sessions, of connected clients and of those that are away."""

from typing import Annotated, Final

import typer

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, AdminClient, UrlOption, VpnOption
from sluicegate.gateway.cli.commands.clients.clients import NEVER, seconds_text, will_text
from sluicegate.gateway.cli.terminal.confirmation import confirm
from sluicegate.gateway.cli.terminal.output import (
    AfterOption,
    JsonOption,
    page_query,
    print_json,
    print_page,
    print_table,
    time_text,
)
from sluicegate.gateway.views.clients.sessions import SESSIONS_DEFAULT, SESSIONS_MAX, MqttSessionView
from sluicegate.gateway.views.text import counted
from sluicegate.messaging.message.vpn import DEFAULT_VPN

app = typer.Typer(help="MQTT sessions.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="CLIENT_ID", help="Client identifier.")]


@app.command("list")
def list_sessions(
    pattern: Annotated[
        str | None,
        typer.Argument(metavar="PATTERN", help="Client ID; * stands for any characters, ? for one. Default: all."),
    ] = None,
    connected: Annotated[
        bool | None, typer.Option("--connected/--away", help="Only those whose clients are connected, or are away.")
    ] = None,
    after: AfterOption = 0,
    limit: Annotated[
        int, typer.Option(min=1, max=SESSIONS_MAX, help="Maximum number of sessions to print.")
    ] = SESSIONS_DEFAULT,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """List MQTT sessions with what waits for their clients."""
    query = page_query(after, limit, client_id=pattern, connected=None if connected is None else int(connected))
    view = AdminClient(url, vpn).list_sessions(query)
    rows = [_row(each) for each in view.sessions]
    print_page(view, COLUMNS, rows, after=after, noun="sessions", as_json=as_json)


COLUMNS: Final = ("client", "username", "state", "expires", "subscriptions", "ready", "unacked")


def _row(view: MqttSessionView) -> tuple[object, ...]:
    return (
        view.client_id,
        view.client_username or "-",
        _state(view),
        _end(view),
        view.subscriptions_count,
        view.ready_count,
        view.unacked_count,
    )


def _state(view: MqttSessionView) -> str:
    if view.connected:
        return "connected"
    return "away" if view.disconnected_ms is None else f"away since {time_text(view.disconnected_ms)}"


def _end(view: MqttSessionView) -> str:
    """Return when a session ends: while its client is connected, how long after that."""
    if view.expiry_s is None:
        return NEVER
    if view.expires_ms is not None:
        return time_text(view.expires_ms)
    return f"{seconds_text(view.expiry_s)}{' after the connection' if view.expiry_s else ''}"


@app.command("show")
def show(
    name: NameArgument, url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN, as_json: JsonOption = False
) -> None:
    """Show one session. `client subscriptions` shows its subscriptions."""
    view = AdminClient(url, vpn).show_session(name)
    if as_json:
        print_json(view)
        return
    rows: list[tuple[str, object]] = [
        ("client", view.client_id),
        *([("broker", view.broker)] if view.broker else []),
        ("user name", view.client_username or "-"),
        ("state", _state(view)),
        ("expires", _end(view)),
        ("subscriptions", view.subscriptions_count),
        ("queue", view.queue or "-"),
        ("ready", view.ready_count),
        ("unacknowledged", view.unacked_count),
        ("payload", f"{view.spooled_bytes} bytes"),
        ("not released", view.unreleased_count),
        ("will", will_text(view.will)),
    ]
    print_table(("", ""), rows)


@app.command("delete")
def delete(
    name: NameArgument,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: JsonOption = False,
) -> None:
    """End a session as its expiry would, and disconnect its client. Messages that wait for it are lost."""
    client = AdminClient(url, vpn)
    if not yes:
        view = client.show_session(name)
        waiting = counted(view.ready_count + view.unacked_count, "message")
        confirm(f"End the session of {name} with {counted(view.subscriptions_count, 'subscription')} and {waiting}?")
    client.delete_session(name)
    if as_json:
        print_json({"deleted": name})
    else:
        typer.echo(f"ended the session of {name}")
