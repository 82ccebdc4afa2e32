"""What commands print for programs: JSON. Tables for people are in `gateway.cli.terminal.output`."""

from collections.abc import Iterable, Sequence
from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sluicegate.gateway.views.adapters import adapter
from sluicegate.gateway.views.text import printable, printable_json

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def print_json(value: object) -> None:
    """Print one JSON document on one line, at once: a program may be waiting for it. Views are as the admin port's."""
    typer.echo(as_json_text(value))


def as_json_text(value: object) -> str:
    """Return a document as JSON, with what a terminal would obey escaped: a person may be looking, too."""
    return printable_json(orjson.dumps(value, default=_view, option=orjson.OPT_PASSTHROUGH_DATACLASS).decode())


def _view(view: object) -> object:
    """Return the document that a view is; raises PydanticSchemaGenerationError for what is none."""
    return adapter(type(view)).dump_python(view, mode="json")


# Tables, for people. Nothing here knows what is in them.


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
