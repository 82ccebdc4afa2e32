"""What commands print: tables for people, JSON for programs. Nothing here knows what is in them."""

from collections.abc import Iterable, Sequence
from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def print_json(value: object) -> None:
    """Print one JSON document on one line, at once: a program may be waiting for it."""
    typer.echo(orjson.dumps(value).decode())


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Return a table; numbers stand to the right."""
    body = [list(row) for row in rows]
    made = Table(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        numeric = all(isinstance(row[index], int | float) for row in body) and bool(body)
        made.add_column(column, justify="right" if numeric else "left", no_wrap=True)
    for row in body:
        made.add_row(*(escape(str(cell)) for cell in row))
    return made


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; lines are not cut to the width of a pipe."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=10_000)
    console.print(table(columns, rows))
