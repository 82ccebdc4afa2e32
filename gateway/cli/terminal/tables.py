"""Tables, for people. Nothing here knows what is in them."""

from collections.abc import Iterable, Sequence

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sluicegate.gateway.views.printable import printable


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Return a table; numbers stand to the right. A terminal obeys nothing in it: clients choose names, too."""
    body = [list(row) for row in rows]
    made = Table(box=None, pad_edge=False, header_style="bold", show_header=any(columns))
    for index, column in enumerate(columns):
        numeric = all(isinstance(row[index], int | float) for row in body) and bool(body)
        made.add_column(column, justify="right" if numeric else "left", no_wrap=True)
    for row in body:
        made.add_row(*(escape(printable(str(cell))) for cell in row))
    return made


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; lines are not cut to the width of a pipe."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=10_000)
    console.print(table(columns, rows))


def tell_the_rest(shown: int, total: int, after: int, what: str) -> None:
    """Say that there are more than this page has."""
    if shown < total:
        typer.echo(f"\n{shown} of {total} {what}, from {after + 1} on; see --after and --limit")
