"""What commands print: tables for people, JSON for programs. Nothing here knows what is in them."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final

import orjson
import typer
from pydantic import TypeAdapter
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gateway.printable import printable

_ADAPTERS: Final[dict[type, TypeAdapter[Any]]] = {}  # for as many views as there are

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def print_json(value: object) -> None:
    """Print one JSON document on one line, at once: a program may be waiting for it. Views are as the admin port's."""
    typer.echo(orjson.dumps(value, default=_view, option=orjson.OPT_PASSTHROUGH_DATACLASS).decode())


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


def _view(view: object) -> object:
    """Return the document that a view is; raises PydanticSchemaGenerationError for what is none."""
    kind = type(view)
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind].dump_python(view, mode="json")
