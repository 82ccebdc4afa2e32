"""Confirmation of commands that delete: a question at a terminal, and a refusal where there is none."""

import sys

import typer

from sluicegate.gateway.cli.terminal.failures import USAGE, CommandFailed

ADVICE = "--yes skips the confirmation."


def confirm(question: str) -> None:
    """Ask a question on standard error. Raises CommandFailed unless a person answers yes.

    A script has nobody who could answer: without a terminal, the command fails before it asks.
    """
    if not has_terminal():
        text = "nothing was changed: this needs a confirmation, and standard input is not a terminal"
        raise CommandFailed(text, exit_code=USAGE, advice=ADVICE)
    if not typer.confirm(question, err=True):
        raise CommandFailed("nothing was changed", advice=ADVICE)


def has_terminal() -> bool:
    """Return whether standard input is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()
