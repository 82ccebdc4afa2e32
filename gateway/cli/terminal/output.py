"""Output of commands: JSON for programs, tables and counts for people."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Protocol

import orjson
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sluicegate.gateway.views.adapters import adapter
from sluicegate.gateway.views.text import printable, printable_json

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
AfterOption = Annotated[int, typer.Option("--after", min=0, help="Number of rows to skip.")]  # see tell_the_rest


def print_json(value: object) -> None:
    """Print one JSON document on one line and flush it. Views have the same form as in the admin API.

    It is UTF-8 whatever the locale is (RFC 8259, 8.1).
    """
    typer.echo(as_json_text(value).encode())


def as_json_text(value: object) -> str:
    """Return a document as JSON, with control characters escaped, because the output may be a terminal."""
    return printable_json(orjson.dumps(value, default=_view, option=orjson.OPT_PASSTHROUGH_DATACLASS).decode())


def _view(view: object) -> object:
    """Return a view as a JSON document. Raises PydanticSchemaGenerationError for other objects."""
    return adapter(type(view)).dump_python(view, mode="json")


def time_text(wall_ms: int) -> str:
    """Return a time of the wall clock in milliseconds as text: 2026-11-27T20:15:00Z."""
    return datetime.fromtimestamp(wall_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Return a table with numbers aligned right and control characters escaped, because clients choose names."""
    body = [list(row) for row in rows]
    made = Table(box=None, pad_edge=False, header_style="bold", show_header=any(columns))
    for index, column in enumerate(columns):
        numeric = all(isinstance(row[index], int | float) for row in body) and bool(body)
        made.add_column(column, justify="right" if numeric else "left", no_wrap=True)
    for row in body:
        made.add_row(*(escape(printable(str(cell))) for cell in row))
    return made


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table. Lines are not cut where the output is not a terminal."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=10_000)
    console.print(table(columns, rows))


class Page(Protocol):
    """A page of a list."""

    @property
    def total_count(self) -> int:
        """Rows of all pages."""


def page_query(after: int, limit: int, **wanted: str | int | None) -> dict[str, str | int]:
    """Return the query of a page: of what is wanted, all that is given."""
    return {"after": after, "limit": limit} | {name: each for name, each in wanted.items() if each not in (None, "")}


def print_page(
    page: Page, columns: Sequence[str], rows: Sequence[Sequence[object]], *, after: int, noun: str, as_json: bool
) -> None:
    """Print a page of a list as a table with what is not on it, or as JSON."""
    if as_json:
        print_json(page)
        return
    print_table(columns, rows)
    tell_the_rest(len(rows), page.total_count, after, noun)


def tell_the_rest(shown: int, total: int, after: int, what: str) -> None:
    """Print that there are more rows than this page shows."""
    if shown < total:
        typer.echo(f"\nshowing {shown} of {total} {what}, starting at {after + 1}; see --after and --limit")
