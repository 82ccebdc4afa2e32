"""`sluicegate actors`: print the actor tree once, or show it live."""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.tree import Tree

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, AdminClient, UrlOption
from sluicegate.gateway.cli.terminal.live_view import watch
from sluicegate.gateway.cli.terminal.output import JsonOption, print_json
from sluicegate.gateway.views.node.runtime import ActorView
from sluicegate.gateway.views.text import printable


def actors(
    once: Annotated[bool, typer.Option("--once", help="Print the tree once and exit.")] = False,
    interval: Annotated[float, typer.Option(min=0.2, max=60, help="Seconds between updates.")] = 1.0,
    url: UrlOption = URL_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Show every actor, until `q` or Ctrl-C is pressed.

    With its inbox, batch size, handling time and restarts.
    """
    client = AdminClient(url)
    if as_json:
        print_json(client.actors())
        return
    console = Console()
    if once or not console.is_terminal:
        wide = console if console.is_terminal else Console(width=10_000)
        wide.print(tree(client.actors()))
        return
    try:
        watch(console, lambda: tree(client.actors()), interval)
    except KeyboardInterrupt:
        return


def tree(roots: Sequence[ActorView]) -> Tree:
    """Return the actors as a tree for the terminal."""
    top = Tree("actors", hide_root=True)
    for root in roots:
        _grow(top, root)
    return top


def _grow(branch: Tree, actor: ActorView) -> None:
    grown = branch.add(_line(actor))
    for child in actor.children:
        _grow(grown, child)


def _line(actor: ActorView) -> str:
    numbers = (
        f"inbox {actor.inbox_depth}  handled {actor.handled_count}  "
        f"batch {actor.batch_size_mean:.1f}  {actor.handling_time_us:.1f} us"
    )
    restarts = f"  [bold red]restarts {actor.restart_count}[/]" if actor.restart_count else ""
    state = "" if actor.state == "running" else f"  [bold yellow]{escape(actor.state)}[/]"
    return f"[bold]{escape(printable(actor.name))}[/]  [dim]{escape(actor.kind)}[/]  {numbers}{state}{restarts}"
