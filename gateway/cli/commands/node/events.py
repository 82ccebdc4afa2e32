"""`sluicegate events`: what happened on the node lately, once or as it goes on."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, AdminClient, UrlOption
from sluicegate.gateway.cli.terminal.output import JsonOption, print_json
from sluicegate.gateway.views.queues import EventView
from sluicegate.gateway.views.text import printable

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
    newest = _print(client.events(after=0, limit=limit), as_json)
    try:
        while follow:
            time.sleep(interval)
            newest = _print(_behind(newest, client), as_json) or newest
    except KeyboardInterrupt:
        return


def _behind(newest: EventView | None, client: AdminClient) -> Sequence[EventView]:
    """Return the events that came after one, all there are without one."""
    if newest is not None:
        # Numbers begin anew with the node: it is asked for again, and where another one has its number, so are all.
        found = client.events(after=newest.number - 1, limit=LIMIT_MAX)
        if found and found[0] == newest:
            return found[1:]
    return client.events(after=0, limit=LIMIT_MAX)


def _print(found: Sequence[EventView], as_json: bool) -> EventView | None:
    """Print events; return the last one."""
    for event in found:
        if as_json:
            print_json(event)
        else:
            _print_line(event)
    return found[-1] if found else None


def _print_line(event: EventView) -> None:
    moment = datetime.fromtimestamp(event.time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    line = f"{moment.replace('+00:00', 'Z')} {event.level:<7} {printable(event.text)}"
    Console(soft_wrap=True, highlight=False).print(line, markup=False, style=STYLES.get(event.level))
