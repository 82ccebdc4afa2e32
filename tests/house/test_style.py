"""Rules of style that a program can check. The rooms are those that import-linter watches."""

import ast
import functools
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

from support.syntax import syntax_of

ROOT = Path(__file__).resolve().parents[2]
ROOT_PACKAGES: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["root_packages"]
ROOMS = [*ROOT_PACKAGES, *(link.name for link in (ROOT / "sluicegate").iterdir() if link.is_symlink())]
SOURCES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))

FILE_LINES_MAX = 800  # one idea, as long as it takes; a limit must not cut it in two
FUNCTION_LINES_MAX = 60  # a screen
NAMES_THAT_SAY_NOTHING = {"common", "helpers", "misc", "util", "utils"}  # what fits nowhere lacks a name: find it
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
IGNORE_WITHOUT_CODE = re.compile(r"#\s*type:\s*ignore(?!\[)")


def offences(found: Callable[[str, ast.Module], object]) -> dict[str, object]:
    """Return what is found in the text and the syntax of each source, by file; of a good one nothing is."""
    return {str(path.relative_to(ROOT)): what for path, (text, tree) in read().items() if (what := found(text, tree))}


@functools.cache
def read() -> dict[Path, tuple[str, ast.Module]]:
    """Return the text and the syntax of every source."""
    return {path: (path.read_text(), syntax_of(path)) for path in SOURCES}


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


def test_files_are_short() -> None:
    assert offences(lambda text, _: max(0, len(text.splitlines()) - FILE_LINES_MAX)) == {}


def test_files_say_what_they_are() -> None:
    """The first thing in a file is what it is, and what is elsewhere."""
    assert offences(lambda _, tree: not ast.get_docstring(tree)) == {}


def test_functions_fit_a_screen() -> None:
    def long_ones(_: str, tree: ast.Module) -> dict[str, int]:
        lengths = {
            f"{function.name}, line {function.lineno}": (function.end_lineno or 0) - function.lineno + 1
            for function in functions(tree)
        }
        return {name: length for name, length in lengths.items() if length > FUNCTION_LINES_MAX}

    assert offences(long_ones) == {}


def test_names_say_something() -> None:
    names = {path: path.relative_to(ROOT).with_suffix("").parts for path in SOURCES}
    assert [path for path, parts in names.items() if not NAMES_THAT_SAY_NOTHING.isdisjoint(parts)] == []


def test_every_folder_has_a_sign_on_its_door() -> None:
    """The docstring of `__init__.py`: what lives here, what must not. Its presence is checked with the files'."""
    assert {path.parent for path in SOURCES if not (path.parent / "__init__.py").is_file()} == set()


def test_nothing_is_left_unfinished() -> None:
    assert offences(lambda text, _: [line for line in text.splitlines() if UNFINISHED.search(line)]) == {}


def test_an_ignore_names_its_code() -> None:
    assert offences(lambda text, _: [line for line in text.splitlines() if IGNORE_WITHOUT_CODE.search(line)]) == {}


def test_no_error_is_swallowed_whole() -> None:
    def swallowing(_: str, tree: ast.Module) -> list[str]:
        handlers = (node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler))
        return [f"line {handler.lineno}" for handler in handlers if swallows_everything(handler)]

    assert offences(swallowing) == {}
