"""Habits that are measured, not argued. The rooms are those that import-linter watches."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["root_packages"]
SOURCES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))

FILE_LINES_MAX = 450
FUNCTION_LINES_MAX = 60  # a screen
NAMES_THAT_SAY_NOTHING = {"common", "helpers", "misc", "util", "utils"}  # what fits nowhere lacks a name: find it
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
IGNORE_WITHOUT_CODE = re.compile(r"#\s*type:\s*ignore(?!\[)")

each_source = pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def swallows_everything(handler: ast.ExceptHandler) -> bool:
    is_broad = handler.type is None or (
        isinstance(handler.type, ast.Name) and handler.type.id in ("Exception", "BaseException")
    )
    does_nothing = all(
        isinstance(statement, ast.Pass)
        or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        for statement in handler.body
    )
    return is_broad and does_nothing


def test_every_room_has_modules() -> None:
    """A room that is renamed must not leave these tests with nothing to check."""
    assert {path.relative_to(ROOT).parts[0] for path in SOURCES} == set(ROOMS)


@each_source
def test_files_are_short_and_say_what_they_are(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= FILE_LINES_MAX
    assert ast.get_docstring(ast.parse(text)), "the first thing in a file is what it is, and what is elsewhere"


@each_source
def test_functions_fit_a_screen(path: Path) -> None:
    lengths = {
        f"{function.name}, line {function.lineno}": (function.end_lineno or 0) - function.lineno + 1
        for function in functions(ast.parse(path.read_text()))
    }
    assert {name: length for name, length in lengths.items() if length > FUNCTION_LINES_MAX} == {}


@each_source
def test_names_say_something(path: Path) -> None:
    assert NAMES_THAT_SAY_NOTHING.isdisjoint(path.relative_to(ROOT).with_suffix("").parts)


@each_source
def test_every_folder_has_a_sign_on_its_door(path: Path) -> None:
    """The docstring of `__init__.py`: what lives here, what must not. Its presence is checked with the files'."""
    assert (path.parent / "__init__.py").is_file()


@each_source
def test_nothing_is_left_unfinished(path: Path) -> None:
    assert [line for line in path.read_text().splitlines() if UNFINISHED.search(line)] == []


@each_source
def test_an_ignore_names_its_code(path: Path) -> None:
    assert [line for line in path.read_text().splitlines() if IGNORE_WITHOUT_CODE.search(line)] == []


@each_source
def test_no_error_is_swallowed_whole(path: Path) -> None:
    handlers = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ExceptHandler))
    assert [f"line {handler.lineno}" for handler in handlers if swallows_everything(handler)] == []
