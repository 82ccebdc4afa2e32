"""`sluicegate queue replay`: offer settled messages that a queue still keeps to its consumers again."""

from typing import Annotated

import typer

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, AdminClient, UrlOption, VpnOption
from sluicegate.gateway.cli.terminal.output import JsonOption, print_json
from sluicegate.gateway.views.replay_start import ALLOWED
from sluicegate.messaging.message.vpn import DEFAULT_VPN


def replay(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The queue's name.")],
    start: Annotated[str, typer.Option("--from", metavar="START", help=f"Where to begin: {ALLOWED}.")],
    end: Annotated[int | None, typer.Option("--to", min=1, help="End before this sequence.")] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="This one only.")] = None,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Offer settled messages that the queue still keeps to its consumers again, oldest first and flagged."""
    members = {"from": start, "to": end, "partition": partition}
    count = AdminClient(url, vpn).replay_queue(
        name, {key: value for key, value in members.items() if value is not None}
    )
    if as_json:
        print_json({"replayed_count": count})
    else:
        typer.echo(f"{count} messages of {name} are offered again")
