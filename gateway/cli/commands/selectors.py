"""`sluicegate selector ...` and `sluicegate reload`: what consumers select, and a configuration that has changed."""

import sys
from typing import Annotated

import typer

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, AdminClient, UrlOption, VpnOption
from sluicegate.gateway.cli.terminal.output import JsonOption, print_json, print_table
from sluicegate.messaging.message.vpn import DEFAULT_VPN

app = typer.Typer(help="Durable selectors of the consumers of virtual topics.", no_args_is_help=True)

QueueArgument = Annotated[str, typer.Argument(metavar="QUEUE", help="The consumers' queue.")]
SubscriberArgument = Annotated[str, typer.Argument(metavar="SUBSCRIBER", help="The consumer's client id.")]


@app.command("list")
def list_all(url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN, as_json: JsonOption = False) -> None:
    """List what subscribers select, also those that are away; --json is a form to keep."""
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
    selectors: Annotated[list[str], typer.Argument(metavar="SELECTOR...", help="An empty one: everything.")],
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
) -> None:
    """Set what a subscriber selects until it comes with another selector."""
    AdminClient(url, vpn).put_selector(queue, subscriber, selectors)
    typer.echo(f"{subscriber} of {queue} selects {' | '.join(each or '(everything)' for each in selectors)}")


@app.command("delete")
def delete(
    queue: QueueArgument, subscriber: SubscriberArgument, url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN
) -> None:
    """Forget what a subscriber selects: while it is away, nothing is collected for it."""
    AdminClient(url, vpn).delete_selector(queue, subscriber)
    typer.echo(f"forgot what {subscriber} of {queue} selects")


def reload(url: UrlOption = URL_DEFAULT, as_json: JsonOption = False) -> None:
    """Have the node read its configuration again, as SIGHUP does; only who may not come in any more is sent away."""
    view = AdminClient(url).reload()
    if as_json:
        print_json(view)
        return
    for text in view.warnings:
        typer.echo(f"warning: {text}", err=True)
    for text in view.restart_needed:
        typer.echo(f"takes a restart: {text}", err=True)
    nothing = "nothing was taken over\n" if view.restart_needed else "nothing changed\n"
    sys.stdout.write("".join(f"{text}\n" for text in view.taken_over) or nothing)
