"""Commands whose help shows flags as flags. Typer says `<bool>` behind them, as if a value were to follow."""

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


class _ShowsFlags:
    def get_params(self, ctx: Any) -> Any:  # as in the base class
        """Return the options and arguments; nothing is said of the type of a flag."""
        found = super().get_params(ctx)  # type: ignore[misc]  # of the class beside it
        for each in found:
            if getattr(each, "is_flag", False):
                each.metavar = ""
        return found


class Command(_ShowsFlags, TyperCommand):
    """A command."""


class Group(_ShowsFlags, TyperGroup):
    """A command that has others below it."""


def show_flags(app: typer.Typer) -> None:
    """Have all commands of an application be such commands."""
    for command in app.registered_commands:
        command.cls = Command
    for group in app.registered_groups:
        group.cls = Group
        if group.typer_instance is not None:
            show_flags(group.typer_instance)
