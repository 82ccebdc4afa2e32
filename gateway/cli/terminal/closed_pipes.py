"""Commands whose reader has gone, as with `sluicegate sub | head`: they end without a word, in good order."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import typer

from sluicegate.gateway.cli.terminal.flags import Group


class ReadGroup(Group):
    """A group of commands that somebody reads, for as long as somebody does."""

    def make_context(self, *arguments: Any, **settings: Any) -> Any:  # as in the base class
        """Read the arguments of the group itself, of which `--help` is one."""
        with _while_anybody_reads():
            return super().make_context(*arguments, **settings)

    def invoke(self, ctx: Any) -> Any:  # as in the base class
        """Run the command."""
        with _while_anybody_reads():
            return super().invoke(ctx)


@contextmanager
def _while_anybody_reads() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        _forget(sys.stdout)
        raise typer.Exit from None
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # rich ends the process itself, as a failure
            raise typer.Exit from None
        raise


def _forget(stream: TextIO) -> None:
    """Keep the interpreter from flushing into the closed pipe when it ends."""
    try:
        stream.close()
    except BrokenPipeError:
        return
