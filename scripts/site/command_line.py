"""Writes the reference of the command line, from the commands themselves, where its page has a mark."""

from collections.abc import Iterator
from typing import Any, Final

import typer.main
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

from sluicegate.gateway.cli.app import app

# A release of typer brings its own Click, or needs the one that is installed.
Command = Any
Context = Any
Parameter = Any
PAGE: Final = "reference/command-line.md"
MARK: Final = "<!-- commands -->"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace the mark by the commands."""
    if page.file.src_uri != PAGE:
        return markdown
    assert markdown.count(MARK) == 1
    return markdown.replace(MARK, "\n".join(group(typer.main.get_command(app), "sluicegate")))


def group(commands: Command, name: str) -> Iterator[str]:
    """Yield what a group of commands does, its own options, and each of its commands."""
    context = typer.Context(commands, info_name=name)
    yield from parameters(commands, context)
    for each in commands.list_commands(context):
        command = commands.get_command(context, each)
        if command is None or command.hidden:
            continue
        full_name = f"{name} {each}"
        level = "#" * min(len(full_name.split()), 4)
        yield f"{level} {full_name.removeprefix('sluicegate ')}\n"
        yield f"{prose(command.help)}\n"
        if hasattr(command, "list_commands"):
            yield from group(command, full_name)
        else:
            yield from usage(command, full_name)


def usage(command: Command, name: str) -> Iterator[str]:
    """Yield how one command is called."""
    context = typer.Context(command, info_name=name)
    yield f"```text\n{name} {' '.join(command.collect_usage_pieces(context))}\n```\n"
    yield from parameters(command, context)


def parameters(command: Command, context: Context) -> Iterator[str]:
    """Yield the table of arguments and options."""
    rows = [row for each in command.get_params(context) if (row := parameter(each, context)) is not None]
    if rows:
        yield "| argument or option | meaning |\n|---|---|"
        yield from rows
        yield ""


def parameter(each: Parameter, context: Context) -> str | None:
    """Return a row of the table, None for what is hidden and for what every command has."""
    record = None if each.name in ("help", "install_completion", "show_completion") else each.get_help_record(context)
    if record is None:
        return None
    name, meaning = record
    return f"| `{cell(name)}` | {cell(prose(meaning))} |"


def prose(text: str | None) -> str:
    """Return a help text as Markdown: outside of code, `*`, `_` and `<` mean themselves."""
    parts = " ".join((text or "").split()).split("`")
    for index in range(0, len(parts), 2):
        parts[index] = parts[index].replace("*", "\\*").replace("_", "\\_").replace("<", "&lt;")
    return "`".join(parts)


def cell(text: str) -> str:
    """Return a text as it stands in a table."""
    return text.replace("|", "\\|").replace("\n", " ")
