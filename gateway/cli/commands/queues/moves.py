"""`sluicegate queue move` and `sluicegate queue moves`: move queues to other brokers of the network."""

from typing import Annotated, Final

import typer

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, AdminClient, UrlOption, VpnOption
from sluicegate.gateway.cli.terminal.confirmation import confirm
from sluicegate.gateway.cli.terminal.failures import USAGE, CommandFailed
from sluicegate.gateway.cli.terminal.output import JsonOption, print_json, print_table, time_text
from sluicegate.messaging.message.vpn import DEFAULT_VPN

WITHOUT: Final = (
    "Messages that only broker {} has are lost. If it comes back, it has a queue of this name, too, and may send again"
    " what was on its way."
)
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the queue.")]


def move(
    name: NameArgument,
    to: Annotated[str, typer.Option("--to", metavar="BROKER", help="The neighbor broker that gets the queue.")] = "",
    cancel: Annotated[
        bool, typer.Option("--cancel", help="End the move, if no message is at the other broker yet.")
    ] = False,
    without: Annotated[
        str,
        typer.Option("--without", metavar="BROKER", help="End the move to or from a broker that does not come back."),
    ] = "",
    drop_kept: Annotated[
        bool,
        typer.Option("--drop-kept", help="Delete messages kept for replay, and durable cursors: they stay."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
) -> None:
    """Move a queue with its messages to another broker of the network, while its clients go on."""
    if [bool(to), cancel, bool(without)].count(True) != 1:
        text = "name the broker that gets the queue with --to, or give --cancel, or --without"
        raise CommandFailed(text, exit_code=USAGE)
    client = AdminClient(url, vpn)
    if cancel:
        client.cancel_move(name)
        typer.echo(f"{name} stays")
    elif without:
        if not yes:
            confirm(f"End the move of {name} without broker {without}? {WITHOUT.format(without)}")
        client.end_move(name, without)
        typer.echo(f"{name} is at this broker, with the messages that were here")
    else:
        _begin(client, name, to, drop_kept=drop_kept, yes=yes)


def _begin(client: AdminClient, name: str, to: str, *, drop_kept: bool, yes: bool) -> None:
    if drop_kept and not yes:
        confirm(f"Delete what {name} keeps for replay, and its durable cursors?")
    client.move_queue(name, to, drop_kept=drop_kept)
    typer.echo(f"{name} is being moved to {to}; see: sluicegate queue moves")


def moves(url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN, as_json: JsonOption = False) -> None:
    """List the queues that are being moved to other brokers."""
    views = AdminClient(url, vpn).list_moves()
    if as_json:
        print_json(views)
        return
    rows = [
        (
            each.name,
            each.broker,
            time_text(each.begun_ms),
            f"{each.moved_count} of {each.total_count}",
            each.state,
        )
        for each in views
    ]
    print_table(("name", "to", "since", "moved", "state"), rows)


def add_to(app: typer.Typer) -> None:
    """Add the commands to those on queues."""
    app.command("move")(move)
    app.command("moves")(moves)
