"""The definition of an object as an operator gives it: a YAML file, and keys of it on the command line."""

from collections.abc import Sequence
from pathlib import Path

from sluicegate.gateway.cli.terminal.failures import USAGE, CommandFailed
from sluicegate.gateway.config.document import ConfigError, Document
from sluicegate.gateway.config.load import text_of
from sluicegate.gateway.config.sources import apply_settings
from sluicegate.gateway.config.yaml_document import read_yaml


def document_of(file: Path | None) -> Document:
    """Read a YAML file; None: there is none. Raises CommandFailed."""
    if file is None:
        return Document()
    try:
        return read_yaml(text_of(file), str(file))
    except ConfigError as error:
        raise CommandFailed(str(error), exit_code=USAGE) from None


def with_values(document: Document, values: Sequence[str]) -> dict[str, object]:
    """Return a document with keys set, each given as `key=value`. Raises CommandFailed."""
    problems = apply_settings(document, values)
    if problems:
        raise CommandFailed("; ".join(each.text for each in problems), exit_code=USAGE)
    return document.root
