"""What commands print for programs: JSON. Tables for people are in `gateway.cli.terminal.tables`."""

from typing import Annotated

import orjson
import typer

from sluicegate.gateway.views.adapters import adapter
from sluicegate.gateway.views.printable import printable_json

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
