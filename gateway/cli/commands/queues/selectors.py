"""`sluicegate selector ...`: durable selectors of the consumers of virtual topics."""

from typing import Annotated

import typer

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, AdminClient, UrlOption, VpnOption
from sluicegate.gateway.cli.terminal.output import JsonOption, print_json, print_table
from sluicegate.messaging.message.vpn import DEFAULT_VPN

app = typer.Typer(help="Durable selectors of consumers of virtual topics.", no_args_is_help=True)

QueueArgument = Annotated[str, typer.Argument(metavar="QUEUE", help="Queue of the consumer.")]
SubscriberArgument = Annotated[str, typer.Argument(metavar="SUBSCRIBER", help="Client ID of the consumer.")]


@app.command("list")
def list_all(url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN, as_json: JsonOption = False) -> None:
    """List the selectors of all subscribers, connected or not. --json prints a form to keep as a copy."""
    views = AdminClient(url, vpn).list_selectors()
    if as_json:
        print_json(views)
        return
    rows = [
        (view.queue, view.subscriber, " | ".join(each or "(everything)" for each in view.selectors)) for view in views
    ]
    print_table(("queue", "subscriber", "selects"), rows)


@app.command("set")
def put(
    queue: QueueArgument,
    subscriber: SubscriberArgument,
    selectors: Annotated[
        list[str], typer.Argument(metavar="SELECTOR", help="Selectors; an empty one selects everything.")
    ],
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
) -> None:
    """Set the selectors of a subscriber, until it binds with another selector."""
    AdminClient(url, vpn).put_selector(queue, subscriber, selectors)
    typer.echo(f"{subscriber} of {queue} selects {' | '.join(each or '(everything)' for each in selectors)}")


@app.command("delete")
def delete(
    queue: QueueArgument, subscriber: SubscriberArgument, url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN
) -> None:
    """Delete the selectors of a subscriber. While it is not connected, no messages are collected for it."""
    AdminClient(url, vpn).delete_selector(queue, subscriber)
    typer.echo(f"deleted the selectors of {subscriber} of {queue}")
