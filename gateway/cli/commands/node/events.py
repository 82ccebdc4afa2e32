"""`sluicegate events`: print recent events of the node, and follow new ones."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, AdminClient, UrlOption
from sluicegate.gateway.cli.terminal.output import JsonOption, print_json
from sluicegate.gateway.views.node.runtime import EventView
from sluicegate.gateway.views.text import printable

LIMIT_MAX = 1000  # the node keeps no more
STYLES = {"warning": "yellow", "error": "bold red"}


def events(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new events until Ctrl-C is pressed.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="Maximum number of past events to print.")] = 100,
    interval: Annotated[float, typer.Option(min=0.2, max=60, help="Seconds between two requests.")] = 1.0,
    url: UrlOption = URL_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Print recent events, oldest first. With --json, one object per line."""
    client = AdminClient(url)
    newest = _print(client.events(after=0, limit=limit), as_json)
    try:
        while follow:
            time.sleep(interval)
            newest = _print(_events_after(newest, client), as_json) or newest
    except KeyboardInterrupt:
        return


def _events_after(newest: EventView | None, client: AdminClient) -> Sequence[EventView]:
    """Return the events after `newest`, or all of them."""
    if newest is not None:
        # Numbers restart with the node. The newest event is read again: if it differs, the node restarted.
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
