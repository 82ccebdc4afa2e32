"""`sluicegate events`: what happened on the node lately, once or as it goes on."""

import time
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console

from gateway.cli.admin_client import URL_DEFAULT, AdminClient, UrlOption
from gateway.cli.output import JsonOption, print_json
from gateway.printable import printable
from gateway.views import EventView

LIMIT_MAX = 1000  # what the node keeps
STYLES = {"warning": "yellow", "error": "bold red"}


def events(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on printing until Ctrl-C.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="Most events of the past to print.")] = 100,
    interval: Annotated[float, typer.Option(min=0.2, max=60, help="Seconds between two looks.")] = 1.0,
    url: UrlOption = URL_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Print recent events, oldest first; with --json one object a line."""
    client = AdminClient(url)
    last = _print(client, 0, limit, as_json)
    try:
        while follow:
            time.sleep(interval)
            last = _print(client, last, LIMIT_MAX, as_json)
    except KeyboardInterrupt:
        return


def _print(client: AdminClient, after: int, limit: int, as_json: bool) -> int:
    """Print the events behind `after`; return the number of the last one."""
    for event in client.events(after=after, limit=limit):
        after = event.number
        if as_json:
            print_json(event)
        else:
            _print_line(event)
    return after


def _print_line(event: EventView) -> None:
    moment = datetime.fromtimestamp(event.time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    line = f"{moment.replace('+00:00', 'Z')} {event.level:<7} {printable(event.text)}"
    Console(soft_wrap=True, highlight=False).print(line, markup=False, style=STYLES.get(event.level))
