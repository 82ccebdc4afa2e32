"""`sluicegate queue cursors` and `queue delete-cursor`: who reads a queue by a durable cursor, and how far they are."""

from typing import Annotated

import typer

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, AdminClient, UrlOption, VpnOption
from sluicegate.gateway.cli.terminal.failures import CommandFailed
from sluicegate.gateway.cli.terminal.output import JsonOption, print_json, print_table
from sluicegate.gateway.config.sections.values import rounded_size
from sluicegate.gateway.views.spool import CursorView
from sluicegate.messaging.message.vpn import DEFAULT_VPN


def cursors(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The queue's name.")],
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """List a queue's durable cursors."""
    views = AdminClient(url, vpn).list_cursors(name)
    if as_json:
        print_json(views)
        return
    columns = ("cursor", "mode", "state", "instance", "epoch", "behind", "bytes behind", "last batch")
    print_table(columns, [_row(view) for view in views])


def delete_cursor(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The queue's name.")],
    cursor: Annotated[str, typer.Argument(metavar="CURSOR", help="The cursor's name.")],
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Forget a durable cursor, its position, and what is kept for it."""
    if not yes and not typer.confirm(f"Forget cursor {cursor} of {name}?", err=True):
        raise CommandFailed("nothing was changed", advice="--yes does it without the question.")
    AdminClient(url, vpn).delete_cursor(name, cursor)
    typer.echo(f"deleted cursor {cursor} of {name}")


def _row(view: CursorView) -> tuple[object, ...]:
    lag = f"{rounded_size(view.lag_bytes)} of {rounded_size(view.lag_bytes_max)}"
    return (view.name, view.mode, view.state, view.instance, view.epoch, view.lag_count, lag, view.batch_ref or "-")
