"""The syntax of source files: parsed once in a process, for all tests that read the sources."""

import ast
import functools
from pathlib import Path


def syntax_of(source: Path) -> ast.Module:
    """Return the syntax tree of a file, which the caller does not change. A link and its target are one file."""
    return _parsed(source.resolve())


@functools.cache
def _parsed(source: Path) -> ast.Module:
    return ast.parse(source.read_text())
