"""Command and group classes: the help of flags, and the end of a command that fails or loses its reader."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import typer
from typer.core import TyperCommand, TyperGroup

from sluicegate.gateway.cli.terminal.failures import CommandFailed, report


class _ShowsFlags:
    """Shows flags without a value in the help. Typer prints `<bool>` after them, as if they took one."""

    def get_params(self, ctx: Any) -> Any:  # as in the base class
        """Return the options and arguments, with the type of flags removed."""
        found = super().get_params(ctx)  # type: ignore[misc]  # of the sibling base class
        for each in found:
            if getattr(each, "is_flag", False):
                each.metavar = ""
        return found


class Command(_ShowsFlags, TyperCommand):
    """A command."""


class Group(_ShowsFlags, TyperGroup):
    """A command group."""


class ReadGroup(Group):
    """A command group that ends silently when the reader of its output is gone, as with `sluicegate sub | head`."""

    def make_context(self, *arguments: Any, **settings: Any) -> Any:  # as in the base class
        """Parse the arguments of the group itself, such as `--help`."""
        with _until_reader_gone():
            return super().make_context(*arguments, **settings)

    def invoke(self, ctx: Any) -> Any:  # as in the base class
        """Run the command."""
        with _until_reader_gone():
            return super().invoke(ctx)


@contextmanager
def _until_reader_gone() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        _close(sys.stdout)
        raise typer.Exit from None
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # rich exits the process itself, as a failure
            raise typer.Exit from None
        raise


def _close(stream: TextIO) -> None:
    """Close a stream, so that the interpreter does not flush it into the closed pipe at exit."""
    try:
        stream.close()
    except BrokenPipeError:
        return


class ReportingGroup(ReadGroup):
    """A command group that turns CommandFailed into an exit code and a message on standard error."""

    def invoke(self, ctx: Any) -> Any:  # as in the base class
        """Run the command."""
        try:
            return super().invoke(ctx)
        except CommandFailed as failure:
            report(failure)
            raise typer.Exit(failure.exit_code) from None


def show_flags(app: typer.Typer) -> None:
    """Make all commands of an application use these classes."""
    for command in app.registered_commands:
        command.cls = Command
    for group in app.registered_groups:
        group.cls = Group
        if group.typer_instance is not None:
            show_flags(group.typer_instance)
