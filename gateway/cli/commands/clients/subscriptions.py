"""`sluicegate subscription list`: who has subscribed to what. `show smrp subscriptions` has Solace's columns for it."""

from typing import Annotated, Final

import typer

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, AdminClient, UrlOption, VpnOption
from sluicegate.gateway.cli.terminal.output import AfterOption, JsonOption, page_query, print_page
from sluicegate.gateway.views.clients.subscriptions import (
    ROWS_DEFAULT,
    ROWS_MAX,
    DestinationType,
    Persistence,
    SmrpSubscriptionView,
)
from sluicegate.messaging.message.vpn import DEFAULT_VPN

app = typer.Typer(help="Subscriptions of clients and queues.", no_args_is_help=True)

COLUMNS: Final = ("subscription", "type", "name", "spooled", "priority")
TYPE_TEXTS: Final = {
    DestinationType.CLIENT: "client",
    DestinationType.QUEUE: "queue",
    DestinationType.NEIGHBOR: "neighbor",
}


@app.callback()
def subscription() -> None:
    """Subscriptions of clients and queues."""


@app.command("list")
def list_subscriptions(
    pattern: Annotated[
        str | None,
        typer.Argument(metavar="PATTERN", help="Only these: * stands for any characters, ? for one. Default: all."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="PATTERN", help="Only those of these clients and queues.")
    ] = None,
    topic: Annotated[str | None, typer.Option("--topic", help="Only those that match messages on this topic.")] = None,
    after: AfterOption = 0,
    limit: Annotated[int, typer.Option(min=1, max=ROWS_MAX, help="Maximum number of rows to print.")] = ROWS_DEFAULT,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """List the subscriptions of clients and queues, and what neighbor brokers want."""
    asked = page_query(after, limit, topic_str=pattern, destination_name=name, topic=topic)
    view = AdminClient(url, vpn).smrp_subscriptions(asked)
    rows = [_row(each) for each in view.subscriptions]
    print_page(view, COLUMNS, rows, after=after, noun="subscriptions", as_json=as_json)


def _row(view: SmrpSubscriptionView) -> tuple[object, ...]:
    spooled = "yes" if view.persistence is Persistence.PERSISTENT else "no"
    return (view.subscription, TYPE_TEXTS[view.destination_type], view.destination_name, spooled, view.dto_priority)
